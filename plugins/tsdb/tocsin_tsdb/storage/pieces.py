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
    """Samples grouped by ascending position of their series in the selection; in time order within a series."""

    positions: IndexArray
    times: Int64Array
    values: Float64Array

    def __len__(self) -> int:
        return len(self.positions)


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


def merge(pieces: Sequence[Piece], series: int) -> Merged:
    """Merge pieces, oldest place first, into the samples of `series` series with strictly ascending times."""
    pieces = [piece for piece in pieces if len(piece)]
    counts = [np.bincount(piece.positions, minlength=series) for piece in pieces]
    total = np.sum(counts, axis=0, dtype=np.int64) if counts else np.zeros(series, np.int64)
    offsets = np.concatenate(([0], np.cumsum(total)))
    if len(pieces) == 1:
        times, values = pieces[0].times, pieces[0].values
    else:
        times, values = _interleave(pieces, counts, offsets)
    return _strictly_ascending(offsets, times, values)


def _interleave(
    pieces: Sequence[Piece], counts: Sequence[IndexArray], offsets: Int64Array
) -> tuple[Int64Array, Float64Array]:
    times = np.empty(offsets[-1], np.int64)
    values = np.empty(offsets[-1], np.float64)
    free = offsets[:-1].copy()
    for piece, count in zip(pieces, counts, strict=True):
        starts = np.cumsum(count) - count
        target = np.arange(len(piece), dtype=np.int64) + (free - starts)[piece.positions]
        times[target] = piece.times
        values[target] = piece.values
        free += count
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
