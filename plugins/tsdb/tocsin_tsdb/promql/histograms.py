"""Quantiles and fractions of classic histograms, whose buckets are series with an `le` label."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .context import Evaluation
from .durations import quote
from .frames import Frame, label_value, without_name
from .interface import METRIC_NAME, BoolArray, Float64Array, Int64Array, Labels
from .nodes import Expr

_BOUND = re.compile(r"[+-]?(?:inf|infinity|nan|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.ASCII | re.IGNORECASE)
_TOLERANCE = 1e-12
_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(slots=True)
class Buckets:
    """Histograms with equally many buckets: `bounds` [histograms x buckets] ascending, cumulative `counts` and
    `present` [histograms x buckets x steps]; `rows` are the histograms' numbers."""

    rows: Int64Array
    bounds: Float64Array
    counts: Float64Array
    present: BoolArray

    @property
    def complete(self) -> BoolArray:
        """Where the highest bucket is there and unbounded, [histograms x steps]."""
        result: BoolArray = np.isposinf(self.bounds[:, -1])[:, None] & self.present[:, -1]
        return result


def _histograms(ev: Evaluation, frame: Frame, argument: Expr) -> tuple[list[Labels], list[list[int]], Float64Array]:
    """Sort bucket rows into histograms; rows without a readable bound are reported and left out."""
    numbers: dict[Labels, int] = {}
    members: list[list[int]] = []
    bounds = np.zeros(len(frame.labels))
    for row, labels in enumerate(frame.labels):
        text = label_value(labels, "le")
        if not _BOUND.fullmatch(text):
            name = label_value(labels, METRIC_NAME)
            message = f'bucket label "le" is missing or has a malformed value of {quote(text)}'
            ev.notes.warn(argument, message + (f" for metric name {quote(name)}" if name else ""))
            continue
        bounds[row] = float(text)
        key = tuple([pair for pair in labels if pair[0] != "le"])
        number = numbers.setdefault(key, len(numbers))
        if number == len(members):
            members.append([])
        members[number].append(row)
    return list(numbers), members, bounds


def _batches(frame: Frame, members: list[list[int]], bounds: Float64Array) -> Iterator[Buckets]:
    """Yield histograms of equal size together; buckets with the same bound are added up."""
    by_size: dict[int, list[tuple[int, list[int]]]] = {}
    for number, rows in enumerate(members):
        ordered = sorted(rows, key=bounds.__getitem__)
        by_size.setdefault(len(rows), []).append((number, ordered))
    for group in by_size.values():
        places = np.array([each for _, each in group])
        numbers = np.array([number for number, _ in group])
        present = frame.present[places]
        counts = np.where(present, frame.values[places], 0.0)
        upper = bounds[places]
        for k in range(places.shape[1] - 1):
            same = upper[:, k] == upper[:, k + 1]
            if same.any():
                counts[same, k + 1] += counts[same, k]
                present[same, k + 1] |= present[same, k]
                present[same, k] = False
        yield Buckets(numbers, upper, counts, present)


def quantile_rows(
    ev: Evaluation, frame: Frame, levels: list[Float64Array], argument: Expr
) -> tuple[list[Labels], list[Float64Array], BoolArray]:
    """Return quantiles of all histograms: their labels, one [histograms x steps] array per level ([steps] each), and
    where there is a histogram at all. Reports buckets that had to be made cumulative."""
    keys, members, bounds = _histograms(ev, frame, argument)
    shape = (len(keys), ev.steps)
    values = [np.full(shape, np.nan) for _ in levels]
    present = np.zeros(shape, dtype=np.bool_)
    for batch in _batches(frame, members, bounds):
        ev.control.check()
        present[batch.rows] = batch.present.any(axis=1)
        forced = _make_cumulative(batch)
        for q, out in zip(levels, values, strict=True):
            out[batch.rows] = _interpolate(batch, q)
        valid = np.logical_or.reduce([(q >= 0) & (q <= 1) for q in levels])
        if (forced & batch.complete & valid).any():
            text = "input to histogram_quantile needed to be fixed for monotonicity"
            where = "https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile"
            ev.notes.info(argument, f"{text} (see {where})")
    return without_name(keys), values, present


