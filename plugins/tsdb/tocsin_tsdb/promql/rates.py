"""Functions on counters and on the change of gauges: rate and its relatives, changes, resets, regression."""

from __future__ import annotations

import numpy as np

from .context import Control
from .folds import Chunk, accumulate, fold
from .frames import Windows
from .interface import BoolArray, Float64Array, Int64Array

_EXTRAPOLATION_THRESHOLD = 1.1
"""A window's edge farther from the outermost sample than this many average intervals is not extrapolated to."""


def _ends(windows: Windows, minimum: int) -> tuple[BoolArray, Int64Array, Int64Array]:
    """Return where a window has enough samples, and the indexes of its first and last sample (0 where not)."""
    enough = windows.counts >= minimum
    first = np.where(enough, windows.low, 0)
    last = np.where(enough, windows.high - 1, 0)
    return enough, first, last


def extrapolated(windows: Windows, *, counter: bool, per_second: bool) -> tuple[Float64Array, BoolArray]:
    """Return `rate` (counter, per second), `increase` (counter) or `delta` of every window with two samples."""
    enough, first, last = _ends(windows, 2)
    if not enough.any():
        return np.zeros(enough.shape), enough
    first_value = windows.values[first]
    result = windows.values[last] - first_value
    if counter:
        add_resets(windows, first, last, result)
    first_time, last_time = windows.timestamps[first], windows.timestamps[last]
    sampled = (last_time - first_time) / 1000
    average = sampled / (last - first)
    threshold = average * _EXTRAPOLATION_THRESHOLD
    to_start = (first_time - windows.starts) / 1000
    to_end = (windows.ends - last_time) / 1000
    np.divide(average, 2, out=to_start, where=to_start >= threshold)
    if counter:  # a counter cannot have been negative: do not extrapolate beyond its zero point
        to_zero = sampled * (first_value / result)
        np.copyto(to_start, to_zero, where=(result > 0) & (first_value >= 0) & (to_zero < to_start))
    np.divide(average, 2, out=to_end, where=to_end >= threshold)
    seconds = windows.range_ms / 1000 if per_second else 1.0
    result *= (sampled + to_start + to_end) / sampled / seconds
    return result, enough


def _resets_before(windows: Windows) -> tuple[Int64Array, Int64Array]:
    """Return how many resets happened up to and including each sample, and where they are.

    A reset is a sample lower than its predecessor; pairs across two series are harmless, as no window spans them.
    """
    falling = windows.values[1:] < windows.values[:-1]
    return np.concatenate(([0], np.cumsum(falling))), np.flatnonzero(falling) + 1


def add_resets(windows: Windows, first: Int64Array, last: Int64Array, result: Float64Array) -> None:
    """Add to each window's result the values that its resets lost."""
    seen, where = _resets_before(windows)
    if not len(where):
        return
    start, count = seen[first], seen[last] - seen[first]
    rows, columns = np.nonzero(count > 0)
    start, count = start[rows, columns], count[rows, columns]
    turn = 0
    while len(rows):
        result[rows, columns] += windows.values[where[start + turn] - 1]
        turn += 1
        more = count > turn
        rows, columns, start, count = rows[more], columns[more], start[more], count[more]


def last_two(windows: Windows, *, per_second: bool) -> tuple[Float64Array, BoolArray]:
    """Return `irate` (per second, resets count as starting from zero) or `idelta`."""
    enough, _, last = _ends(windows, 2)
    previous = np.maximum(last - 1, 0)
    if not enough.any():
        return np.zeros(enough.shape), enough
    newer, older = windows.values[last], windows.values[previous]
    if not per_second:
        return newer - older, enough
    change = np.where(newer < older, newer, newer - older)
    elapsed = (windows.timestamps[last] - windows.timestamps[previous]) / 1000
    return change / np.where(enough, elapsed, 1.0), enough


def resets(windows: Windows) -> tuple[Float64Array, BoolArray]:
    """Return how often the value fell within each window."""
    enough, first, last = _ends(windows, 1)
    if not enough.any():
        return np.zeros(enough.shape), enough
    seen, _ = _resets_before(windows)
    return (seen[last] - seen[first]).astype(np.float64), enough


def changes(windows: Windows) -> tuple[Float64Array, BoolArray]:
    """Return how often the value changed within each window; NaN after NaN is no change."""
    enough, first, last = _ends(windows, 1)
    if not enough.any():
        return np.zeros(enough.shape), enough
    newer, older = windows.values[1:], windows.values[:-1]
    changed = (newer != older) & ~(np.isnan(newer) & np.isnan(older))
    seen = np.concatenate(([0], np.cumsum(changed)))
    return (seen[last] - seen[first]).astype(np.float64), enough


def regression(
    windows: Windows, control: Control, intercept_times: Int64Array | None
) -> tuple[Float64Array, Float64Array, BoolArray]:
    """Return slope (per second) and intercept of the least-squares line through each window with two samples.

    The intercept is taken at `intercept_times` [steps], or at the window's first sample.
    """
    enough, first, last = _ends(windows, 2)
    if not enough.any():
        return np.zeros(enough.shape), np.zeros(enough.shape), enough
    origin = windows.timestamps[first] if intercept_times is None else np.broadcast_to(intercept_times, first.shape)
    origins, intercepts = origin.ravel(), np.zeros(first.size)

    def line(chunk: Chunk) -> Float64Array:
        slope, intercepts[chunk.cells] = _line(windows, chunk, origins[chunk.cells])
        return slope

    seen = _differences(windows.values)
    constant = enough & (seen[first] == seen[last])
    slopes = fold(windows, enough & ~constant, control, line)
    level = np.where(np.isinf(windows.values[first]), np.nan, windows.values[first])
    intercept = np.where(constant, level, intercepts.reshape(first.shape))
    return np.where(constant, level * 0.0, slopes), intercept, enough


def _differences(values: Float64Array) -> Int64Array:
    """Return how many samples up to and including each one differ from their predecessor (NaN always does)."""
    return np.concatenate(([0], np.cumsum(values[1:] != values[:-1])))


def _line(windows: Windows, chunk: Chunk, origins: Int64Array) -> tuple[Float64Array, Float64Array]:
    """Fit a line to each window, with compensated sums."""
    size = len(chunk.cells)
    total, error, terms = np.zeros((4, size)), np.zeros((4, size)), np.empty((4, size))
    for active, index in chunk.turns():
        x, y, xy, xx = terms[:, :active]
        np.divide(windows.timestamps.take(index) - origins[:active], 1000, out=x)
        windows.values.take(index, out=y, mode="clip")
        np.multiply(x, y, out=xy)
        np.multiply(x, x, out=xx)
        accumulate(total[:, :active], error[:, :active], terms[:, :active])
    sum_x, sum_y, sum_xy, sum_xx = total + error
    n = chunk.counts.astype(np.float64)
    slope = (sum_xy - sum_x * sum_y / n) / (sum_xx - sum_x * sum_x / n)
    return slope, sum_y / n - slope * sum_x / n
