"""The gateway of one process: from a decoded request into a queue, and from the queues to the backends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from tocsin.ingest.board import Board
from tocsin.ingest.casualties import count_casualties
from tocsin.ingest.decode import decode_chunk, decode_series
from tocsin.ingest.hosts import HostRegister, TargetLabels
from tocsin.ingest.interface import Chunk, Rewritten
from tocsin.ingest.labels import COLLECTOR, COLLECTOR_OR_HOST, NOBODY, DropReason, IdentRule, LabelRules, LabelWork
from tocsin.ingest.metrics import GatewayMetrics, Lost
from tocsin.ingest.outlet import Outlet
from tocsin.ingest.queue import Queue, QueueClosedError, Reader
from tocsin.ingest.settings import PushgwSettings
from tocsin.ingest.throttle import Throttle
from tocsin.ingest.wire import wire
from tocsin.plugin import Decoded, LabelSets

log = logging.getLogger(__name__)

CACHES = {COLLECTOR: "labels", COLLECTOR_OR_HOST: "labels with host", NOBODY: "labels without host"}
"""The label caches, by the names that the metrics give them."""
TICK_SECONDS = 1.0
SWEEP_SECONDS, IDLE_SECONDS = 600.0, 3600.0
"""Between two looks for queues to close, and after the last use of one."""
JOIN_SECONDS = 1.0
"""What consumers get, after they were told to give up, to hand their batches to the spool."""


class NotRunningError(RuntimeError):
    """The gateway takes nothing: it has not been started, or is being stopped."""


def rules_of(settings: PushgwSettings) -> LabelRules:
    """Return the label rules that the settings state."""
    return LabelRules(
        label_rewrite=settings.label_rewrite,
        group_key=settings.group_key.encode(),
        drop=[_encoded(rule) for rule in settings.drop_sample],
        debug=_encoded(settings.debug_sample),
        register=settings.heartbeat_from_metric,
        register_metrics=frozenset(name.encode() for name in settings.ident_metrics),
    )


def _encoded(labels: dict[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in labels.items()}


class Gateway:
    """Takes requests, keeps the queues and runs their consumers.

    Made before the workers are forked; each worker then calls `start`, and `stop` at its end.
    """

    def __init__(
        self,
        settings: PushgwSettings,
        outlets: Sequence[Outlet],
        metrics: GatewayMetrics,
        targets: TargetLabels,
        register: HostRegister,
        *,
        workers: int = 1,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a gateway that writes to `outlets`.

        :param workers: processes that will share it.
        :param clock: Unix time in seconds, for timestamps.
        :param monotonic: time in seconds, for intervals.
        """
        self.settings, self.options = settings, settings.writer_options.effective()
        self.outlets, self.metrics = list(outlets), metrics
        self._targets, self._register = targets, register
        self._clock, self._monotonic, self._workers = clock, monotonic, max(1, workers)
        self.board = Board(self.options.queue_number + 1)
        rules = rules_of(settings)
        self._caches = {
            rule: wire.LabelCache(LabelWork(rules, targets, rule), settings.label_cache_size) for rule in CACHES
        }
        self._label_sets: dict[str, LabelSets] = {}
        self._targets_seen = 0
        self._queues: dict[int, Queue] = {}
        self._readers: list[tuple[Queue, Reader, Outlet]] = []
        self._consumers: list[threading.Thread] = []
        self._requests = 0
        self._lock = threading.Lock()
        self._size_read, self._size = -float("inf"), 0
        self._full = Throttle(log, clock=monotonic)
        self._hosts: set[str] = set()  # that are counted by name
        self._by_host: dict[str, int] = {}  # entries since their counters were brought up to date
        self.running = False
        self._warnings = Throttle(log)
        self._stopped = threading.Event()
        self._ticker: threading.Thread | None = None
        self._shown: dict[str, tuple[int, int, int]] = {}
        metrics.wire.labels(wire.IMPLEMENTATION).set(1)

    # --- requests ---

    @property
    def ceiling(self) -> int:
        """Entries in all queues above which remote write is refused."""
        return int(self.options.queue_number * self.options.queue_max_size * self.options.queue_water_mark)

    def over_limit(self) -> int:
        """Return the length of all queues of all workers when it is above the ceiling, else 0; counts a refusal."""
        now = self._monotonic()
        if now - self._size_read >= self.options.size_interval / 1000:
            self._size = sum(self.board.sum(number) for number in range(self.options.queue_number))
            self._size_read = now
        if self._size <= self.ceiling:
            return 0
        self.metrics.over_limit.inc()
        return self._size

    def accept(self, channel: str, decoded: Decoded, remote: str = "") -> int:
        """Take the series of a request; return how many they were, dropped ones included.

        :param channel: protocol, for the metrics.
        :raises WireError: the body is malformed; nothing was taken.
        :raises NotRunningError: before `start` and after `stop`.
        """
        if not self.running:
            raise NotRunningError("the gateway is not running")
        self._refresh()
        results = [self._rewrite(decoded.body, COLLECTOR_OR_HOST if decoded.host_label else COLLECTOR)]
        if decoded.hostless:
            results.append(self._rewrite(decoded.hostless, NOBODY))
        for result in results:
            self._count(channel, result, remote)
            if decoded.register_hosts and result.registered:
                self._register.announce(result.registered)
        self._pass_metadata(results[0], decoded)
        if chunks := [chunk for result in results for chunk in result.chunks]:
            self._enqueue(chunks)
        return sum(result.received for result in results)

    def _rewrite(self, body: bytes, rule: IdentRule) -> Rewritten:
        now_ms = int(self._clock()) * 1000 if self.settings.force_server_time else None
        return wire.rewrite(body, self._caches[rule], now_ms, self.options.queue_pop_size)

    def _refresh(self) -> None:
        """Forget what is known of hosts that changed."""
        version, idents = self._targets.changes(self._targets_seen)
        if version == self._targets_seen:
            return
        with self._lock:
            for cache in self._caches.values():
                if idents is None:
                    cache.clear()
                else:
                    cache.invalidate(idents)
            self._targets_seen = version

    def _count(self, channel: str, result: Rewritten, remote: str) -> None:
        if result.received:
            self.metrics.received.labels(channel).inc(result.received)
        for reason, entries in result.dropped.items():
            self.metrics.dropped.labels(reason).inc(entries)
            if reason == DropReason.RULE:
                self.metrics.drop_sample.inc(entries)
        self._count_idents(result.idents)
        for message in result.debug:
            log.debug("sample from %s: %s", remote, decode_series(message))

    def _count_idents(self, idents: Mapping[str, int]) -> None:
        """Note the entries of hosts.  PERF: counters shared by processes are slow, and a request may be of very many hosts."""
        others = 0
        with self._lock:
            for ident, entries in idents.items():
                if ident not in self._hosts:
                    if len(self._hosts) >= self.settings.max_idents:
                        others += entries
                        continue
                    self._hosts.add(ident)
                self._by_host[ident] = self._by_host.get(ident, 0) + entries
        if others:
            self.metrics.idents_not_counted.inc(others)

    def _pass_metadata(self, result: Rewritten, decoded: Decoded) -> None:
        count = result.metadata_count + len(decoded.metadata)
        if not count:
            return
        fields = result.metadata + b"".join(b"\x1a" + _length(message) + message for message in decoded.metadata)
        wanted = [outlet.offer_metadata(fields, count) for outlet in self.outlets]
        if not any(wanted):
            self.metrics.metadata_dropped.inc(count)

    def _enqueue(self, chunks: list[Chunk]) -> None:
        """Put a request's chunks into the queue whose turn it is."""
        with self._lock:
            number = self._requests % self.options.queue_number
            self._requests += 1
        try:
            refused = self._push(number, chunks)
        except NotRunningError:
            self.metrics.dropped.labels(DropReason.STOPPING).inc(sum(chunk.series for chunk in chunks))
            raise
        if not self.outlets:
            self.metrics.lost.labels("", Lost.NO_WRITER).inc(sum(chunk.series for chunk in chunks))
        if refused is not None:
            self.metrics.queue_full.labels(str(number)).inc(refused.series)
            self.metrics.dropped.labels(DropReason.QUEUE).inc(refused.series)
            example = refused.data[: wire.skip(refused.data, 0, 1)[0]]
            self._full.warning(lambda: f"queue {number} is full, {refused.series} series dropped: {_first(example)}")

    def _push(self, number: int, chunks: list[Chunk]) -> Chunk | None:
        """Put chunks into a queue, which is opened if it is not open; return what did not fit."""
        while True:
            with self._lock:
                if not self.running:
                    raise NotRunningError("the gateway is being stopped")
                queue = self._queues.get(number) or self._open(number)
            try:
                return queue.push(chunks)
            except QueueClosedError:
                continue  # it was idle for so long that it was closed just now

    def _open(self, number: int) -> Queue:
        """Make a queue with a consumer for each backend."""
        options = self.options
        queue = Queue(
            number,
            options.queue_max_size,
            max(options.queue_pop_size, options.queue_max_size // self._workers),
            options.queue_pop_size,
            self.board,
            self._monotonic,
        )
        for outlet in self.outlets:
            reader = queue.reader(lambda entries, outlet=outlet: outlet.lose(entries, Lost.BACKLOG))  # type: ignore[misc]
            consumer = threading.Thread(
                target=self._consume, args=(queue, reader, outlet), name=f"queue {number} {outlet.url}", daemon=True
            )
            self._readers.append((queue, reader, outlet))
            self._consumers.append(consumer)
            consumer.start()
        self.metrics.consumers.labels(str(number)).set(len(self.outlets))
        self.metrics.queue_full.labels(str(number))
        self._queues[number] = queue
        return queue

    def close_idle(self) -> None:
        """Close queues that nobody has used for an hour; their consumers end."""
        since = self._monotonic() - IDLE_SECONDS
        with self._lock:
            idle = [queue for queue in self._queues.values() if queue.close_if_idle(since)]
            for queue in idle:
                del self._queues[queue.number]
            self._readers = [place for place in self._readers if place[0] not in idle]
            self._consumers = [consumer for consumer in self._consumers if consumer.is_alive()]
        for queue in idle:
            self.metrics.queue_size.labels(str(queue.number)).set(0)
            self.metrics.consumers.labels(str(queue.number)).set(0)

    def _consume(self, queue: Queue, reader: Reader, outlet: Outlet) -> None:
        while (batch := queue.pull(reader, self.options.linger / 1000)) is not None:
            outlet.take(batch)

    # --- life ---

    def start(self) -> None:
        """Start in a worker process; all hosts are known before the first request comes."""
        self._refresh()
        self.board.claim()
        count_casualties(self.metrics)
        for outlet in self.outlets:
            outlet.start()
        self._requests = self.board.slot
        self._ticker = threading.Thread(target=self._tick, name="gateway metrics", daemon=True)
        self._ticker.start()
        self.running = True

    def stop(self, seconds: float) -> int:
        """Take nothing more and write what is queued within some seconds; return the entries that were lost.

        What cannot be written in time goes to the spool where there is one. Stopping twice is stopping once.
        """
        if not self.running:
            return 0
        deadline = self._monotonic() + seconds
        with self._lock:
            self.running = False
            for queue in self._queues.values():
                queue.close()
        for consumer in self._consumers:
            consumer.join(max(0.0, deadline - self._monotonic()))
        while any(outlet.in_flight for outlet in self.outlets) and self._monotonic() < deadline:
            self._stopped.wait(0.02)  # batches of writers with AsyncWrite
        for outlet in self.outlets:
            outlet.give_up()
        deadline = self._monotonic() + JOIN_SECONDS
        for consumer in self._consumers:
            consumer.join(max(0.0, deadline - self._monotonic()))
        for outlet in self.outlets:
            outlet.put_away()
        for queue, reader, outlet in self._readers:  # of consumers that wait for a backend
            while (batch := queue.pull(reader)) is not None:
                outlet.leave(batch)
        lost = sum(outlet.lost_at_end for outlet in self.outlets)
        if lost:
            log.error("stopped with %d series that no backend took in time", lost)
        for outlet in self.outlets:
            outlet.close()
        self._stopped.set()
        if self._ticker is not None:
            self._ticker.join()
        self.show()
        self.board.release()
        return lost

    # --- metrics ---

    def _tick(self) -> None:
        swept = self._monotonic()
        while not self._stopped.wait(TICK_SECONDS):
            try:
                self.show()
                if self._monotonic() - swept >= SWEEP_SECONDS:
                    swept = self._monotonic()
                    self.close_idle()
            except Exception as error:
                reason = str(error)
                self._warnings.warning(lambda: f"the gateway's metrics were not brought up to date: {reason}")  # noqa: B023

    def show_label_sets(self, name: str, sets: LabelSets) -> None:
        """Count the look-ups in what a protocol remembers."""
        self._label_sets[name] = sets

    def show(self) -> None:
        """Bring gauges, and counters that are kept elsewhere, up to date."""
        with self._lock:
            queues, readers = dict(self._queues), list(self._readers)
            by_host, self._by_host = self._by_host, {}
        self.metrics.by_ident.add(by_host)
        for number, queue in queues.items():
            self.metrics.queue_size.labels(str(number)).set(queue.depth)
        for outlet in self.outlets:
            waiting = sum(queue.lag(reader) for queue, reader, owner in readers if owner is outlet)
            self.metrics.pending.labels(outlet.url).set(waiting + outlet.in_flight)
            outlet.show_spool()
            if (stats := outlet.relabel_stats()) is not None:
                self._show_cache(f"relabel {outlet.url}", stats)
        for rule, cache in self._caches.items():
            self._show_cache(CACHES[rule], cache.stats())
        for name, sets in self._label_sets.items():
            self._show_cache(f"protocol {name}", sets.stats())

    def _show_cache(self, name: str, stats: tuple[int, int, int, int]) -> None:
        before = self._shown.get(name, (0, 0, 0))
        for outcome, now, then in zip(("hit", "miss", "eviction"), stats, before, strict=False):
            self.metrics.cache.labels(name, outcome).inc(now - then)
        self._shown[name] = stats[:3]
        self.metrics.cache_entries.labels(name).set(stats[3])


def _first(entry: bytes) -> str:
    """Return an entry as text."""
    return str(next(decode_chunk(entry)))


def _length(message: bytes) -> bytes:
    """Return the length of a message as varint."""
    size, out = len(message), bytearray()
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size])
