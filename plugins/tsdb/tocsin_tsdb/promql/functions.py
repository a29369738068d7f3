"""Function calls: which kernel computes a function, and what becomes of labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import kernels, labelfunctions, nodes, overtime, rates, selectors
from .context import Evaluation
from .elementwise import MATH, TIME_PARTS, clamp, round_to
from .extended import check_extension, extended_rate
from .frames import (
    SAME_LABELS,
    Frame,
    RangeVector,
    Row,
    Text,
    Value,
    Windows,
    empty_frame,
    merge_same_labels,
    without_name,
)
from .histograms import fractions, quantile_rows
from .info import enrich
from .interface import METRIC_NAME, BoolArray, ExecutionError, Float64Array
from .numbers import format_general
from .selectors import Kernel

_COUNTER_SUFFIXES = ("_total", "_sum", "_count", "_bucket")
_NATIVE_ONLY = frozenset(("histogram_avg", "histogram_count", "histogram_stddev", "histogram_stdvar", "histogram_sum"))
_KEEP_NAME = frozenset(("first_over_time", "last_over_time"))


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call being evaluated: its node, when, and how to evaluate arguments."""

    ev: Evaluation
    node: nodes.Call
    evaluate: Callable[[Evaluation, nodes.Expr], Value]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.node.function.name

    def has(self, index: int) -> bool:
        """Tell whether the optional argument was given."""
        return index < len(self.node.args)

    def frame(self, index: int) -> Frame:
        """Evaluate an instant vector argument."""
        value = self.evaluate(self.ev, self.node.args[index])
        assert isinstance(value, Frame)
        return value

    def row(self, index: int) -> Float64Array:
        """Evaluate a scalar argument; returns [steps]."""
        value = self.evaluate(self.ev, self.node.args[index])
        assert isinstance(value, Row)
        return value.values

    def range_vector(self, index: int) -> RangeVector:
        """Evaluate a range vector argument. Raises ExecutionError for a modifier that the function cannot use."""
        argument = nodes.unwrap(self.node.args[index])
        if isinstance(argument, nodes.MatrixSelector):
            check_extension(argument.selector.extension, self.name)
        value = self.evaluate(self.ev, self.node.args[index])
        assert isinstance(value, RangeVector)
        return value

    def text(self, index: int) -> str:
        """Evaluate a string argument."""
        value = self.evaluate(self.ev, self.node.args[index])
        assert isinstance(value, Text)
        return value.value

    def texts(self, start: int) -> list[str]:
        """Evaluate all string arguments from one on."""
        return [self.text(index) for index in range(start, len(self.node.args))]

    def over_time(self, vector: RangeVector, kernel: Kernel) -> Frame:
        """Compute a value from every window."""
        values, present = selectors.apply(self.ev, vector, kernel)
        frame = Frame(vector.labels, values, present).pruned()
        return frame if self.name in _KEEP_NAME else self.without_names(frame)

    def without_names(self, frame: Frame) -> Frame:
        """Drop the metrics' names; series that only they told apart are an error, even if they never meet."""
        labels = without_name(frame.labels)
        if len(set(labels)) < len(labels):
            raise ExecutionError(SAME_LABELS)
        return Frame(labels, frame.values, frame.present)


def call(this: FunctionCall) -> Value:
    """Evaluate a call."""
    name = this.name
    if name in MATH:
        vector = this.frame(0)
        return vector.nameless(MATH[name](vector.values))
    if name in TIME_PARTS:
        return _time_part(this)
    if name in overtime.SIMPLE:
        simple = overtime.SIMPLE[name]
        return this.over_time(this.range_vector(0), lambda block: (simple(block, this.ev.control), block.counts > 0))
    if name in _NATIVE_ONLY:
        return _no_histograms(this)
    return _OTHERS[name](this)


def _time_part(this: FunctionCall) -> Frame:
    if not this.has(0):
        values = TIME_PARTS[this.name](np.floor(this.ev.times / 1000))
        return Frame([()], values[None, :], np.ones((1, this.ev.steps), dtype=np.bool_))
    vector = this.frame(0)
    return vector.nameless(TIME_PARTS[this.name](vector.values))


def _extrapolated(this: FunctionCall) -> Frame:
    vector = this.range_vector(0)
    counter, per_second = this.name != "delta", this.name == "rate"
    extension = vector.extension

    def kernel(block: Windows) -> tuple[Float64Array, BoolArray]:
        if extension is not None:
            return extended_rate(block, extension, counter=counter, per_second=per_second)
        result: tuple[Float64Array, BoolArray] = kernels.extrapolated(
            block.timestamps,
            block.values,
            block.low,
            block.high,
            block.starts,
            block.ends,
            block.range_ms,
            counter,
            per_second,
        )
        return result

    values, present = selectors.apply(this.ev, vector, kernel)
    frame = Frame(vector.labels, values, present).pruned()
    if counter:
        _note_non_counters(this, frame)
    return this.without_names(frame)


