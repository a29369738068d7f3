"""Functions on counters and on the change of gauges: the last two samples, changes, resets, regression."""

from __future__ import annotations

import numpy as np

from .context import Control
from .folds import Chunk, accumulate, fold
from .frames import Windows
from .interface import BoolArray, Float64Array, Int64Array
from .kernels import resets_before


def _ends(windows: Windows, minimum: int) -> tuple[BoolArray, Int64Array, Int64Array]:
    """Return where a window has enough samples, and the indexes of its first and last sample (0 where not)."""
    enough = windows.counts >= minimum
    first = np.where(enough, windows.low, 0)
    last = np.where(enough, windows.high - 1, 0)
    return enough, first, last


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
    seen, _ = resets_before(windows.values)
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
