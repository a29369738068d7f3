"""One backend as the gateway sees it: relabelling, attempts, and where every entry ends up."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tocsin.ingest.decode import decode_chunk
from tocsin.ingest.interface import CacheStats
from tocsin.ingest.metrics import LOST, GatewayMetrics, Lost
from tocsin.ingest.relabel import Relabeler, RelabelRule
from tocsin.ingest.spool import Spool
from tocsin.ingest.throttle import Throttle
from tocsin.ingest.wire import wire
from tocsin.plugin import Batch, WriteError, Writer, WriteResult

log = logging.getLogger(__name__)

ASYNC_ATTEMPTS = 3
ASYNC_BATCHES = max(16, os.cpu_count() or 1)
"""Batches that a writer with `AsyncWrite` has under way at once."""
METADATA_WAITING = 64
ADOPT_SECONDS = 10.0
"""Between two looks for batches on disk whose owner has ended."""


@dataclass(frozen=True)
class OutletOptions:
    """What the gateway's settings say about one backend."""

    critical: bool = True
    retry_count: int = 1000
    retry_interval: float = 1.0
    relabel: Sequence[RelabelRule] = ()
    relabel_cache_size: int = 1_000_000
    spool_directory: Path | None = None
    spool_max_bytes: int = 1 << 30

    @property
    def attempts(self) -> int:
        """Attempts to write a batch."""
        return self.retry_count if self.critical else min(self.retry_count, ASYNC_ATTEMPTS)


