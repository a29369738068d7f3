"""Selectors: from the store's samples to instant vectors and range windows at every step."""

from __future__ import annotations

import numpy as np

from . import nodes
from .context import Evaluation
from .frames import Frame, Windows, empty_frame
from .interface import STALE_NAN_BITS, BoolArray, Float64Array, Int64Array, Labels, Selection


def reference_times(ev: Evaluation, at: nodes.At | None, offset_ms: int | None) -> Int64Array:
    """Return the times that a selector looks at, [steps]: the steps unless `@` says otherwise, shifted by `offset`."""
    if at is None:
        base = ev.times
    else:
        fixed = {"start": ev.start_ms, "end": ev.end_ms}[at] if isinstance(at, str) else at
        base = np.full(ev.steps, fixed, dtype=np.int64)
    return base - (offset_ms or 0)


def fetch(ev: Evaluation, selector: nodes.VectorSelector, after_ms: int, until_ms: int) -> Selection:
    """Read the samples in (after_ms, until_ms] from the store; the caller releases them from the budget."""
    ev.control.check()
    selection = ev.queryable.select(selector.matchers, after_ms + 1, until_ms, max_samples=max(0, ev.budget.left))
    ev.budget.hold(len(selection.values))
    ev.control.check()
    return selection


def is_stale(values: Float64Array) -> BoolArray:
    """Tell which values are staleness markers."""
    mask: BoolArray = values.view(np.uint64) == STALE_NAN_BITS
    return mask


def instant(ev: Evaluation, selector: nodes.VectorSelector) -> tuple[Frame, Int64Array]:
    """Evaluate an instant selector: the newest sample within the look-back, unless it is a staleness marker.

    Returns the frame and the samples' own timestamps, [series x steps].
    """
    times = reference_times(ev, selector.at, selector.offset_ms)
    selection = fetch(ev, selector, int(times[0]) - ev.lookback_ms, int(times[-1]))
    samples = len(selection.values)
    if not samples:
        return empty_frame(ev.steps), np.empty((0, ev.steps), dtype=np.int64)
    ev.budget.hold(len(selection.labels) * ev.steps)
    newest = positions(selection.timestamps, selection.offsets, times) - 1
    starts = selection.offsets[:-1, None]
    index = np.maximum(newest, starts)
    stamps = selection.timestamps[index]
    present = (newest >= starts) & (stamps > times - ev.lookback_ms)
    values = selection.values[index]
    stale = is_stale(selection.values)
    if stale.any():
        present &= ~stale[index]
    ev.budget.release(samples)
    ev.budget.total += int(np.count_nonzero(present))
    return Frame(selection.labels, values, present), stamps


def windows(ev: Evaluation, node: nodes.MatrixSelector) -> Windows:
    """Evaluate a range selector: the samples in (t - range, t] without staleness markers."""
    selector = node.selector
    ends = reference_times(ev, selector.at, selector.offset_ms)
    selection = fetch(ev, selector, int(ends[0]) - node.range_ms, int(ends[-1]))
    stale = is_stale(selection.values)
    timestamps, values, offsets = selection.timestamps, selection.values, selection.offsets
    if stale.any():
        kept = np.concatenate(([0], np.cumsum(~stale)))
        timestamps, values, offsets = timestamps[~stale], values[~stale], kept[offsets]
    return cut(ev, selection.labels, timestamps, values, offsets, ends, node.range_ms)


def cut(
    ev: Evaluation,
    labels: list[Labels],
    timestamps: Int64Array,
    values: Float64Array,
    offsets: Int64Array,
    ends: Int64Array,
    range_ms: int,
) -> Windows:
    """Lay windows of (end - range, end] over samples in CSR form."""
    ev.budget.hold(len(labels) * ev.steps)
    high = positions(timestamps, offsets, ends)
    low = positions(timestamps, offsets, ends - range_ms)
    ev.budget.total += int(high.sum() - low.sum())
    return Windows(labels, timestamps, values, low, high, ends - range_ms, ends, ev.times, range_ms)


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