def _make_cumulative(batch: Buckets) -> BoolArray:
    """Raise counts that are lower than an earlier bucket's, in place; tell where that was more than a rounding error.

    Absent buckets take over the count before them (-Inf at the beginning), so that they are never chosen.
    """
    counts = batch.counts
    previous = np.full(counts[:, 0].shape, -np.inf)
    forced = np.zeros(previous.shape, dtype=np.bool_)
    for k in range(counts.shape[1]):
        current, present = counts[:, k], batch.present[:, k]
        size = np.minimum(np.abs(previous) + np.abs(current), _LARGEST)
        limit = np.where((previous == 0) | (current == 0) | (size < _SMALLEST_NORMAL), _SMALLEST_NORMAL, size)
        close = np.abs(previous - current) < _TOLERANCE * limit
        forced |= present & (current < previous) & ~close
        previous = np.where(present & ~(current <= previous) & ~close, current, previous)
        counts[:, k] = previous
    return forced


def _interpolate(batch: Buckets, q: Float64Array) -> Float64Array:
    """Find each rank's bucket and assume observations evenly spread within it; returns [histograms x steps]."""
    counts, present, bounds = batch.counts, batch.present, batch.bounds
    last = counts.shape[1] - 1
    observations = counts[:, -1]
    rank = q * observations
    reached = counts[:, :last] >= rank[:, None]
    bucket = np.where(reached.any(axis=1), reached.argmax(axis=1), last) if last else np.zeros(rank.shape, np.int64)
    before = _previous_present(present)
    row, step = np.indices(rank.shape)
    below = before[row, bucket, step]
    has_below = below >= 0
    below = np.maximum(below, 0)
    upper = bounds[row, bucket]
    lower = np.where(has_below, bounds[row, below], 0.0)
    base = np.where(has_below, counts[row, below, step], 0.0)
    inside = lower + (upper - lower) * ((rank - base) / (counts[row, bucket, step] - base))
    result = np.where(~has_below & (upper <= 0), upper, inside)
    result = np.where(bucket == last, lower, result)
    known = batch.complete & (present.sum(axis=1) >= 2) & (observations != 0)
    result = np.where(known, result, np.nan)
    result = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, result))
    return np.where(np.isnan(q), np.nan, result)


def _previous_present(present: BoolArray) -> Int64Array:
    """Return for each bucket the nearest present one below it, -1 for none."""
    marks = np.where(present, np.arange(present.shape[1])[None, :, None], -1)
    shifted = np.full(marks.shape, -1, dtype=np.int64)
    shifted[:, 1:] = np.maximum.accumulate(marks, axis=1)[:, :-1]
    return shifted


def fractions(
    ev: Evaluation, frame: Frame, low: Float64Array, high: Float64Array, argument: Expr
) -> tuple[list[Labels], Float64Array, BoolArray]:
    """Return the share of observations between two values ([steps] each) for all histograms."""
    keys, members, bounds = _histograms(ev, frame, argument)
    values = np.full((len(keys), ev.steps), np.nan)
    present = np.zeros(values.shape, dtype=np.bool_)
    for batch in _batches(frame, members, bounds):
        present[batch.rows] = batch.present.any(axis=1)
        total = batch.counts[:, -1]
        share = (_rank_of(batch, high) - _rank_of(batch, low)) / total
        share = np.where(low >= high, 0.0, share)
        known = batch.complete & (total != 0) & ~np.isnan(low) & ~np.isnan(high)
        values[batch.rows] = np.where(known, share, np.nan)
    return without_name(keys), values, present


def _rank_of(batch: Buckets, value: Float64Array) -> Float64Array:
    """Return how many observations are estimated to be at most `value` [steps], [histograms x steps]."""
    shape = batch.counts[:, 0].shape
    rank, result = np.zeros(shape), batch.counts[:, -1].copy()
    found = np.zeros(shape, dtype=np.bool_)
    lower = np.full(shape, -np.inf)
    first = np.ones(shape, dtype=np.bool_)
    for k in range(batch.counts.shape[1]):
        count, present = batch.counts[:, k], batch.present[:, k]
        upper = np.broadcast_to(batch.bounds[:, k, None], shape)
        lower = np.where(first & (upper > 0), 0.0, lower)
        at_edge = present & ~found & (lower >= value)
        result = np.where(at_edge, rank, result)
        found |= at_edge
        inside = present & ~found & (lower < value) & (upper > value)
        result = np.where(inside, rank + (count - rank) * (value - lower) / (upper - lower), result)
        found |= inside
        rank, lower = np.where(present, count, rank), np.where(present, upper, lower)
        first &= ~present
        lower = np.where(first, -np.inf, lower)
    return np.minimum(result, batch.counts[:, -1])
