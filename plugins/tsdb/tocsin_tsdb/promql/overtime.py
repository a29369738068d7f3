"""The `*_over_time` functions: one value from each window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .context import Control
from .doubled import Prefixes
from .folds import Chunk, accumulate, compensated_sums, fold, fold_padded, sums
from .frames import Windows
from .interface import ExecutionError, Float64Array, Int64Array
from .numbers import format_general


def at_index(windows: Windows, index: Int64Array, source: Float64Array | Int64Array) -> Float64Array:
    """Return `source` at sample indexes, [series x steps]; empty windows get 0."""
    if not len(source):
        return np.zeros(index.shape)
    picked: Float64Array = np.where(windows.counts > 0, source[np.clip(index, 0, len(source) - 1)], 0).astype(
        np.float64
    )
    return picked


def average(windows: Windows, control: Control) -> Float64Array:
    """Return the mean: compensated sum by count, or, where that overflows, the incremental mean."""
    counts = windows.counts
    quick = Prefixes(windows.values).window(windows.low, windows.high)
    doubtful = (counts > 0) & ~quick.trusted()
    return fold(windows, doubtful, control, lambda chunk: _mean(windows.values, chunk), quick.value() / counts)


def _mean(values: Float64Array, chunk: Chunk) -> Float64Array:
    total, error = compensated_sums(values, chunk)
    result = np.where(np.isfinite(total), total / chunk.counts + error / chunk.counts, total)
    overflown = np.flatnonzero(np.isinf(total))
    if len(overflown):
        part = Chunk(chunk.cells[overflown], chunk.low[overflown], chunk.counts[overflown])
        result[overflown] = _incremental_mean(values, part)
    return result


def _incremental_mean(values: Float64Array, chunk: Chunk) -> Float64Array:
    """Average without ever holding the sum, from the point where the sum would overflow."""
    size = len(chunk.cells)
    total, error = np.zeros(size), np.zeros(size)
    mean = np.zeros(size)
    incremental = np.zeros(size, dtype=np.bool_)
    for k, (active, index) in enumerate(chunk.turns()):
        value = values[index]
        overflow = ~incremental[:active] & (k > 0) & np.isinf(total[:active] + value)
        entering = np.flatnonzero(overflow)
        mean[entering] = total[entering] / k
        error[entering] /= k
        incremental[entering] = True
        scale = k / (k + 1)
        weighed, rest = scale * mean[:active], scale * error[:active]
        accumulate(weighed, rest, value / (k + 1))
        finite = np.isfinite(weighed)
        chosen = incremental[:active]
        mean[:active] = np.where(chosen, weighed, mean[:active])
        direct, direct_rest = total[:active].copy(), error[:active].copy()
        accumulate(direct, direct_rest, value.copy())
        total[:active] = np.where(chosen, total[:active], direct)
        kept = np.where(np.isfinite(direct), direct_rest, 0.0)
        error[:active] = np.where(chosen, np.where(finite, rest, 0.0), kept)
    counts = chunk.counts
    return np.where(incremental, mean + error, total / counts + error / counts)


def extreme(windows: Windows, *, largest: bool) -> Float64Array:
    """Return the maximum or minimum; NaN only where a window holds nothing else.

    Runs of 2^j samples are reduced by doubling; two overlapping runs cover any window.
    """
    choose = np.fmax if largest else np.fmin
    out = np.zeros(windows.low.shape)
    counts = windows.counts
    level = np.frexp(np.maximum(counts, 1).astype(np.float64))[1] - 1
    runs = windows.values
    for j in range(int(level.max(initial=0)) + 1):
        if j:
            half = 1 << (j - 1)
            runs = choose(runs[:-half], runs[half:]) if len(runs) > half else runs
        chosen = (level == j) & (counts > 0)
        low, high = windows.low[chosen], windows.high[chosen]
        out[chosen] = choose(runs[low], runs[high - (1 << j)])
    return out


def extreme_time(windows: Windows, control: Control, *, largest: bool) -> Float64Array:
    """Return when (seconds) the maximum or minimum was last reached."""

    def moment(chunk: Chunk) -> Float64Array:
        best = windows.values[chunk.low]
        when = chunk.low.copy()
        for active, index in chunk.turns():
            value = windows.values[index]
            reached = value >= best[:active] if largest else value <= best[:active]
            reached |= np.isnan(best[:active])
            best[:active] = np.where(reached, value, best[:active])
            when[:active] = np.where(reached, index, when[:active])
        return windows.timestamps[when] / 1000

    return fold(windows, windows.counts > 0, control, moment)


def variance(windows: Windows, control: Control) -> Float64Array:
    """Return the population variance, by Welford's method with compensated sums."""
    values = windows.values

    def spread(chunk: Chunk) -> Float64Array:
        mean, mean_error, total, error = np.zeros((4, len(chunk.cells)))
        for k, (active, index) in enumerate(chunk.turns()):
            value = values.take(index)
            delta = value - (mean[:active] + mean_error[:active])
            accumulate(mean[:active], mean_error[:active], delta / (k + 1))
            value -= mean[:active] + mean_error[:active]
            value *= delta
            accumulate(total[:active], error[:active], value)
        result: Float64Array = (total + error) / chunk.counts
        return result

    return fold(windows, windows.counts > 0, control, spread)


def quantile(windows: Windows, control: Control, q: Float64Array) -> Float64Array:
    """Return the q-quantile of every window; q is [steps]."""
    per_cell = np.broadcast_to(q, windows.low.shape).ravel()
    return fold_padded(windows, control, lambda rows, chunk: sorted_quantile(rows, chunk.counts, per_cell[chunk.cells]))


