"""The time-series store: one data directory, one process.

LOCK            held while the store is open
wal/            log segments (see `wal`)
blocks/         blocks (see `block`), `blocks/corrupt/` what was set aside
metadata.json   what senders say about metric families
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from prometheus_client import CollectorRegistry

from tocsin_tsdb.promql.interface import Labels, Matcher, Selection, TooManySamples, go_on
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.block import Block, FileReader
from tocsin_tsdb.storage.blockset import BlockSet
from tocsin_tsdb.storage.build import BlockBuilder
from tocsin_tsdb.storage.directory import lock
from tocsin_tsdb.storage.duck import Parquet
from tocsin_tsdb.storage.errors import CorruptBlock, MalformedWrite, ReadFailed, StoreUnusable
from tocsin_tsdb.storage.head import Head, Outcome
from tocsin_tsdb.storage.hot import HotFiles
from tocsin_tsdb.storage.index import INVALID, SeriesIndex
from tocsin_tsdb.storage.matching import MatcherEvaluator
from tocsin_tsdb.storage.memtable import NEVER
from tocsin_tsdb.storage.metadata import MetadataStore
from tocsin_tsdb.storage.metrics import StoreMetrics
from tocsin_tsdb.storage.options import StoreOptions
from tocsin_tsdb.storage.pieces import Piece, expand, merge
from tocsin_tsdb.storage.wire import Int32Array, Metadata

log = logging.getLogger(__name__)


class Store:
    """Samples in, selections out. Every method may be called from any thread unless it says otherwise."""

    def __init__(
        self, options: StoreOptions, registry: CollectorRegistry, clock: Callable[[], float] = time.time
    ) -> None:
        """Open the data directory, replaying what was not in blocks yet. Raises StoreUnusable."""
        self.options = options
        self.metrics = StoreMetrics(registry)
        self.clock = clock
        self._lock_file = lock(options.directory)
        self.files = FileReader(
            Parquet(options.duckdb_memory, options.duckdb_threads, options.directory / "spill"),
            HotFiles(options.hot_bytes),
        )
        self.index = SeriesIndex(time.monotonic, options.id_reuse_seconds)
        self.gate = WriteGate()
        self._matching = MatcherEvaluator(self.index)
        self._counted = (0, 0)
        self._counting = threading.Lock()
        try:
            self.blocks = BlockSet(options.directory / "blocks", self.files, self.index, self.metrics)
            with self.metrics.replay_seconds.time():
                self.head = Head(options, self.index, self.metrics, clock)
            self.head.max_time = max(self.head.max_time, self.blocks.max_time)
            self.metadata = MetadataStore(options.directory / "metadata.json")
        except (OSError, ReadFailed) as error:
            self._lock_file.close()
            raise StoreUnusable(f"data directory {options.directory}: {error}") from error
        except StoreUnusable:
            self._lock_file.close()
            raise
        self.builder = BlockBuilder(options.directory / "blocks", self.files, self.index.key, options.rows_per_file)

    def write(self, body: bytes) -> Outcome:
        """Store an uncompressed write request; durable when this returns.

        Single samples that cannot be taken are counted in the outcome. Raises MalformedWrite (nothing stored) and
        CommitFailed (nothing stored; worth a retry).
        """
        with self.gate:
            try:
                packed_sids, packed_times, packed_values, unknown, metadata, ignored = wire.decode(body, self.index.ids)
                families = [wire.metadata_of(message) for message in metadata]
            except ValueError as error:
                raise MalformedWrite(f"malformed write request: {error}") from error
            sids = np.frombuffer(packed_sids, np.int32)
            times = np.frombuffer(packed_times, np.int64)
            values = np.frombuffer(packed_values, np.float64)
            invalid = 0
            if unknown:
                sids = self._registered(sids, unknown)
                valid = sids != INVALID
                invalid = int(len(sids) - valid.sum())
                if invalid:
                    sids, times, values = sids[valid], times[valid], values[valid]
            self.metadata.update(families)
            outcome = self.head.commit(sids, times, values) if len(sids) else Outcome()
        self._count_skipped(outcome, invalid, ignored)
        return outcome

    def _registered(self, sids: Int32Array, unknown: list[bytes]) -> Int32Array:
        found = np.array(self.index.register(unknown), np.int32)
        missing = sids < 0
        sids = sids.copy()
        sids[missing] = found[-sids[missing] - 1]
        return sids

    def _count_skipped(self, outcome: Outcome, invalid: int, ignored: int) -> None:
        outcome.invalid = invalid
        if invalid:
            self.metrics.invalid.inc(invalid)
        if ignored:
            self.metrics.ignored.inc(ignored)

    def select(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        *,
        max_samples: int,
        check: Callable[[], None] = go_on,
    ) -> Selection:
        """See `Queryable`. A block that turns out to be torn is set aside, and the rest answers. Raises ReadFailed."""
        return self.select_ids(self._matching.resolve(matchers), start_ms, end_ms, max_samples=max_samples, check=check)

    def select_ids(
        self, wanted: Int32Array, start_ms: int, end_ms: int, *, max_samples: int, check: Callable[[], None] = go_on
    ) -> Selection:
        """Return the samples of series given by ascending ids; otherwise like `select`."""
        pieces: list[Piece] = []
        room = max_samples
        # The head first: a memtable leaves it only when its block is there, so nothing can be missed in between.
        recent = [piece for each in self.head.generations for piece in each.memtable.pieces(wanted, start_ms, end_ms)]
        room -= sum(map(len, recent))
        with self.blocks.reading() as blocks:
            for block in blocks:
                if room < 0:
                    break
                if block.overlaps(start_ms, end_ms):
                    pieces.extend(self._block_pieces(block, wanted, start_ms, end_ms, room, check))
                    room = max_samples - sum(map(len, pieces)) - sum(map(len, recent))
        if room < 0:
            raise TooManySamples()
        merged = merge([*pieces, *recent], len(wanted))
        return self._selection(wanted, merged.offsets, merged.times, merged.values)

    def _block_pieces(
        self, block: Block, wanted: Int32Array, start: int, end: int, limit: int, check: Callable[[], None]
    ) -> list[Piece]:
        pieces = []
        try:
            for piece in block.pieces(wanted, start, end, limit, passing=False):
                check()
                pieces.append(piece)
        except CorruptBlock as error:
            self.blocks.set_aside(block, error)
            return []
        return pieces

    def _selection(
        self, wanted: Int32Array, offsets: wire.Int64Array, times: wire.Int64Array, values: wire.Float64Array
    ) -> Selection:
        """Leave out series without samples, and those that were removed while the query ran."""
        counts = np.diff(offsets)
        present = np.flatnonzero(counts)
        labels = self.index.labels(wanted[present].tolist())
        if len(present) == len(wanted) and all(labels):
            return Selection(labels, offsets, times, values)
        alive = np.array([bool(each) for each in labels], bool)
        present = present[alive]
        rows = expand(offsets[:-1][present], counts[present])
        kept = np.concatenate(([0], np.cumsum(counts[present])))
        return Selection([each for each in labels if each], kept, times[rows], values[rows])

    def series_ids(self, selectors: Sequence[Sequence[Matcher]], start_ms: int, end_ms: int) -> Int32Array:
        """Return the series that satisfy any of the selectors (all when there are none) and may have samples in [start, end].

        As in Prometheus, time is looked at by block, not by sample.
        """
        found = [self._matching.resolve(matchers) for matchers in selectors] or [self.index.all_series()]
        wanted = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
        if start_ms <= self.min_time and end_ms >= self.head.max_time:
            return wanted
        active = np.zeros(self.index.capacity, bool)
        for generation in self.head.generations:
            if start_ms <= generation.memtable.max_time and end_ms >= generation.memtable.min_time:
                active[generation.memtable.weights()[0]] = True
        for block in self.blocks.current:
            if block.overlaps(start_ms, end_ms):
                active[block.sids] = True
        return wanted[active[wanted]]

    def series(self, selectors: Sequence[Sequence[Matcher]], start_ms: int, end_ms: int) -> list[Labels]:
        """Return the labels of the series that satisfy any of the selectors; see `series_ids`."""
        sids = self.series_ids(selectors, start_ms, end_ms).tolist()
        return sorted(labels for labels in self.index.labels(sids) if labels)

    def label_names(self, selectors: Sequence[Sequence[Matcher]], start_ms: int, end_ms: int) -> list[str]:
        """Return the sorted label names of matching series."""
        if not selectors and start_ms <= self.min_time and end_ms >= self.head.max_time:
            return self.index.names()
        sids = self.series_ids(selectors, start_ms, end_ms).tolist()
        return sorted({name for labels in self.index.labels(sids) for name, _ in labels})

    def label_values(self, name: str, selectors: Sequence[Sequence[Matcher]], start_ms: int, end_ms: int) -> list[str]:
        """Return the sorted values that a label has on matching series."""
        if not selectors and start_ms <= self.min_time and end_ms >= self.head.max_time:
            return list(self.index.values(name))
        sids = self.series_ids(selectors, start_ms, end_ms)
        return self.index.values_among(name, sids)

    @property
    def min_time(self) -> int:
        """Oldest sample (ms); `NEVER` when the store is empty."""
        return min([self.head.min_time, *(block.meta.min_time for block in self.blocks.current)])

    def families(self) -> dict[str, list[Metadata]]:
        """Return what is known about metric families, by name."""
        return self.metadata.families()

    def refresh_metrics(self) -> None:
        """Bring up to date what is not counted where it happens."""
        metrics, head = self.metrics, self.head
        memtables = [generation.memtable for generation in head.generations]
        with self._counting:
            created, removed = self.index.created, self.index.removed
            metrics.series_created.inc(created - self._counted[0])
            metrics.series_removed.inc(removed - self._counted[1])
            self._counted = (created, removed)
        metrics.head_series.set(len(self.index))
        metrics.head_chunks.set(sum(memtable.runs for memtable in memtables))
        metrics.head_min_time.set(head.min_time if head.min_time != NEVER else 0)
        metrics.head_max_time.set(head.max_time if head.max_time != -NEVER else 0)
        metrics.lowest_timestamp.set(self.min_time if self.min_time != NEVER else 0)
        metrics.active_appenders.set(self.gate.inside)
        metrics.blocks_bytes.set(self.blocks.size)
        metrics.blocks_loaded.set(len(self.blocks.current))
        metrics.retention_limit.set(self.options.max_bytes)
        metrics.symbol_bytes.set(self.index.symbol_bytes)

    def close(self) -> None:
        """Close the data directory. Samples that are not in blocks stay in the log."""
        self.head.close()
        self.metadata.save()
        self.files.parquet.close()
        self._lock_file.close()


class WriteGate:
    """Lets writes run side by side and, now and then, nobody: series are removed only while no write is under way."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._closed = False
        self.inside = 0

    def __enter__(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: not self._closed)
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self.inside -= 1
            self._condition.notify_all()

    def close(self) -> None:
        """Keep new writes waiting and wait for those under way."""
        with self._condition:
            self._closed = True
            self._condition.wait_for(lambda: self.inside == 0)

    def open(self) -> None:
        """Let writes in again."""
        with self._condition:
            self._closed = False
            self._condition.notify_all()