def _note_non_counters(this: FunctionCall, frame: Frame) -> None:
    names = {value for labels in frame.labels for name, value in labels if name == METRIC_NAME}
    for name in sorted(names):
        if name and not name.endswith(_COUNTER_SUFFIXES):
            text = f'metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "{name}"'
            this.ev.notes.info(this.node.args[0], text)


def _last_two(this: FunctionCall) -> Frame:
    per_second = this.name == "irate"
    return this.over_time(this.range_vector(0), lambda block: rates.last_two(block, per_second=per_second))


def _deriv(this: FunctionCall) -> Frame:
    def slopes(block: Windows) -> tuple[Float64Array, BoolArray]:
        slope, _, present = rates.regression(block, this.ev.control, None)
        return slope, present

    return this.over_time(this.range_vector(0), slopes)


def _predict_linear(this: FunctionCall) -> Frame:
    vector, ahead = this.range_vector(0), this.row(1)

    def predictions(block: Windows) -> tuple[Float64Array, BoolArray]:
        slope, intercept, present = rates.regression(block, this.ev.control, block.times)
        return slope * ahead + intercept, present

    return this.over_time(vector, predictions)


def _smoothing(this: FunctionCall) -> Frame:
    vector, level, trend = this.range_vector(0), this.row(1), this.row(2)
    control = this.ev.control
    return this.over_time(vector, lambda block: (overtime.smoothing(block, control, level, trend), block.counts > 1))


def _integral(this: FunctionCall) -> Frame:
    vector = this.range_vector(0)
    strategy = this.row(1) if this.has(1) else np.full(this.ev.steps, 2.0)
    control = this.ev.control
    return this.over_time(vector, lambda block: (overtime.integral(block, control, strategy), block.counts > 1))


def _quantile_over_time(this: FunctionCall) -> Frame:
    q, vector = this.row(0), this.range_vector(1)
    control = this.ev.control
    frame = this.over_time(vector, lambda block: (overtime.quantile(block, control, q), block.counts > 0))
    this.ev.notes.warn_about_quantiles(this.node.args[0], q[frame.present.any(axis=0)])
    return frame


def _absent(this: FunctionCall) -> Frame:
    return labelfunctions.absent(this.frame(0).present, this.node.args[0])


def _absent_over_time(this: FunctionCall) -> Frame:
    vector = this.range_vector(0)
    present = selectors.apply(this.ev, vector, lambda block: (np.zeros(block.low.shape), block.counts > 0))[1]
    return labelfunctions.absent(present, this.node.args[0])


def _round(this: FunctionCall) -> Frame:
    vector = this.frame(0)
    nearest = this.row(1) if this.has(1) else np.ones(this.ev.steps)
    return vector.nameless(round_to(vector.values, nearest))


def _clamp(this: FunctionCall) -> Frame:
    vector = this.frame(0)
    low, high = np.full(this.ev.steps, -np.inf), np.full(this.ev.steps, np.inf)
    if this.name == "clamp":
        low, high = this.row(1), this.row(2)
    elif this.name == "clamp_min":
        low = this.row(1)
    else:
        high = this.row(1)
    return vector.nameless(clamp(vector.values, low, high), vector.present & ~(high < low))


def _timestamp(this: FunctionCall) -> Frame:
    """Of a selector: the samples' own times; of anything else: the time of evaluation."""
    argument = nodes.unwrap(this.node.args[0])
    if isinstance(argument, nodes.VectorSelector):
        stamps = selectors.instant(this.ev, argument, stamps=True)
        return stamps.nameless(stamps.values / 1000)
    vector = this.frame(0)
    return vector.nameless(np.broadcast_to(this.ev.times / 1000, vector.values.shape))


def _no_histograms(this: FunctionCall) -> Frame:
    """A function of native histograms leaves out numbers, and the store keeps nothing else."""
    this.frame(0)
    return empty_frame(this.ev.steps)


def _start_timestamp(this: FunctionCall) -> Frame:
    """The store keeps no start times, and a sample without one has no place in the answer."""
    this.frame(0)
    return empty_frame(this.ev.steps)


def _scalar(this: FunctionCall) -> Row:
    vector = this.frame(0)
    single = vector.present.sum(axis=0) == 1
    values = np.where(vector.present, vector.values, 0.0).sum(axis=0)
    return Row(np.where(single, values, np.nan))


