"""Pieces of a selection and how they become one: samples of some series, grouped by series, from one place of the store.

Every place (sorted run, tail of the memtable, block) answers with pieces; `merge` puts them together in time linear in the
number of samples as long as the places do not overlap in time, and sorts only what does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tocsin_tsdb.storage.wire import Float64Array, Int64Array

IndexArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples of some series of a selection: ascending positions of the series in the selection, how many samples each has here,
    and the samples one series after the other, each in time order."""

    positions: IndexArray
    counts: IndexArray
    times: Int64Array
    values: Float64Array

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, slots=True)
class Merged:
    """All samples of a selection in CSR form; `dropped` counts repeated timestamps (the earlier piece wins)."""

    offsets: Int64Array
    times: Int64Array
    values: Float64Array
    dropped: int


def expand(starts: IndexArray, counts: IndexArray) -> IndexArray:
    """Return the concatenation of the ranges [start, start + count)."""
    total = int(counts.sum())
    if total == 0:
        return np.empty(0, np.int64)
    ends = np.cumsum(counts)
    rows: IndexArray = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return rows


def narrow(
    times: npt.NDArray[np.integer], begins: IndexArray, ends: IndexArray, start: int, end: int
) -> tuple[IndexArray, IndexArray]:
    """Narrow rows [begin, end) of series, each ascending in time, to the times in [start, end]; one bisection for all of them."""
    low = _bisect(times, begins, ends, start)
    return low, np.maximum(low, _bisect(times, begins, ends, end + 1))


def _bisect(times: npt.NDArray[np.integer], begins: IndexArray, ends: IndexArray, bound: int) -> IndexArray:
    """Return for each series its first row whose time is not before the bound."""
    low, high = begins.copy(), ends.copy()
    last = len(times) - 1
    for _ in range(int((ends - begins).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        before = (times[np.minimum(middle, last)] < bound) & (low < high)
        low = np.where(before, middle + 1, low)
        high = np.where(before, high, middle)
    return low


def merge(pieces: Sequence[Piece], series: int) -> Merged:
    """Merge pieces, oldest place first, into the samples of `series` series with strictly ascending times."""
    pieces = [piece for piece in pieces if len(piece)]
    total = np.zeros(series, np.int64)
    for piece in pieces:
        total[piece.positions] += piece.counts
    offsets = np.concatenate(([0], np.cumsum(total)))
    if len(pieces) == 1:
        times, values = pieces[0].times, pieces[0].values
    else:
        times, values = _interleave(pieces, offsets)
    return _strictly_ascending(offsets, times, values)


def _interleave(pieces: Sequence[Piece], offsets: Int64Array) -> tuple[Int64Array, Float64Array]:
    times = np.empty(offsets[-1], np.int64)
    values = np.empty(offsets[-1], np.float64)
    free = offsets[:-1].copy()
    for piece in pieces:
        target = expand(free[piece.positions], piece.counts)
        times[target] = piece.times
        values[target] = piece.values
        free[piece.positions] += piece.counts
    return times, values


def _strictly_ascending(offsets: Int64Array, times: Int64Array, values: Float64Array) -> Merged:
    """Sort and thin out where overlapping places made it necessary; the usual case costs one comparison per sample."""
    rising = times[1:] > times[:-1]
    borders = offsets[1:-1]
    rising[borders[(borders > 0) & (borders < len(times))] - 1] = True
    if rising.all():
        return Merged(offsets, times, values, 0)
    counts = np.diff(offsets)
    positions = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    order = np.lexsort((times, positions))
    times, values = times[order], values[order]
    keep = np.ones(len(times), bool)
    keep[1:] = (times[1:] != times[:-1]) | (positions[1:] != positions[:-1])
    left = np.bincount(positions[keep], minlength=len(counts))
    return Merged(np.concatenate(([0], np.cumsum(left))), times[keep], values[keep], int(len(keep) - keep.sum()))
