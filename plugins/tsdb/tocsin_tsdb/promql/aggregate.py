"""Aggregation operators that give one value per group: sum, avg, min, max, count, group, stddev, stdvar, quantile."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .frames import Frame, column_blocks
from .grouping import Groups
from .interface import BoolArray, Float64Array, Int64Array
from .overtime import sorted_quantile


def aggregate(operator: str, frame: Frame, groups: Groups, q: Float64Array | None = None) -> Frame:
    """Apply an operator to every group at every step; `q` [steps] is the parameter of `quantile`."""
    order, starts = groups.ordered()
    ids = groups.ids[order]
    shape = (len(groups.keys), frame.steps)
    result, some = np.empty(shape), np.empty(shape, dtype=np.bool_)
    for steps in column_blocks(len(frame.labels), frame.steps):
        values, present = frame.values[:, steps][order], frame.present[:, steps][order]
        counts = np.add.reduceat(present, starts, axis=0, dtype=np.int64)
        some[:, steps] = counts > 0
        if operator == "quantile":
            assert q is not None
            result[:, steps] = _quantiles(values, present, starts, q[steps])
        else:
            result[:, steps] = _reduce(operator, values, present, ids, starts, counts)
    return Frame(groups.keys, result, some)


def _reduce(
    operator: str, values: Float64Array, present: BoolArray, ids: Int64Array, starts: Int64Array, counts: Int64Array
) -> Float64Array:
    match operator:
        case "count":
            return counts.astype(np.float64)
        case "group":
            return np.ones(counts.shape)
        case "min" | "max":
            choose = np.fmin if operator == "min" else np.fmax
            extremes: Float64Array = choose.reduceat(np.where(present, values, np.nan), starts, axis=0)
            return extremes
        case _:
            return _moments(operator, values, present, ids, starts, counts)


def _moments(
    operator: str, values: Float64Array, present: BoolArray, ids: Int64Array, starts: Int64Array, counts: Int64Array
) -> Float64Array:
    total, error = group_sums(np.where(present, values, -0.0), ids)
    if operator == "sum":
        result = np.where(np.isfinite(total), total + error, total)
        _refold(_sum_in_order, result, total, values, present, starts)
        return result
    divisor = np.maximum(counts, 1)
    mean = np.where(np.isfinite(total), total / divisor + error / divisor, total)
    if operator == "avg":
        _refold(_average_in_order, mean, total, values, present, starts)
        return mean
    squares = np.where(present, np.square(values - mean[ids]), -0.0)
    total, error = group_sums(squares, ids)
    variance = np.where(np.isfinite(total), total + error, total) / divisor
    return variance if operator == "stdvar" else np.sqrt(variance)


def group_sums(values: Float64Array, ids: Int64Array) -> tuple[Float64Array, Float64Array]:
    """Sum rows by group (ids ascending) with compensation: totals and their collected rounding errors, [groups x steps].

    Neighbours are added pairwise, level by level, so that the number of NumPy calls grows with the logarithm of the
    largest group. Each addition's exact error is kept. Absent values are -0.0, which changes no sum.
    """
    total, error = values, np.full(values.shape, -0.0)
    while len(ids) > 1 and (ids[1:] == ids[:-1]).any():
        first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
        place = np.arange(len(ids)) - np.repeat(first, np.diff(np.append(first, len(ids))))
        left = np.flatnonzero(place % 2 == 0)
        paired = np.zeros(len(left), dtype=np.bool_)
        inner = left < len(ids) - 1
        paired[inner] = ids[left[inner] + 1] == ids[left[inner]]
        result, rest = total[left], error[left]
        augend, addend = result[paired], total[left[paired] + 1]
        result[paired] = added = augend + addend
        shift = added - augend
        rest[paired] += error[left[paired] + 1] + ((augend - (added - shift)) + (addend - shift))
        total, error, ids = result, rest, ids[left]
    return total, error


def _refold(
    fold: Callable[[list[float]], float],
    result: Float64Array,
    total: Float64Array,
    values: Float64Array,
    present: BoolArray,
    starts: Int64Array,
) -> None:
    """Where finite numbers have overflowed, the order of addition decides: replace the result by a fold in order."""
    overflown = ~np.isfinite(total)
    if not overflown.any():
        return
    ends = np.append(starts[1:], len(values))
    strange = np.logical_or.reduceat(~np.isfinite(values) & present, starts, axis=0)
    for group, step in zip(*np.nonzero(overflown & ~strange), strict=True):
        rows = slice(starts[group], ends[group])
        result[group, step] = fold(values[rows, step][present[rows, step]].tolist())


def _sum_in_order(numbers: list[float]) -> float:
    """Add with compensation (Neumaier), which ends where the sum becomes infinite."""
    total = error = 0.0
    for number in numbers:
        added = total + number
        if math.isinf(added):
            error = 0.0
        elif abs(total) >= abs(number):
            error += (total - added) + number
        else:
            error += (number - added) + total
        total = added
    return total + error


def _average_in_order(numbers: list[float]) -> float:
    """Average incrementally, so that no intermediate result is larger than the numbers."""
    average = numbers[0]
    for count, number in enumerate(numbers[1:], start=2):
        average = average * ((count - 1) / count) + number / count
    return average


def _quantiles(values: Float64Array, present: BoolArray, starts: Int64Array, q: Float64Array) -> Float64Array:
    """Groups of equal size are sorted together; absent values sort behind all others."""
    sizes = np.diff(np.append(starts, len(values)))
    result = np.zeros((len(starts), values.shape[1]))
    padded = np.where(present, values, np.inf)
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        rows = starts[chosen][:, None] + np.arange(size)
        flat = np.moveaxis(padded[rows], 1, 2).reshape(-1, size)  # [groups x steps, size]
        counts = np.maximum(present[rows].sum(axis=1), 1).ravel()
        levels = np.tile(q, len(chosen))
        result[chosen] = sorted_quantile(flat, counts, levels).reshape(len(chosen), -1)
    return result
