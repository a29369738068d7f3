"""Walking the syntax tree: every node yields its values at all steps at once."""

from __future__ import annotations

import numpy as np

from . import nodes, selectors
from .aggregate import aggregate
from .binary import binary
from .context import Evaluation
from .frames import Frame, RangeVector, Row, Text, Value, empty_frame
from .functions import FunctionCall, call
from .grouping import by_labels, group, without_labels
from .interface import ExecutionError, Float64Array, TooManySamples
from .labelfunctions import is_valid_name
from .numbers import format_general
from .ranking import count_values, first, sample_ratio, top

_STEP_DEPENDENT = frozenset(
    (
        "day_of_month",
        "day_of_week",
        "day_of_year",
        "days_in_month",
        "hour",
        "minute",
        "month",
        "predict_linear",
        "time",
        "timestamp",
        "year",
    )
)
_FIRST_INT64_OVERFLOW = float(1 << 63)


def evaluate(ev: Evaluation, expr: nodes.Expr) -> Value:
    """Evaluate an expression at `ev.times`; of what that needed, only the value stays in the budget."""
    ev.control.check()
    held = ev.budget.held
    fixed = ev.steps > 1 and isinstance(expr, nodes.Aggregate | nodes.Binary | nodes.Call) and _is_fixed(expr)
    value = _evaluate_once(ev, expr) if fixed else _evaluate(ev, expr)
    ev.budget.keep(held, value.cells)
    return value


def _evaluate(ev: Evaluation, expr: nodes.Expr) -> Value:
    match expr:
        case nodes.NumberLiteral():
            return Row(np.full(ev.steps, expr.value))
        case nodes.StringLiteral():
            return Text(expr.value)
        case nodes.Paren():
            return evaluate(ev, expr.expr)
        case nodes.VectorSelector():
            return selectors.instant(ev, expr)
        case nodes.MatrixSelector():
            return selectors.range_vector(ev, expr)
        case nodes.Subquery():
            return _subquery(ev, expr)
        case nodes.Unary():
            return _unary(ev, expr)
        case nodes.Binary():
            return _binary(ev, expr)
        case nodes.Aggregate():
            return _aggregate(ev, expr)
        case nodes.Call():
            return call(FunctionCall(ev, expr, evaluate))


def frame(ev: Evaluation, expr: nodes.Expr) -> Frame:
    """Evaluate an expression that the type checker knows to be an instant vector."""
    value = evaluate(ev, expr)
    assert isinstance(value, Frame)
    return value


def _is_fixed(expr: nodes.Expr) -> bool:
    """Tell whether the value is the same at every step, because every selector in it is pinned with `@`."""
    match expr:
        case nodes.VectorSelector() | nodes.Subquery():
            return expr.at is not None
        case nodes.Call() if expr.function.name in _STEP_DEPENDENT:
            return False
        case _:
            return all(_is_fixed(child) for child in nodes.children(expr))


def _evaluate_once(ev: Evaluation, expr: nodes.Expr) -> Value:
    value = evaluate(ev.at(ev.times[:1]), expr)
    if isinstance(value, Row):
        return Row(np.repeat(value.values, ev.steps))
    assert isinstance(value, Frame)
    return ev.spread(value)


