"""The head: which samples are admitted, how they become durable, and the memtables that hold them until they are in blocks.

Write requests commit in groups: whoever gets the commit lock takes all that wait with it, so that one write and one fdatasync
serve them all.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tocsin_tsdb.storage import wal, wire
from tocsin_tsdb.storage._wire_py import CONFLICT, DUPLICATE, IN_ORDER, OUT_OF_BOUNDS, OUT_OF_ORDER, TOO_OLD
from tocsin_tsdb.storage.errors import CommitFailed, StoreUnusable
from tocsin_tsdb.storage.index import SeriesIndex
from tocsin_tsdb.storage.memtable import NEVER, Memtable
from tocsin_tsdb.storage.metrics import StoreMetrics
from tocsin_tsdb.storage.options import StoreOptions
from tocsin_tsdb.storage.wire import Float64Array, Int32Array, Int64Array

log = logging.getLogger(__name__)

UNSET = -(1 << 63)
OLDEST_TIME = -62_135_596_800_000
"""1 January of the year 1, in milliseconds: no sample is older."""
SEGMENT_NAME = "{:08d}.wal"


@dataclass(slots=True)
class Outcome:
    """How the samples of one write request fared."""

    stored: int = 0
    late: int = 0
    duplicates: int = 0
    conflicts: int = 0
    too_old: int = 0
    out_of_bounds: int = 0
    invalid: int = 0

    @property
    def refused(self) -> int:
        """Samples that were not stored and were not there before."""
        return self.conflicts + self.too_old + self.out_of_bounds + self.invalid


@dataclass(slots=True)
class _Pending:
    sids: Int32Array
    times: Int64Array
    values: Float64Array
    outcome: Outcome = field(default_factory=Outcome)
    error: Exception | None = None
    done: bool = False


@dataclass(slots=True, eq=False)
class Generation:
    """A memtable and the log segments that would bring it back."""

    memtable: Memtable
    segments: list[Path]


class Head:
    """Recent samples. `commit` may be called from any thread; `freeze` and `release` from the maintenance thread."""

    def __init__(
        self, options: StoreOptions, index: SeriesIndex, metrics: StoreMetrics, clock: Callable[[], float]
    ) -> None:
        """Replay the log below the data directory. Raises StoreUnusable."""
        self._options = options
        self._index = index
        self._metrics = metrics
        self._clock = clock
        self._directory = options.directory / "wal"
        self._commit_lock = threading.Lock()
        self._queue: deque[_Pending] = deque()
        self._last_time = np.full(1024, UNSET, np.int64)
        self._last_value = np.zeros(1024, np.int64)
        self._defined = np.zeros(1024, bool)
        self.max_time = -NEVER
        self._frozen: tuple[Generation, ...] = ()
        self._next_segment = 1
        self._replay()
        self._writer: wal.SegmentWriter | None = None
        self._active = Generation(Memtable(options.tail_samples), [])
        try:
            self._open_segment()
        except CommitFailed as error:
            raise StoreUnusable(f"cannot write to {self._directory}: {error}") from error

    @property
    def generations(self) -> tuple[Generation, ...]:
        """All memtables, oldest first."""
        return (*self._frozen, self._active)

    @property
    def frozen(self) -> tuple[Generation, ...]:
        """Memtables that wait to be written as blocks, oldest first."""
        return self._frozen

    @property
    def min_time(self) -> int:
        """Oldest sample (ms); `NEVER` when there is none."""
        return min(generation.memtable.min_time for generation in self.generations)

    def commit(self, sids: Int32Array, times: Int64Array, values: Float64Array) -> Outcome:
        """Store samples in order of arrival; durable when this returns. Raises CommitFailed, and then nothing was stored."""
        pending = _Pending(sids, times, values)
        self._queue.append(pending)
        with self._commit_lock:
            if not pending.done:
                self._commit_group()
        if pending.error is not None:
            raise CommitFailed(str(pending.error)) from pending.error
        return pending.outcome

    def _commit_group(self) -> None:
        group = [self._queue.popleft() for _ in range(len(self._queue))]
        try:
            self._store(group)
        except Exception as error:
            if not isinstance(error, CommitFailed):
                log.exception("a commit failed")
            self._metrics.write_failures.inc(len(group))
            for pending in group:
                pending.error = error
        finally:
            for pending in group:
                pending.done = True

    def _store(self, group: list[_Pending]) -> None:
        if len(self._frozen) >= self._options.frozen_memtables:
            raise CommitFailed("the store cannot write blocks at the moment; see its log")
        sids = np.concatenate([pending.sids for pending in group])
        times = np.concatenate([pending.times for pending in group])
        values = np.concatenate([pending.values for pending in group])
        self._grow()
        before = (self._last_time[sids], self._last_value[sids], self.max_time)
        verdicts = self._admit(sids, times, values)
        accepted = verdicts <= OUT_OF_ORDER
        everything = bool(accepted.all())
        kept = (sids, times, values) if everything else (sids[accepted], times[accepted], values[accepted])
        if len(kept[0]):
            try:
                self._log_samples(*kept)
            except BaseException:
                self._last_time[sids[::-1]] = before[0][::-1]
                self._last_value[sids[::-1]] = before[1][::-1]
                self.max_time = before[2]
                raise
            self._active.memtable.append(*kept)
        self._report(group, verdicts)
        if self._active.memtable.samples >= self._options.memtable_samples:
            self._freeze()

    def _admit(self, sids: Int32Array, times: Int64Array, values: Float64Array) -> npt.NDArray[np.uint8]:
        options = self._options
        verdicts = np.empty(len(sids), np.uint8)
        bounds = (
            self.max_time,
            options.block_range // 2,
            options.out_of_order_window,
            OLDEST_TIME,
            int(self._clock() * 1000) + options.future_window,
        )
        bits = values.view(np.int64)
        self.max_time = wire.admit(sids, times, bits, self._last_time, self._last_value, verdicts, bounds)
        return verdicts

    def _log_samples(self, sids: Int32Array, times: Int64Array, values: Float64Array) -> None:
        """Append to the log; labels first for the series that this segment does not know yet."""
        writer = self._writer
        if writer is None:
            writer = self._open_segment()
        records = []
        fresh = sids[~self._defined[sids]]
        if len(fresh):
            fresh = np.unique(fresh)
            ids = fresh.tolist()
            records.append(wal.series_record(ids, [self._index.key(sid) for sid in ids]))
        records.append(wal.samples_record(sids, times, values))
        writer.append(b"".join(records))
        self._defined[fresh] = True

    def _report(self, group: list[_Pending], verdicts: npt.NDArray[np.uint8]) -> None:
        at = 0
        for pending in group:
            counts = np.bincount(verdicts[at : at + len(pending.sids)], minlength=6).tolist()
            at += len(pending.sids)
            outcome = pending.outcome
            outcome.late, outcome.duplicates, outcome.conflicts = (
                counts[OUT_OF_ORDER],
                counts[DUPLICATE],
                counts[CONFLICT],
            )
            outcome.too_old, outcome.out_of_bounds = counts[TOO_OLD], counts[OUT_OF_BOUNDS]
            outcome.stored = counts[IN_ORDER] + counts[OUT_OF_ORDER]
        total = np.bincount(verdicts, minlength=6).tolist()
        metrics = self._metrics
        old = metrics.too_old if self._options.out_of_order_window else metrics.out_of_order
        for counter, count in (
            (metrics.appended, total[IN_ORDER] + total[OUT_OF_ORDER]),
            (metrics.late, total[OUT_OF_ORDER]),
            (metrics.duplicates, total[DUPLICATE]),
            (metrics.conflicts, total[CONFLICT]),
            (old, total[TOO_OLD]),
            (metrics.out_of_bounds, total[OUT_OF_BOUNDS]),
        ):
            if count:
                counter.inc(count)

    def _grow(self) -> None:
        size, wanted = len(self._last_time), self._index.capacity
        if wanted > size:
            more = max(size, wanted - size)
            self._last_time = np.concatenate((self._last_time, np.full(more, UNSET, np.int64)))
            self._last_value = np.concatenate((self._last_value, np.zeros(more, np.int64)))
            self._defined = np.concatenate((self._defined, np.zeros(more, bool)))

    def _open_segment(self) -> wal.SegmentWriter:
        path = self._directory / SEGMENT_NAME.format(self._next_segment)
        self._writer = wal.SegmentWriter(path)
        self._next_segment += 1
        self._defined[:] = False
        self._active.segments.append(path)
        self._metrics.wal_segment.set(self._next_segment - 1)
        return self._writer

    def freeze(self) -> None:
        """Start a new memtable and log segment, so that the present ones can be written as blocks."""
        with self._commit_lock:
            self._freeze()

    def _freeze(self) -> None:
        if self._active.memtable.samples == 0:
            return
        if self._writer is not None:
            self._writer.close()
            self._writer = None  # the next commit opens one; if the disk is full, that commit fails and says so
        old = self._active
        self._frozen = (*self._frozen, old)
        self._active = Generation(Memtable(self._options.tail_samples), [])

    def release(self, generation: Generation) -> None:
        """Forget a memtable whose samples are in blocks, and delete its log segments."""
        with self._commit_lock:
            self._frozen = tuple(each for each in self._frozen if each is not generation)
        with self._metrics.wal_truncate.time():
            for path in generation.segments:
                path.unlink(missing_ok=True)
            wal.sync_directory(self._directory)

    def forget(self, sids: Int32Array) -> None:
        """Drop what is remembered about series that are removed. No write may be under way."""
        with self._commit_lock:
            self._last_time[sids[sids < len(self._last_time)]] = UNSET

    def close(self) -> None:
        """Close the log; what it holds is replayed at the next start."""
        with self._commit_lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _replay(self) -> None:
        self._directory.mkdir(exist_ok=True)
        for path in sorted(self._directory.glob("*.wal")):
            self._next_segment = int(path.stem) + 1
            if not self._frozen or self._frozen[-1].memtable.samples >= self._options.memtable_samples:
                self._frozen = (*self._frozen, Generation(Memtable(self._options.tail_samples), []))
            generation = self._frozen[-1]
            before = generation.memtable.samples
            try:
                self._replay_segment(path, generation.memtable)
            except OSError as error:
                log.error("log segment %s cannot be read: %s", path, error)
                self._metrics.wal_corruptions.inc()
                continue
            if generation.memtable.samples > before:
                generation.segments.append(path)
            else:
                path.unlink()
        self._frozen = tuple(each for each in self._frozen if each.segments)

    def _replay_segment(self, path: Path, memtable: Memtable) -> None:
        sid_of = np.full(1024, -1, np.int32)
        for record in wal.replay(path):
            if isinstance(record, wal.Torn):
                self._set_aside(path, record)
            elif isinstance(record[0], list):
                old, keys = record[0], list(record[1])
                if old and max(old) >= len(sid_of):
                    sid_of = np.concatenate((sid_of, np.full(max(old) + 1, -1, np.int32)))
                sid_of[old] = self._index.register(keys)
            else:
                self._replay_samples(memtable, sid_of[np.minimum(record[0], len(sid_of) - 1)], record[1], record[2])

    def _replay_samples(self, memtable: Memtable, sids: Int32Array, times: Int64Array, values: Float64Array) -> None:
        known = sids >= 0  # the labels of the others were in a record that is torn
        sids, times, values = sids[known], times[known], values[known]
        if len(sids):
            self._grow()
            memtable.append(sids, times, values)
            self._remember(sids, times, values)

    def _remember(self, sids: Int32Array, times: Int64Array, values: Float64Array) -> None:
        newer = times > self._last_time[sids]
        order = np.argsort(times[newer], kind="stable")
        self._last_time[sids[newer][order]] = times[newer][order]
        self._last_value[sids[newer][order]] = values.view(np.int64)[newer][order]
        self.max_time = max(self.max_time, int(times.max()))

    def _set_aside(self, path: Path, torn: wal.Torn) -> None:
        """Keep unreadable bytes of a segment for inspection; cut them off where nothing after them can be read."""
        self._metrics.wal_corruptions.inc()
        aside = path.with_suffix(f".torn-{torn.offset}")
        log.error("log segment %s, byte %d: %s; set aside as %s", path, torn.offset, torn.reason, aside.name)
        try:
            with path.open("rb") as source:
                source.seek(torn.offset)
                aside.write_bytes(source.read() if torn.end is None else source.read(torn.end - torn.offset))
            if torn.end is None:
                with path.open("r+b") as file:
                    file.truncate(torn.offset)
        except OSError as error:
            log.error("the torn part of %s cannot be set aside: %s", path, error)
