"""Recent samples in memory: a few runs sorted by series, and an unsorted tail that the next commits append to.

A commit replaces one immutable `_State`, so that readers take a snapshot by reading an attribute and never wait. Filled parts of
the tail are never written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tocsin_tsdb.storage.pieces import IndexArray, Piece, narrow
from tocsin_tsdb.storage.wire import Float64Array, Int32Array, Int64Array

TAIL_ROOM = 1 << 17


@dataclass(frozen=True, slots=True)
class Run:
    """Samples sorted by series and, within a series, by time."""

    series: Int32Array
    offsets: Int64Array
    times: Int64Array
    values: Float64Array
    min_time: int
    max_time: int

    @classmethod
    def of(cls, sids: Int32Array, times: Int64Array, values: Float64Array) -> Run:
        """Sort samples given in order of arrival."""
        order = np.argsort(sids, kind="stable")
        sids, times, values = sids[order], times[order], values[order]
        same = sids[1:] == sids[:-1]
        if np.any(same & (times[1:] < times[:-1])):
            order = np.lexsort((times, sids))
            times, values = times[order], values[order]
        starts = np.concatenate(([0], np.flatnonzero(~same) + 1)) if len(sids) else np.empty(0, np.int64)
        offsets = np.append(starts, len(sids))
        return cls(sids[starts], offsets, times, values, int(times.min(initial=0)), int(times.max(initial=0)))

    def piece(self, wanted: Int32Array, start: int, end: int) -> Piece:
        """Return the samples of the wanted series (ascending ids) in [start, end]."""
        at = np.searchsorted(self.series, wanted)
        at[at == len(self.series)] = 0
        here = np.flatnonzero(self.series[at] == wanted)
        at = at[here]
        low, high = self.offsets[at], self.offsets[at + 1]
        if start > self.min_time or end < self.max_time:
            low, high = narrow(self.times, low, high, start, end)
        return Piece(here, low, high - low, self.times, self.values)


@dataclass(frozen=True, slots=True)
class _State:
    runs: tuple[Run, ...]
    sids: Int32Array
    times: Int64Array
    values: Float64Array
    filled: int
    samples: int
    min_time: int
    max_time: int


def _fresh(runs: tuple[Run, ...], samples: int, min_time: int, max_time: int, room: int) -> _State:
    return _State(
        runs,
        np.empty(room, np.int32),
        np.empty(room, np.int64),
        np.empty(room, np.float64),
        0,
        samples,
        min_time,
        max_time,
    )


NEVER = 1 << 62


def _in_time_order(positions: Int32Array, times: Int64Array, rows: IndexArray) -> IndexArray:
    """Return the rows, which are grouped by series already, with late samples put where they belong."""
    if np.any((positions[1:] == positions[:-1]) & (times[1:] < times[:-1])):
        return rows[np.lexsort((times, positions))]
    return rows


class Memtable:
    """Samples that are not in a block yet. One writer at a time; any number of readers."""

    def __init__(self, tail_room: int = TAIL_ROOM) -> None:
        self._tail_room = tail_room
        self._state = _fresh((), 0, NEVER, -NEVER, tail_room)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return self._state.samples

    @property
    def runs(self) -> int:
        """Number of sorted runs, the tail included when it holds anything."""
        return len(self._state.runs) + bool(self._state.filled)

    @property
    def min_time(self) -> int:
        """Oldest sample (ms); `NEVER` when there is none."""
        return self._state.min_time

    @property
    def max_time(self) -> int:
        """Newest sample (ms); `-NEVER` when there is none."""
        return self._state.max_time

    def append(self, sids: Int32Array, times: Int64Array, values: Float64Array) -> None:
        """Add samples in order of arrival."""
        at = 0
        while at < len(sids):
            take = min(len(sids) - at, self._tail_room - self._state.filled)
            self._append(sids[at : at + take], times[at : at + take], values[at : at + take])
            at += take

    def _append(self, sids: Int32Array, times: Int64Array, values: Float64Array) -> None:
        state = self._state
        begin, filled = state.filled, state.filled + len(sids)
        state.sids[begin:filled] = sids
        state.times[begin:filled] = times
        state.values[begin:filled] = values
        samples = state.samples + len(sids)
        oldest, newest = min(state.min_time, int(times.min())), max(state.max_time, int(times.max()))
        if filled == self._tail_room:
            run = Run.of(state.sids, state.times, state.values)
            self._state = _fresh((*state.runs, run), samples, oldest, newest, self._tail_room)
        else:
            self._state = _State(state.runs, state.sids, state.times, state.values, filled, samples, oldest, newest)

    def pieces(self, wanted: Int32Array, start: int, end: int) -> Iterator[Piece]:
        """Yield the samples of the wanted series (ascending ids) in [start, end], oldest arrival first."""
        state = self._state
        if start > state.max_time or end < state.min_time or len(wanted) == 0:
            return
        for run in state.runs:
            if start <= run.max_time and end >= run.min_time:
                yield run.piece(wanted, start, end)
        if state.filled:
            yield self._tail(state, wanted, start, end)

    @staticmethod
    def _tail(state: _State, wanted: Int32Array, start: int, end: int) -> Piece:
        sids, times = state.sids[: state.filled], state.times[: state.filled]
        if len(wanted) == 1:  # the most frequent question, and comparing is ten times as fast as looking up
            rows = np.flatnonzero(sids == wanted[0])
            found = np.zeros(len(rows), np.int32)
        else:
            place = np.full(int(max(wanted[-1], sids.max())) + 1, -1, np.int32)
            place[wanted] = np.arange(len(wanted), dtype=np.int32)
            positions = place[sids]
            rows = np.flatnonzero(positions >= 0)
            found = positions[rows]
        within = (times[rows] >= start) & (times[rows] <= end)
        rows, found = rows[within], found[within]
        rows = rows[np.argsort(found, kind="stable")]
        counts = np.bincount(found, minlength=len(wanted))
        run = _in_time_order(np.sort(found), times[rows], rows)
        return Piece(np.arange(len(wanted)), np.cumsum(counts) - counts, counts, times[run], state.values[run])

    def spans(self, width: int) -> list[int]:
        """Return the starts of the aligned spans of a width (ms) that have samples, ascending."""
        state = self._state
        found: set[int] = set()
        for times in [*(run.times for run in state.runs), state.times[: state.filled]]:
            found.update(np.unique(times // width).tolist())
        return [start * width for start in sorted(found)]

    def weights(self) -> tuple[Int32Array, Int64Array]:
        """Return the ascending ids of the series that have samples here and their numbers of samples."""
        state = self._state
        sids = [run.series for run in state.runs]
        counts = [np.diff(run.offsets) for run in state.runs]
        tail, in_tail = np.unique(state.sids[: state.filled], return_counts=True)
        return add_weights([*sids, tail], [*counts, in_tail])


def add_weights(sids: Sequence[Int32Array], counts: Sequence[Int64Array]) -> tuple[Int32Array, Int64Array]:
    """Add up numbers of samples by series; the ids come back ascending."""
    found, inverse = np.unique(np.concatenate(sids), return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, inverse, np.concatenate(counts))
    return found, total
