"""Pieces of a selection and how they become one: samples of some series, from one place of the store.

Every place (sorted run, tail of the memtable, block) answers with pieces, which only say where the samples are; `merge` copies
each sample once, in time linear in their number as long as the places do not overlap in time, and sorts only what does.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin_tsdb.storage import _ranges_py
from tocsin_tsdb.storage.wire import Float64Array, Int64Array

_twin: Any = _ranges_py
with contextlib.suppress(ImportError):  # no C compiler when the distribution was installed
    _twin = importlib.import_module("tocsin_tsdb.storage._ranges")

IndexArray = npt.NDArray[np.int64]
expand = _ranges_py.expand
copy_ranges = _twin.copy_ranges


_FEW = 32
"""So many series are bisected faster one by one than side by side."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples of some series of a selection, in one place.

    `positions`: the series, as ascending positions in the selection; `starts` and `counts`: the rows of each in `times`
    (int64, or uint32 as offsets to `base`; ms, ascending within a series) and `values`.
    """

    positions: IndexArray
    starts: IndexArray
    counts: IndexArray
    times: npt.NDArray[np.integer]
    values: Float64Array
    base: int = 0

    def __len__(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True)
class Merged:
    """All samples of a selection in CSR form; `dropped` counts repeated timestamps (the earlier piece wins)."""

    offsets: Int64Array
    times: Int64Array
    values: Float64Array
    dropped: int


def narrow(
    times: npt.NDArray[np.integer], begins: IndexArray, ends: IndexArray, start: int, end: int
) -> tuple[IndexArray, IndexArray]:
    """Narrow rows [begin, end) of series, each ascending in time, to the times in [start, end]; one bisection for all of them."""
    low = _bisect(times, begins, ends, start)
    return low, np.maximum(low, _bisect(times, begins, ends, end + 1))


def _bisect(times: npt.NDArray[np.integer], begins: IndexArray, ends: IndexArray, bound: int) -> IndexArray:
    """Return for each series its first row whose time is not before the bound."""
    if len(begins) <= _FEW:
        found = [begin + times[begin:end].searchsorted(bound) for begin, end in zip(begins, ends, strict=True)]
        return np.array(found, np.int64)
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
    total = np.zeros(series, np.int64)
    for piece in pieces:
        total[piece.positions] += piece.counts
    offsets = np.concatenate(([0], np.cumsum(total)))
    times = np.empty(offsets[-1], np.int64)
    values = np.empty(offsets[-1], np.float64)
    free = offsets[:-1].copy()
    for piece in pieces:
        targets = free[piece.positions]
        copy_ranges(piece.times, piece.base, piece.values, piece.starts, piece.counts, targets, times, values)
        free[piece.positions] += piece.counts
    return _strictly_ascending(offsets, times, values)


def _strictly_ascending(offsets: Int64Array, times: Int64Array, values: Float64Array) -> Merged:
    """Sort and thin out the series in which places overlap; the others cost one comparison per sample."""
    rising = times[1:] > times[:-1]
    borders = offsets[1:-1]
    rising[borders[(borders > 0) & (borders < len(times))] - 1] = True
    if rising.all():
        return Merged(offsets, times, values, 0)
    mixed = np.unique(np.searchsorted(offsets, np.flatnonzero(~rising), side="right") - 1)
    counts = np.diff(offsets)
    rows, positions = expand(offsets[:-1][mixed], counts[mixed]), np.repeat(mixed, counts[mixed])
    order = rows[np.lexsort((times[rows], positions))]
    times[rows], values[rows] = times[order], values[order]
    repeated = np.flatnonzero((times[rows[1:]] == times[rows[:-1]]) & (positions[1:] == positions[:-1])) + 1
    if len(repeated) == 0:
        return Merged(offsets, times, values, 0)
    keep = np.ones(len(times), bool)
    keep[rows[repeated]] = False
    left = counts - np.bincount(positions[repeated], minlength=len(counts))
    return Merged(np.concatenate(([0], np.cumsum(left))), times[keep], values[keep], len(repeated))
