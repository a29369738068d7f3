"""What happens to samples after they were acknowledged: into blocks, into larger blocks, and away at the end of their time.

One thread calls `Maintenance.round` again and again; the admin operations take the same lock, so blocks change one at a time.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from tocsin_tsdb.promql.interface import Matcher
from tocsin_tsdb.storage.block import Block
from tocsin_tsdb.storage.build import Built, Plan
from tocsin_tsdb.storage.errors import CorruptBlock, StoreError
from tocsin_tsdb.storage.head import Generation
from tocsin_tsdb.storage.memtable import NEVER
from tocsin_tsdb.storage.planner import Span, expired, next_merge, oversize, spans_of
from tocsin_tsdb.storage.store import Store

log = logging.getLogger(__name__)


SETTLING_SHARE = 8
"""The newest part of a block range, one in so many, is not merged yet."""


class Maintenance:
    """Keeps a store in shape. `start` runs it in a thread; the tests call `round` themselves."""

    def __init__(self, store: Store, interval: float = 5.0) -> None:
        """`interval` is the time between rounds, in seconds."""
        self._store = store
        self._interval = interval
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing = False
        self._unverified = list(store.blocks.current)

    def start(self) -> None:
        """Run rounds in the background until `stop`."""
        self._thread = threading.Thread(target=self._run, name="tsdb-maintenance", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the round under way and stop."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self.round()
                self._store.refresh_metrics()
                if self._failing:
                    log.warning("maintenance works again")
                self._failing = False
            except Exception:
                self._store.metrics.maintenance_errors.inc()
                if not self._failing:
                    log.exception("maintenance failed; tried again every %g s", self._interval)
                self._failing = True

    def round(self) -> None:
        """Write full memtables as blocks, merge blocks, apply retention, verify one block. Raises OSError when the disk is full."""
        with self._lock:
            store = self._store
            if self._window_passed():
                store.head.freeze()
            self._retain()  # first, for it may make the room that the rest needs
            self._flush()
            while not self._stop.is_set() and self._merge_once():
                pass
            self._retain()
            self._verify_one()
            self._collect_series()
            store.metadata.save()

    def flush(self) -> None:
        """Write everything that is in memory as blocks."""
        with self._lock:
            self._store.head.freeze()
            self._flush()

    def _window_passed(self) -> bool:
        """Tell whether the oldest samples in memory belong to a block range that no new sample can belong to."""
        store = self._store
        active = store.head.generations[-1].memtable
        if active.samples == 0:
            return False
        end = Span.around(active.min_time, store.options.block_range).end
        return store.head.max_time > end + store.options.out_of_order_window

    def _flush(self) -> None:
        for generation in self._store.head.frozen:
            self._flush_generation(generation)

    def _flush_generation(self, generation: Generation) -> None:
        store, options, memtable = self._store, self._store.options, generation.memtable
        expired = store.head.max_time - options.retention
        sequence = store.blocks.next_sequence
        built = [
            self._build(Plan([memtable], span.start, span.end, 1, sequence, []))
            for span in spans_of(memtable, options.block_range, options.largest_block)
            if span.end > expired
        ]
        store.blocks.replace([], [each for each in built if each is not None])
        store.head.release(generation)

    def _build(self, plan: Plan) -> Built | None:
        metrics = self._store.metrics
        try:
            with metrics.compaction_seconds.time():
                built = self._store.builder.build(plan)
        except (OSError, StoreError):
            metrics.compactions_failed.inc()
            raise
        metrics.compactions.inc()
        if built is not None:
            metrics.merged_away.inc(built.dropped)
        return built

    def _merge_once(self) -> bool:
        store, options = self._store, self._store.options
        settled = store.blocks.max_time - options.block_range // SETTLING_SHARE
        choice = next_merge(store.blocks.current, options.block_range, options.largest_block, settled)
        if choice is None:
            return False
        store.metrics.compactions_triggered.inc()
        span, blocks = choice
        return self._rewrite(blocks, span)

    def _rewrite(self, blocks: Sequence[Block], span: Span) -> bool:
        """Replace blocks by one; False when one of them is torn, which then is set aside."""
        level = max(block.meta.level for block in blocks) + 1
        ids = [block.meta.id for block in blocks]
        hot = self._store.files.hot.worth_keeping(ids, sum(block.meta.samples for block in blocks))
        sequence = min(block.meta.sequence for block in blocks)
        in_order = sorted(blocks, key=lambda block: block.meta.sequence)
        plan = Plan(in_order, span.start, span.end, level, sequence, ids, hot)
        try:
            built = self._build(plan)
        except CorruptBlock as error:
            for block in blocks:
                self._check(block, error)
            return False
        self._store.blocks.replace(blocks, [built] if built is not None else [])
        return True

    def _check(self, block: Block, fallback: CorruptBlock) -> None:
        try:
            block.verify()
        except CorruptBlock as error:
            self._store.blocks.set_aside(block, error)
        else:
            if block.meta.id in str(fallback):
                self._store.blocks.set_aside(block, fallback)

    def _verify_one(self) -> None:
        """Check the sums of one block of those found at start."""
        while self._unverified:
            block = self._unverified.pop()
            if block in self._store.blocks.current:
                try:
                    with block:
                        block.verify()
                except CorruptBlock as error:
                    self._store.blocks.set_aside(block, error)
                return

    def _retain(self) -> None:
        store, options = self._store, self._store.options
        newest = max(store.head.max_time, store.blocks.max_time)
        old = expired(store.blocks.current, options.retention, newest)
        if old:
            store.blocks.replace(old, [])
            store.metrics.time_retentions.inc(len(old))
        large = oversize(store.blocks.current, options.max_bytes)
        if large:
            store.blocks.replace(large, [])
            store.metrics.size_retentions.inc(len(large))

    def _collect_series(self) -> None:
        """Remove series that have no sample anywhere any more."""
        store = self._store
        if not self._blocks_changed():
            return
        store.gate.close()
        try:
            used = np.zeros(store.index.capacity, bool)
            for generation in store.head.generations:
                used[generation.memtable.weights()[0]] = True
            for block in store.blocks.current:
                used[block.sids] = True
            everything = store.index.all_series()
            unused = everything[~used[everything]]
            if len(unused):
                store.head.forget(unused)
                store.index.remove(unused.tolist())
        finally:
            store.gate.open()

    _seen_blocks: tuple[Block, ...] = ()

    def _blocks_changed(self) -> bool:
        current = self._store.blocks.current
        changed = current is not self._seen_blocks
        self._seen_blocks = current
        return changed

    def delete_series(self, selectors: Sequence[Sequence[Matcher]], start_ms: int, end_ms: int) -> None:
        """Mark the samples of matching series in [start, end] as deleted. Raises OSError."""
        with self._lock:
            store = self._store
            store.head.freeze()
            self._flush()
            wanted = store.series_ids(selectors, -NEVER, NEVER)
            for block in store.blocks.current:
                if block.overlaps(start_ms, end_ms):
                    refs, _ = block.refs(wanted)
                    if len(refs):
                        block.delete_span(refs.tolist(), start_ms, end_ms)

    def clean_tombstones(self) -> None:
        """Rewrite the blocks that have deleted samples. Raises OSError."""
        with self._lock:
            for block in self._store.blocks.current:
                if block.tombstones.spans:
                    self._rewrite([block], Span(block.meta.start, block.meta.end))
            self._collect_series()

    def snapshot(self, *, with_head: bool) -> str:
        """Link the blocks into `snapshots/<name>` and return the name. Raises OSError."""
        with self._lock:
            store = self._store
            if with_head:
                store.head.freeze()
                self._flush()
            name = datetime.fromtimestamp(store.clock(), UTC).strftime("%Y%m%dT%H%M%SZ-") + os.urandom(4).hex()
            target = store.options.directory / "snapshots" / name / "blocks"
            target.mkdir(parents=True)
            with store.blocks.reading() as blocks:
                for block in blocks:
                    _link(block.path, target / block.path.name)
            return name


def _link(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=os.link)