def _subquery(ev: Evaluation, node: nodes.Subquery) -> RangeVector:
    """Evaluate the inner expression on multiples of the subquery's step, and take its results for samples."""
    ends = selectors.reference_times(ev, node.at, node.offset_ms)
    step = node.step_ms or ev.subquery_step_ms
    after = int(ends[0]) - node.range_ms
    start = (after // step + 1) * step
    if (int(ends[-1]) - start) // step >= ev.budget.left:
        raise TooManySamples
    times = np.arange(start, int(ends[-1]) + 1, step, dtype=np.int64)
    if not len(times):
        inner, times = empty_frame(1), np.array([start], dtype=np.int64)
    else:
        inner = frame(ev.at(times), node.expr)
    rows, columns = np.nonzero(inner.present)
    offsets = np.concatenate(([0], np.cumsum(inner.present.sum(axis=1)))).astype(np.int64)
    samples = inner.values[rows, columns]
    ev.budget.hold(len(samples))
    return RangeVector(inner.labels, times[columns], samples, offsets, ends, ev.times, node.range_ms)


def _unary(ev: Evaluation, node: nodes.Unary) -> Value:
    value = evaluate(ev, node.expr)
    if node.operator == "+":
        return value
    if isinstance(value, Row):
        return Row(-value.values)
    assert isinstance(value, Frame)
    return value.nameless(-value.values)


def _binary(ev: Evaluation, node: nodes.Binary) -> Value:
    first, operations = nodes.chain(node)
    held = ev.budget.held
    value = evaluate(ev, first)
    for operation in operations:
        right = evaluate(ev, operation.right)
        assert isinstance(value, Frame | Row)
        assert isinstance(right, Frame | Row)
        value = binary(operation, value, right, ev.budget)
        ev.budget.keep(held, value.cells)
    return value


def _aggregate(ev: Evaluation, node: nodes.Aggregate) -> Value:
    parameter = None if node.param is None else evaluate(ev, node.param)
    numbers = parameter.values if isinstance(parameter, Row) else np.empty(0)
    vector = frame(ev, node.expr)
    key = without_labels(node.grouping) if node.without else by_labels(node.grouping)
    groups = group(vector.labels, key)
    match node.operator:
        case "topk" | "bottomk" | "limitk":
            count = _count_parameter(numbers)
            if node.operator == "limitk":
                return first(vector, groups, count)
            return top(vector, groups, count, largest=node.operator == "topk")
        case "limit_ratio":
            return sample_ratio(vector, _ratio_parameter(ev, node, numbers))
        case "count_values":
            assert isinstance(parameter, Text)
            if not is_valid_name(parameter.value):
                raise ExecutionError(f'invalid label name "{parameter.value}"')
            dropped = node.without and parameter.value in node.grouping
            return count_values(vector, groups, parameter.value, drop_label=dropped)
        case "quantile":
            assert node.param is not None
            ev.notes.warn_about_quantiles(node.param, _extremes(numbers))
    return aggregate(node.operator, vector, groups, numbers) if vector.labels else vector


def _extremes(numbers: Float64Array) -> Float64Array:
    """Return NaN if there is one, the largest and the smallest number: what a warning about parameters names."""
    known = numbers[~np.isnan(numbers)]
    outermost = [known.max(), known.min()] if len(known) else []
    return np.array([*numbers[np.isnan(numbers)][:1], *outermost])


def _count_parameter(numbers: Float64Array) -> Float64Array:
    """Check the parameter of topk and its relatives, [steps]; below 1 at every step it is not looked at further."""
    if (numbers < 1).all():
        return np.zeros(len(numbers))
    if np.isnan(numbers).any():
        raise ExecutionError("Parameter value is NaN")
    if numbers.min() <= -_FIRST_INT64_OVERFLOW:
        raise ExecutionError(f"Scalar value {format_general(float(numbers.min()))} underflows int64")
    if numbers.max() >= _FIRST_INT64_OVERFLOW:
        raise ExecutionError(f"Scalar value {format_general(float(numbers.max()))} overflows int64")
    return np.trunc(numbers)


def _ratio_parameter(ev: Evaluation, node: nodes.Aggregate, numbers: Float64Array) -> Float64Array:
    assert node.param is not None
    if np.isnan(numbers).any():
        raise ExecutionError("Ratio value is NaN")
    for ratio in (numbers.max(), numbers.min()):
        if abs(ratio) > 1:
            got, capped = format_general(float(ratio)), "1" if ratio > 1 else "-1"
            text = f"ratio value should be between -1 and 1, got {got}, capping to {capped}"
            ev.notes.warn(node.param, text)
    return np.clip(numbers, -1, 1)