class Outlet:
    """Hands batches to a writer, one call of `deliver` per batch and thread, and counts what became of them."""

    def __init__(
        self,
        writer: Writer,
        options: OutletOptions,
        metrics: GatewayMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.writer, self.options, self._metrics, self._clock = writer, options, metrics, clock
        url = self.url = writer.url
        self._write, self._error = metrics.write.labels(url), metrics.write_error.labels(url)
        self._written, self._duration = metrics.written.labels(url), metrics.duration.labels(url)
        self._lost = {reason: metrics.lost.labels(url, reason) for reason in LOST}
        self._relabel = (
            wire.LabelCache(Relabeler(options.relabel), options.relabel_cache_size) if options.relabel else None
        )
        self._given_up = threading.Event()
        self._stopping = threading.Event()
        self._warnings = Throttle(log)
        self._metadata: deque[tuple[int, bytes]] = deque()
        self._spool: Spool | None = None
        self._replay: threading.Thread | None = None
        self._places = threading.BoundedSemaphore(ASYNC_BATCHES)
        self._lock = threading.Lock()
        self._under_way: dict[int, Batch] = {}
        self._lost_at_end = 0

    # --- life ---

    def start(self) -> None:
        """Open the spool and start the threads that are not tied to a queue; call it after the fork."""
        if self.options.spool_directory is not None:
            try:
                self._spool = Spool(
                    self.options.spool_directory,
                    self.url,
                    self.options.spool_max_bytes,
                    self._spool_lost,
                    self._clock,
                    found=self._metrics.spool_found.labels(self.url).inc,
                    run=os.environ.get("PROMETHEUS_MULTIPROC_DIR", str(os.getpid())),
                )
            except OSError as error:
                log.error("Pushgw.WriterOpt.SpoolDir: no spool for %s: %s", self.url, error)
        if self._spool is not None:
            self._replay = threading.Thread(target=self._replay_all, name=f"spool {self.url}", daemon=True)
            self._replay.start()

    def give_up(self) -> None:
        """End all retries: what is not written now goes to the spool, or is lost and counted."""
        self._given_up.set()

    def put_away(self) -> None:
        """Wait no longer for answers that the backend owes: those batches go to the spool, better twice than never.

        Call it after `give_up`, and before the first `leave`, so that the spool is in order.
        """
        self._stopping.set()
        with self._lock:
            stuck, self._under_way = list(self._under_way.values()), {}
        for batch in stuck:
            if not self._spooled(batch):
                self._lose_at_end(batch.series)

    def close(self) -> None:
        """End; nothing is under way any more, so it does no harm if there is no time for it."""
        if self._metadata:
            self._metrics.metadata_dropped.inc(sum(count for count, _ in self._metadata))
        if self._replay is not None:
            self._replay.join(self.options.retry_interval + 1)
        if self._spool is not None:
            self._spool.close()
        self.writer.close()

    @property
    def lost_at_end(self) -> int:
        """Entries for which neither the backend nor the disk had time or room after `give_up`."""
        with self._lock:
            return self._lost_at_end

    @property
    def in_flight(self) -> int:
        """Entries taken from the queues whose fate is open."""
        with self._lock:
            return sum(batch.series for batch in self._under_way.values())

    # --- batches ---

    def take(self, batch: Batch) -> None:
        """Accept a batch from a queue: written when this returns, unless the backend is not critical."""
        self._watch(id(batch), batch)
        if self.options.critical:
            self._deliver(batch)
        elif self._places.acquire(blocking=False):
            threading.Thread(target=self._deliver_async, args=(batch,), name=f"async {self.url}", daemon=True).start()
        else:
            self._handle(batch, self._busy)

    def leave(self, batch: Batch) -> None:
        """Keep a batch of a queue for which no time is left: on disk, or as a loss. Call it after `give_up`."""
        self._watch(id(batch), batch)
        self._deliver(batch)

    def lose(self, series: int, reason: str) -> None:
        """Count entries that do not reach the backend."""
        self._lost[reason].inc(series)
        self._warnings.warning(lambda: f"{self.url}: {series} series lost: {reason}", reason)

    def offer_metadata(self, metadata: bytes, count: int) -> bool:
        """Pass metadata on with the next batch if the backend wants it; return whether it does."""
        if self.writer.metadata:
            with self._lock:
                self._metadata.append((count, metadata))
                if len(self._metadata) > METADATA_WAITING:
                    self._metrics.metadata_dropped.inc(self._metadata.popleft()[0])
        return self.writer.metadata

    def relabel_stats(self) -> CacheStats | None:
        """Return the counters of the relabelling cache."""
        return self._relabel.stats() if self._relabel is not None else None

    def show_spool(self) -> None:
        """Bring the metrics of the spool up to date."""
        if self._spool is None:
            return
        stored = self._spool.stored()
        self._metrics.spool_entries.labels(self.url).set(stored.series)
        self._metrics.spool_bytes.labels(self.url).set(stored.bytes)
        self._metrics.spool_age.labels(self.url).set(max(0.0, self._clock() - stored.oldest) if stored.oldest else 0)

    def _deliver_async(self, batch: Batch) -> None:
        try:
            self._deliver(batch)
        finally:
            self._places.release()

    def _deliver(self, batch: Batch) -> None:
        """Relabel a batch and write it; every entry of it is counted when this returns."""
        self._handle(batch, self._write_timed)
        self._flush_metadata()

    def _handle(self, batch: Batch, finish: Callable[[int, Batch], None]) -> None:
        """Relabel a batch and let `finish` settle it."""
        try:
            ready = self._relabelled(batch)
            with self._lock:
                if id(batch) in self._under_way:
                    self._under_way[id(batch)] = ready
            if ready.series:
                self._write.inc(ready.series)
                finish(id(batch), ready)
        except Exception:
            log.exception("%s: a batch could not be handled", self.url)
            if self._settled(id(batch)):
                self.lose(batch.series, Lost.INTERNAL)
        finally:
            self._settled(id(batch))

    def _busy(self, key: int, batch: Batch) -> None:
        """Keep a batch for which the backend has no place on disk, or lose it."""
        if not self._stored(key, batch) and self._settled(key):
            self._error.inc(batch.series)
            self.lose(batch.series, Lost.BUSY)

    def _write_timed(self, key: int, batch: Batch) -> None:
        with self._duration.time():
            self._write_or_keep(key, batch)

    def _lose_at_end(self, series: int) -> None:
        with self._lock:
            self._lost_at_end += series
        self.lose(series, Lost.SHUTDOWN)

    def _watch(self, key: int, batch: Batch) -> None:
        """Let `put_away` have a batch if nobody has settled it by then."""
        with self._lock:
            self._under_way[key] = batch

    def _settled(self, key: int) -> bool:
        """Return whether it is for the caller to say what became of a batch: once, and not after `put_away` has done so."""
        with self._lock:
            return self._under_way.pop(key, None) is not None

    def _relabelled(self, batch: Batch) -> Batch:
        if self._relabel is None:
            return batch
        result = wire.rewrite(batch.body, self._relabel)
        if dropped := sum(result.dropped.values()):
            self._lost[Lost.RELABEL].inc(dropped)
        if not result.chunks:
            return Batch(b"", 0, 0)
        [chunk] = result.chunks
        return Batch(chunk.data, chunk.series, chunk.samples)

    def _write_or_keep(self, key: int, batch: Batch) -> None:
        """Write a batch; when that fails keep it in the spool, or try again until there is no more point in it."""
        if self._spool is not None and not self._spool.empty and self._stored(key, batch):
            return
        for attempt in range(1, self.options.attempts + 1):
            if self._given_up.is_set():
                if not self._stored(key, batch) and self._settled(key):
                    self._lose_at_end(batch.series)
                return
            answer = self._attempt(batch)
            if not isinstance(answer, int | float):
                if self._settled(key):
                    self._count(batch, answer)
                return
            if self._stored(key, batch):
                return
            if attempt < self.options.attempts:
                self._given_up.wait(answer)
        if self._settled(key):
            self.lose(batch.series, Lost.RETRIES)

    def _attempt(self, batch: Batch) -> WriteResult | float:
        """Try once; return what the backend answered for good, or the seconds to wait before the next try."""
        try:
            return self.writer.write(batch)
        except WriteError as error:
            self._failed(batch, error)
            return max(self.options.retry_interval, error.retry_after or 0.0)
        except Exception as error:
            log.debug("%s: the writer failed", self.url, exc_info=True)
            self._failed(batch, error)
            return self.options.retry_interval

    def _failed(self, batch: Batch, error: Exception) -> None:
        self._error.inc(batch.series)
        self._warnings.warning(
            lambda: f"{self.url}: {batch.series} series not written: {error}; one of them: {_example(batch)}",
            "failed",
        )

    def _count(self, batch: Batch, result: WriteResult) -> None:
        if not result.refused_with:
            self._written.inc(batch.series)
            return
        self._metrics.rejected.labels(self.url, str(result.refused_with)).inc(batch.series)
        self._warnings.warning(
            lambda: (
                f"{self.url}: refused {batch.series} series with {result.refused_with}: {result.detail}; "
                f"one of them: {_example(batch)}"
            ),
            "refused",
        )

    def _flush_metadata(self) -> None:
        if self._metadata and not self._given_up.is_set():
            # Several queues deliver at once; each entry is taken by one of them.
            with self._lock:
                waiting = list(self._metadata)
                self._metadata.clear()
            try:
                self.writer.write(Batch(b"".join(metadata for _, metadata in waiting), 0, 0))
            except Exception as error:
                reason = str(error)
                self._metrics.metadata_dropped.inc(sum(count for count, _ in waiting))
                self._warnings.warning(lambda: f"{self.url}: metadata not written: {reason}", "metadata")

    # --- spool ---

    def _stored(self, key: int, batch: Batch) -> bool:
        """Keep a batch on disk, unless `put_away` has done so; return whether that is the end of it."""
        if self._spool is None:
            return False
        if not self._settled(key) or self._spooled(batch):
            return True
        self._watch(key, batch)
        return False

    def _spooled(self, batch: Batch) -> bool:
        """Keep a batch on disk; return whether it is there."""
        if self._spool is None:
            return False
        try:
            self._spool.append(batch)
        except OSError as error:
            reason = str(error)
            self._warnings.warning(lambda: f"{self.url}: the spool does not take a batch: {reason}", "spool")
            return False
        self._metrics.spooled.labels(self.url).inc(batch.series)
        return True

    def _spool_lost(self, series: int, how: str) -> None:
        self.lose(series, Lost.SPOOL if how == "full" else Lost.TORN)

    def _replay_all(self) -> None:
        """Write what the spool holds, oldest first, for as long as the process lives."""
        assert self._spool is not None
        pause, looked = 0.0, self._clock()
        while not self._stopping.wait(pause):
            pause = self.options.retry_interval
            try:
                if not self._given_up.is_set() and abs(self._clock() - looked) >= ADOPT_SECONDS:
                    looked = self._clock()
                    self._spool.adopt()
                while not self._given_up.is_set() and (head := self._spool.head()) is not None:
                    answer = self._attempt(head.batch)
                    if isinstance(answer, int | float):
                        self._spool.keep(head)
                        pause = answer
                        break
                    self._count(head.batch, answer)
                    self._spool.done(head)
                    self._metrics.replayed.labels(self.url).inc(head.batch.series)
            except Exception as error:
                reason = str(error)
                self._warnings.warning(lambda: f"{self.url}: reading the spool failed: {reason}", "replay")  # noqa: B023


def _example(batch: Batch) -> str:
    """Return the first series of a batch as text."""
    return str(next(decode_chunk(batch.body), ""))
