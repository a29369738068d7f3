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
        starts = offsets[:-1, None] - part.start
        newest = positions(timestamps, offsets - part.start, times) - 1
        index = np.maximum(newest, starts)
        found = timestamps[index]
        present = (newest >= starts) & (found > times - ev.lookback_ms)
        stale = is_stale(values)
        if stale.any():
            present &= ~stale[index]
        frame.present[rows] = present
        frame.values[rows] = found if stamps else values[index]
        if smoothed:
            after = np.minimum(index + 1, len(values) - 1)
            near = timestamps[after] <= times + ev.lookback_ms
            inner = near & (found < times) & (index + 1 < offsets[1:, None] - part.start) & ~stale[after]
            lines = line(found, timestamps[after], values[index], values[after], times)
            np.copyto(frame.values[rows], lines, where=inner)
    ev.budget.total += int(np.count_nonzero(frame.present))
    return frame


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


def positions(timestamps: Int64Array, offsets: Int64Array, times: Int64Array) -> Int64Array:
    """Return, [series x steps], the index after the last sample that is not later than the step's time.

    Every sample is put into the first step that sees it; counting up along the steps gives the indexes. That is linear
    in samples and cells, where a binary search per cell is not.
    """
    steps, series = len(times), len(offsets) - 1
    if steps == 1 or times[0] == times[-1]:
        seen = np.concatenate(([0], np.cumsum(timestamps <= times[0])))
        column = offsets[:-1] + seen[offsets[1:]] - seen[offsets[:-1]]
        return np.repeat(column[:, None], steps, axis=1)
    interval = int(times[1] - times[0])
    bins = np.clip(-((int(times[0]) - timestamps) // interval), 0, steps)
    bins += np.repeat(np.arange(series) * (steps + 1), np.diff(offsets))
    per_bin = np.bincount(bins, minlength=series * (steps + 1)).reshape(series, steps + 1)
    indexes: Int64Array = np.cumsum(per_bin[:, :steps], axis=1)
    indexes += offsets[:-1, None]
    return indexes