def _vector(this: FunctionCall) -> Frame:
    return Frame([()], this.row(0)[None, :], np.ones((1, this.ev.steps), dtype=np.bool_))


def _constant(value: Callable[[Evaluation], float]) -> Callable[[FunctionCall], Row]:
    return lambda this: Row(np.full(this.ev.steps, value(this.ev)))


def _sort_by_label(this: FunctionCall) -> Frame:
    return labelfunctions.sort_by_labels(this.frame(0), this.texts(1), descending=this.name.endswith("_desc"))


def _label_replace(this: FunctionCall) -> Frame:
    return labelfunctions.replace_label(this.frame(0), *this.texts(1))


def _label_join(this: FunctionCall) -> Frame:
    target, separator, *sources = this.texts(1)
    return labelfunctions.join_labels(this.frame(0), target, separator, sources)


def _histogram_quantile(this: FunctionCall) -> Frame:
    q = this.row(0)
    this.ev.notes.warn_about_quantiles(this.node.args[0], q)
    labels, values, present = quantile_rows(this.ev, this.frame(1), [q], this.node.args[1])
    return merge_same_labels(labels, values[0], present)


def _histogram_quantiles(this: FunctionCall) -> Frame:
    vector, name = this.frame(0), this.text(1)
    levels = [this.row(index) for index in range(2, len(this.node.args))]
    for index, q in enumerate(levels):
        this.ev.notes.warn_about_quantiles(this.node.args[index + 2], q)
    labels, values, present = quantile_rows(this.ev, vector, levels, this.node.args[0])
    parts = []
    for q, rows in zip(levels, values, strict=True):
        text = format_general(float(q[0]))
        text = text if "." in text or "e" in text or text.endswith(("Inf", "NaN")) else text + ".0"
        parts.append(labelfunctions.with_label(Frame(labels, rows, present), name, text))
    stacked = np.concatenate([part.values for part in parts]), np.concatenate([part.present for part in parts])
    return merge_same_labels([each for part in parts for each in part.labels], *stacked)


def _histogram_fraction(this: FunctionCall) -> Frame:
    low, high = this.row(0), this.row(1)
    return merge_same_labels(*fractions(this.ev, this.frame(2), low, high, this.node.args[2]))


def _info(this: FunctionCall) -> Frame:
    selector = this.node.args[1] if this.has(1) else None
    assert selector is None or isinstance(selector, nodes.VectorSelector)
    return enrich(this.ev, this.frame(0), selector)


_OTHERS: dict[str, Callable[[FunctionCall], Value]] = {
    "absent": _absent,
    "absent_over_time": _absent_over_time,
    "changes": lambda this: this.over_time(this.range_vector(0), rates.changes),
    "clamp": _clamp,
    "clamp_max": _clamp,
    "clamp_min": _clamp,
    "delta": _extrapolated,
    "deriv": _deriv,
    "double_exponential_smoothing": _smoothing,
    "end": _constant(lambda ev: ev.end_ms / 1000),
    "histogram_fraction": _histogram_fraction,
    "histogram_quantile": _histogram_quantile,
    "histogram_quantiles": _histogram_quantiles,
    "holt_winters": _smoothing,
    "idelta": _last_two,
    "increase": _extrapolated,
    "info": _info,
    "integral": _integral,
    "irate": _last_two,
    "label_join": _label_join,
    "label_replace": _label_replace,
    "max_of": lambda this: Row(np.maximum(this.row(0), this.row(1))),
    "min_of": lambda this: Row(np.minimum(this.row(0), this.row(1))),
    "pi": _constant(lambda ev: float(np.pi)),
    "predict_linear": _predict_linear,
    "quantile_over_time": _quantile_over_time,
    "range": _constant(lambda ev: (ev.end_ms - ev.start_ms) / 1000),
    "rate": _extrapolated,
    "resets": lambda this: this.over_time(this.range_vector(0), rates.resets),
    "round": _round,
    "scalar": _scalar,
    "sort": lambda this: labelfunctions.sort_by_value(this.frame(0), descending=False),
    "sort_by_label": _sort_by_label,
    "sort_by_label_desc": _sort_by_label,
    "sort_desc": lambda this: labelfunctions.sort_by_value(this.frame(0), descending=True),
    "start": _constant(lambda ev: ev.start_ms / 1000),
    "start_timestamp": _start_timestamp,
    "step": _constant(lambda ev: ev.step_ms / 1000),
    "time": lambda this: Row(this.ev.times / 1000),
    "timestamp": _timestamp,
    "vector": _vector,
}