def sorted_quantile(rows: Float64Array, counts: Int64Array, q: Float64Array) -> Float64Array:
    """Return the q-quantile (one per row) of each row's first `counts` values, interpolated; NaN sorts below all else.

    Rows are padded with +Inf and are overwritten.
    """
    nan = np.isnan(rows)
    nans = nan.sum(axis=1)
    if nans.any():
        rows[nan] = -np.inf
    rows.sort(axis=1)
    rank = np.where((q >= 0) & (q <= 1), q, 0.0) * (counts - 1)
    lower = np.floor(rank).astype(np.int64)
    upper = np.minimum(lower + 1, counts - 1)
    weight = rank - lower
    line = np.arange(len(rows))
    low_value = np.where(lower < nans, np.nan, rows[line, lower])
    high_value = np.where(upper < nans, np.nan, rows[line, upper])
    result = low_value * (1 - weight) + high_value * weight
    result = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, result))
    return np.where(np.isnan(q), np.nan, result)


def median_deviation(windows: Windows, control: Control) -> Float64Array:
    """Return the median of the absolute deviations from the median."""

    def deviation(rows: Float64Array, chunk: Chunk) -> Float64Array:
        half = np.full(len(rows), 0.5)
        rows -= sorted_quantile(rows.copy(), chunk.counts, half)[:, None]
        np.abs(rows, out=rows)
        rows[np.arange(rows.shape[1]) >= chunk.counts[:, None]] = np.inf
        return sorted_quantile(rows, chunk.counts, half)

    return fold_padded(windows, control, deviation)


def smoothing(windows: Windows, control: Control, level: Float64Array, trend: Float64Array) -> Float64Array:
    """Return double exponential smoothing; `level` and `trend` factors are [steps] in (0, 1)."""
    for name, factor in (("smoothing", level), ("trend", trend)):
        bad = factor[(factor <= 0) | (factor >= 1)]
        if len(bad):
            symbol = "sf" if name == "smoothing" else "tf"
            raise ExecutionError(f"invalid {name} factor. Expected: 0 < {symbol} < 1, got: {bad[0]:f}")
    level_cells = np.broadcast_to(level, windows.low.shape).ravel()
    trend_cells = np.broadcast_to(trend, windows.low.shape).ravel()

    def smooth(chunk: Chunk) -> Float64Array:
        sf, tf = level_cells[chunk.cells], trend_cells[chunk.cells]
        older = np.zeros(len(chunk.cells))
        current = windows.values[chunk.low].copy()
        slope = windows.values[chunk.low + 1] - current
        for k, (active, index) in enumerate(chunk.turns()):
            if k == 0:
                continue
            if k > 1:
                trending = tf[:active] * (current[:active] - older[:active]) + (1 - tf[:active]) * slope[:active]
                slope[:active] = trending
            smoothed = sf[:active] * windows.values[index] + (1 - sf[:active]) * (current[:active] + slope[:active])
            older[:active] = current[:active]
            current[:active] = smoothed
        return current

    return fold(windows, windows.counts > 1, control, smooth)


_STRATEGIES = np.array([0.0, 1.0, 2.0])


def integral(windows: Windows, control: Control, strategy: Float64Array) -> Float64Array:
    """Return the area (value times seconds) between the first and the last sample of every window.

    `strategy`, [steps], says what a value between two samples is: 0 the earlier one's, 1 the later one's, 2 their mean.
    """
    bad = strategy[~np.isin(strategy, _STRATEGIES)]
    if len(bad):
        raise ExecutionError(
            f"invalid strategy for integral. Expected: 0, 1 or 2, got: {format_general(float(bad[0]))}"
        )
    if not len(windows.values):
        return np.zeros(windows.low.shape)
    seconds = np.diff(windows.timestamps) / 1000
    earlier, later = windows.values[:-1], windows.values[1:]
    result = np.zeros(windows.low.shape)
    for kind, height in ((0, earlier), (1, later), (2, earlier / 2 + later / 2)):
        chosen = strategy == kind
        if chosen.any():
            areas = np.append(height * seconds, 0.0)
            last = np.maximum(windows.high - 1, windows.low)
            result[:, chosen] = sums(replace(windows, values=areas, high=last), control)[:, chosen]
    return result


Kernel = Callable[[Windows, Control], Float64Array]

SIMPLE: dict[str, Kernel] = {
    "avg_over_time": average,
    "count_over_time": lambda windows, control: windows.counts.astype(np.float64),
    "first_over_time": lambda windows, control: at_index(windows, windows.low, windows.values),
    "last_over_time": lambda windows, control: at_index(windows, windows.high - 1, windows.values),
    "mad_over_time": median_deviation,
    "max_over_time": lambda windows, control: extreme(windows, largest=True),
    "min_over_time": lambda windows, control: extreme(windows, largest=False),
    "present_over_time": lambda windows, control: np.ones(windows.low.shape),
    "stddev_over_time": lambda windows, control: np.sqrt(variance(windows, control)),
    "stdvar_over_time": variance,
    "sum_over_time": sums,
    "ts_of_first_over_time": lambda windows, control: at_index(windows, windows.low, windows.timestamps) / 1000,
    "ts_of_last_over_time": lambda windows, control: at_index(windows, windows.high - 1, windows.timestamps) / 1000,
    "ts_of_max_over_time": lambda windows, control: extreme_time(windows, control, largest=True),
    "ts_of_min_over_time": lambda windows, control: extreme_time(windows, control, largest=False),
}
"""Functions of the window alone: a value wherever the window has a sample."""
