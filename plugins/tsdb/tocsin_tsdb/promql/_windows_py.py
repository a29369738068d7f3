"""Samples at the steps of a grid, with NumPy: the twin of `_windows.pyx`.

Samples of several series are in CSR form: series i owns `timestamps[offsets[i]:offsets[i + 1]]` (ms, ascending) and the same
slice of `values`. Results are [series x steps].
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .interface import STALE_NAN_BITS, BoolArray, Float64Array, Int64Array

_EXTRAPOLATION_THRESHOLD = 1.1
"""A window's edge farther from the outermost sample than this many average intervals is not extrapolated to."""


def positions(timestamps: Int64Array, offsets: Int64Array, times: Int64Array) -> Int64Array:
    """Return the index after the last sample that is not later than the step's time; the steps are equidistant.

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


def latest(
    timestamps: Int64Array,
    values: Float64Array,
    offsets: Int64Array,
    times: Int64Array,
    lookback: int,
    stamps: bool,
    out: Float64Array,
    present: npt.NDArray[np.uint8],
) -> None:
    """Find the newest sample of each step, no older than the look-back and no staleness marker.

    `out` gets its value, or with `stamps` its time (ms), and `present` 1; where there is none both get 0.
    """
    if not len(values):
        out[...], present[...] = 0, 0
        return
    starts = offsets[:-1, None]
    newest = positions(timestamps, offsets, times) - 1
    index = np.minimum(np.maximum(newest, starts), len(values) - 1)
    found = timestamps[index]
    there = (newest >= starts) & (found > times - lookback) & (values.view(np.uint64) != STALE_NAN_BITS)[index]
    present[...] = there
    out[...] = np.where(there, found if stamps else values[index], 0)


def extrapolated(
    timestamps: Int64Array,
    values: Float64Array,
    low: Int64Array,
    high: Int64Array,
    starts: Int64Array,
    ends: Int64Array,
    range_ms: int,
    counter: bool,
    per_second: bool,
) -> tuple[Float64Array, BoolArray]:
    """Return `rate` (counter, per second), `increase` (counter) or `delta` of every window, and which have two samples.

    The window of series i at step s holds the samples `low[i, s]` to `high[i, s]` (exclusive) and covers the times
    (starts[s], ends[s]]. Values of windows with fewer samples are arbitrary.
    """
    enough = high - low > 1
    if not enough.any():
        return np.zeros(enough.shape), enough
    first, last = np.where(enough, low, 0), np.where(enough, high - 1, 0)
    first_value = values[first]
    result = values[last] - first_value
    if counter:
        add_resets(values, first, last, result)
    first_time, last_time = timestamps[first], timestamps[last]
    sampled = (last_time - first_time) / 1000
    average = sampled / (last - first)
    threshold = average * _EXTRAPOLATION_THRESHOLD
    to_start = (first_time - starts) / 1000
    to_end = (ends - last_time) / 1000
    np.divide(average, 2, out=to_start, where=to_start >= threshold)
    if counter:  # a counter cannot have been negative: do not extrapolate beyond its zero point
        to_zero = sampled * (first_value / result)
        np.copyto(to_start, to_zero, where=(result > 0) & (first_value >= 0) & (to_zero < to_start))
    np.divide(average, 2, out=to_end, where=to_end >= threshold)
    seconds = range_ms / 1000 if per_second else 1.0
    result *= (sampled + to_start + to_end) / sampled / seconds
    return result, enough


def resets_before(values: Float64Array) -> tuple[Int64Array, Int64Array]:
    """Return how many resets happened up to and including each sample, and where they are.

    A reset is a sample lower than its predecessor; pairs across two series are harmless, as no window spans them.
    """
    falling = values[1:] < values[:-1]
    return np.concatenate(([0], np.cumsum(falling))), np.flatnonzero(falling) + 1


def add_resets(values: Float64Array, first: Int64Array, last: Int64Array, result: Float64Array) -> None:
    """Add to each result the values that the resets after sample `first` up to sample `last` lost."""
    seen, where = resets_before(values)
    if not len(where):
        return
    start, count = seen[first], seen[last] - seen[first]
    rows, columns = np.nonzero(count > 0)
    start, count = start[rows, columns], count[rows, columns]
    turn = 0
    while len(rows):
        result[rows, columns] += values[where[start + turn] - 1]
        turn += 1
        more = count > turn
        rows, columns, start, count = rows[more], columns[more], start[more], count[more]
