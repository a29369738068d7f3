"""Selectors: from the store's samples to instant vectors and range windows at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from . import nodes
from .context import Evaluation
from .extended import line, widen
from .frames import Frame, RangeVector, Windows
from .interface import STALE_NAN_BITS, BoolArray, Float64Array, Int64Array, Selection
from .kernels import latest, positions

_BLOCK_CELLS = 1 << 16
_BLOCK_SAMPLES = 1 << 20


def reference_times(ev: Evaluation, at: nodes.At | None, offset_ms: int | None) -> Int64Array:
    """Return the times that a selector looks at, [steps]: the steps unless `@` says otherwise, shifted by `offset`."""
    if at is None:
        base = ev.times
    else:
        fixed = {"start": ev.start_ms, "end": ev.end_ms}[at] if isinstance(at, str) else at
        base = np.full(ev.steps, fixed, dtype=np.int64)
    return base - (offset_ms or 0)


def fetch(ev: Evaluation, selector: nodes.VectorSelector, after_ms: int, until_ms: int) -> Selection:
    """Read the samples in (after_ms, until_ms] from the store, as many as the budget has left."""
    ev.control.check()
    selection = ev.queryable.select(
        selector.matchers, after_ms + 1, until_ms, max_samples=max(0, ev.budget.left), check=ev.control.check
    )
    ev.budget.hold(len(selection.values))
    ev.control.check()
    return selection


def is_stale(values: Float64Array) -> BoolArray:
    """Tell which values are staleness markers."""
    mask: BoolArray = values.view(np.uint64) == STALE_NAN_BITS
    return mask


def instant(ev: Evaluation, selector: nodes.VectorSelector, *, stamps: bool = False) -> Frame:
    """Evaluate an instant selector: the newest sample within the look-back, unless it is a staleness marker.

    With `stamps` the values are the samples' own times in milliseconds instead. A smoothed selector takes the value from
    the line to the next sample, if there is one within the look-back.
    """
    smoothed = selector.extension == "smoothed" and not stamps
    times = reference_times(ev, selector.at, selector.offset_ms)
    until = int(times[-1]) + (ev.lookback_ms if smoothed else 0)
    selection = fetch(ev, selector, int(times[0]) - ev.lookback_ms, until)
    series = len(selection.labels)
    ev.budget.hold(series * ev.steps)
    frame = Frame(selection.labels, np.empty((series, ev.steps)), np.empty((series, ev.steps), dtype=np.bool_))
    for rows in row_blocks(series, ev.steps, len(selection.values)):
        ev.control.check()
        offsets = selection.offsets[rows.start : rows.stop + 1]
        part = slice(int(offsets[0]), int(offsets[-1]))
        timestamps, values = selection.timestamps[part], selection.values[part]
        own = offsets - part.start
        out, present = frame.values[rows], frame.present[rows]
        latest(timestamps, values, own, times, ev.lookback_ms, stamps, out, present.view(np.uint8))
        if smoothed:
            _smooth(out, timestamps, values, own, times, ev.lookback_ms)
    ev.budget.total += int(np.count_nonzero(frame.present))
    return frame


def _smooth(
    out: Float64Array,
    timestamps: Int64Array,
    values: Float64Array,
    offsets: Int64Array,
    times: Int64Array,
    lookback_ms: int,
) -> None:
    """Replace values by those on the line to the next sample, where there is one within the look-back."""
    starts = offsets[:-1, None]
    index = np.maximum(positions(timestamps, offsets, times) - 1, starts)
    after = np.minimum(index + 1, len(values) - 1)
    found, following = timestamps[index], timestamps[after]
    inner = (following <= times + lookback_ms) & (found < times) & (index + 1 < offsets[1:, None])
    inner &= ~is_stale(values)[after]
    np.copyto(out, line(found, following, values[index], values[after], times), where=inner)


def range_vector(ev: Evaluation, node: nodes.MatrixSelector) -> RangeVector:
    """Evaluate a range selector: the samples in (t - range, t] without staleness markers."""
    selector = node.selector
    ends = reference_times(ev, selector.at, selector.offset_ms)
    before = 0 if selector.extension is None else ev.lookback_ms
    after = ev.lookback_ms if selector.extension == "smoothed" else 0
    selection = fetch(ev, selector, int(ends[0]) - node.range_ms - before, int(ends[-1]) + after)
    timestamps, values, offsets = selection.timestamps, selection.values, selection.offsets
    stale = is_stale(values)
    if stale.any():
        kept = np.concatenate(([0], np.cumsum(~stale)))
        timestamps, values, offsets = timestamps[~stale], values[~stale], kept[offsets]
    return RangeVector(selection.labels, timestamps, values, offsets, ends, ev.times, node.range_ms, selector.extension)


def row_blocks(rows: int, steps: int, samples: int) -> Iterator[slice]:
    """Split rows so that a block's cells and samples, and what is computed from them, stay small."""
    size = max(1, min(_BLOCK_CELLS // steps, _BLOCK_SAMPLES * rows // max(1, samples)))
    for start in range(0, rows, size):
        yield slice(start, min(rows, start + size))


def windows(ev: Evaluation, vector: RangeVector) -> Iterator[tuple[slice, Windows]]:
    """Cut the windows, block by block: which series, and their windows."""
    starts = vector.ends - vector.range_ms
    for rows in row_blocks(len(vector.labels), len(vector.ends), len(vector.values)):
        ev.control.check()
        offsets = vector.offsets[rows.start : rows.stop + 1]
        part = slice(int(offsets[0]), int(offsets[-1]))
        timestamps, values = vector.timestamps[part], vector.values[part]
        low = positions(timestamps, offsets - part.start, starts)
        high = positions(timestamps, offsets - part.start, vector.ends)
        block = Windows(timestamps, values, low, high, starts, vector.ends, vector.times, vector.range_ms)
        if vector.extension is not None:
            widen(block, offsets - part.start, vector.extension, ev.lookback_ms)
        ev.budget.total += int(block.high.sum() - block.low.sum())
        yield rows, block


Kernel: TypeAlias = Callable[[Windows], tuple[Float64Array, BoolArray]]
"""Computes a value and whether there is one for every window."""


def apply(ev: Evaluation, vector: RangeVector, kernel: Kernel) -> tuple[Float64Array, BoolArray]:
    """Run a kernel over all windows; returns values and presence, [series x steps]."""
    shape = (len(vector.labels), len(vector.ends))
    ev.budget.hold(shape[0] * shape[1])
    values, present = np.empty(shape), np.empty(shape, dtype=np.bool_)
    for rows, block in windows(ev, vector):
        values[rows], present[rows] = kernel(block)
    return values, present
