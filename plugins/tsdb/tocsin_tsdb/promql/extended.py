"""Windows that look beyond their edges: the `anchored` and `smoothed` modifiers.

An anchored window also has the last sample at or before its start. A smoothed window also has the next sample after its
end, and takes the values at both edges from straight lines between neighbours. Neither extrapolates.
"""

from __future__ import annotations

import numpy as np

from .frames import Windows
from .interface import BoolArray, ExecutionError, Float64Array, Int64Array
from .kernels import add_resets
from .nodes import Extension

_ALLOWED: dict[Extension, tuple[str, ...]] = {
    "anchored": ("changes", "delta", "increase", "rate", "resets"),
    "smoothed": ("delta", "increase", "rate"),
}


def check_extension(extension: Extension | None, function: str) -> None:
    """Raise ExecutionError if a function has no use for windows of that kind."""
    if extension is not None and function not in _ALLOWED[extension]:
        names = ", ".join(_ALLOWED[extension])
        raise ExecutionError(f"{extension} modifier can only be used with: {names} - not with {function}")


def widen(windows: Windows, offsets: Int64Array, extension: Extension, lookback_ms: int) -> None:
    """Add to each window its neighbours no farther away than the look-back; `offsets` part the series.

    An anchored window without a sample of its own becomes empty.
    """
    stamps, low, high = windows.timestamps, windows.low, windows.high
    if not len(stamps):
        return
    before = (low > offsets[:-1, None]) & (stamps[np.maximum(low - 1, 0)] > windows.starts - lookback_ms)
    if extension == "anchored":
        windows.low = np.where(high > low, low - before, high)
        return
    exact = (high > low) & (stamps[np.maximum(high - 1, 0)] == windows.ends)
    following = stamps[np.minimum(high, len(stamps) - 1)]
    after = (high < offsets[1:, None]) & (following <= windows.ends + lookback_ms) & ~exact
    windows.low, windows.high = low - before, high + after


def extended_rate(
    windows: Windows, extension: Extension, *, counter: bool, per_second: bool
) -> tuple[Float64Array, BoolArray]:
    """Return `rate`, `increase` or `delta` of widened windows, between their edges exactly."""
    some = windows.counts > 0
    if not some.any():
        return np.zeros(some.shape), some
    first, last = np.where(some, windows.low, 0), np.where(some, windows.high - 1, 0)
    stamps, values = windows.timestamps, windows.values
    some &= stamps[last] > windows.starts
    left, right = values[first], values[last]
    if extension == "smoothed":
        early = some & (stamps[first] < windows.starts)
        left = np.where(early, _between(windows, first, windows.starts, counter=counter), left)
        late = some & (stamps[last] > windows.ends) & (last > first)
        right = np.where(late, _between(windows, last - 1, windows.ends, counter=counter), right)
    result = right - left
    if counter:
        inner_first = first + (stamps[first] <= windows.starts)
        inner_last = last - (stamps[last] >= windows.ends)
        inner = some & (inner_first <= inner_last)
        inner_first, inner_last = np.where(inner, inner_first, 0), np.where(inner, inner_last, 0)
        add_resets(values, inner_first, inner_last, result)
        entered, left_last = values[inner_first], np.where(inner, values[inner_last], left)
        result += np.where(inner & (entered < left), left, 0.0) + np.where(right < left_last, left_last, 0.0)
    return (result / (windows.range_ms / 1000) if per_second else result), some


def _between(windows: Windows, index: Int64Array, times: Int64Array, *, counter: bool) -> Float64Array:
    """Return the value on the line from a sample to its successor; a counter that fell has started from zero."""
    following = np.minimum(index + 1, len(windows.values) - 1)
    start, end = windows.values[index], windows.values[following]
    if counter:
        start = np.where(end < start, 0.0, start)
    first, second = windows.timestamps[index], windows.timestamps[following]
    return line(first, second, start, end, times)


def line(
    first: Int64Array, second: Int64Array, start: Float64Array, end: Float64Array, times: Int64Array
) -> Float64Array:
    """Return the values at `times` on the lines through two points each; where the points coincide, of the first."""
    length = np.maximum(second - first, 1)
    value: Float64Array = start + (end - start) * ((times - first) / length)
    return value
