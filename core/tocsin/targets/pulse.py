"""When hosts were last seen and what they last said: records in the cache, written from memory once a second."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import orjson

from tocsin.ingest.settings import PushgwSettings
from tocsin.ingest.throttle import Throttle
from tocsin.store.cache import Cache
from tocsin.targets.metrics import TargetMetrics
from tocsin.targets.models import IDENT_LENGTH

log = logging.getLogger(__name__)
T = TypeVar("T")

META, EXTEND, SEEN = "svc_meta_", "svc_extend_meta_", "svc_meta_update_time_"
"""Beginnings of the cache keys; the name of the host follows."""
DAY = 86_400.0
WEEK = 7 * DAY
BATCH = 100
"""Hosts that are registered, and records that are written, at once."""
MAX_PENDING = 200_000
"""Hosts whose sign of life may wait in one process; more are refused and counted."""
TICK_SECONDS = 1.0


def chunked(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most ``size`` values."""
    everything = list(values)
    for start in range(0, len(everything), size):
        yield everything[start : start + size]


class Pulse:
    """Reads the records."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def seen(self, idents: Iterable[str]) -> dict[str, int]:
        """Return the Unix second each host was last seen; hosts not seen for a day are left out."""
        found = self._read(SEEN, idents)
        return {ident: int(orjson.loads(record)["update_time"]) for ident, record in found.items()}

    def said(self, idents: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return what hosts last said about themselves (contract fields of the heartbeat, without ``extend_info``)."""
        return {ident: orjson.loads(record) for ident, record in self._read(META, idents).items()}

    def extended(self, ident: str) -> str:
        """Return a host's ``extend_info`` as JSON text, empty when there is none."""
        return self._read(EXTEND, [ident]).get(ident, b"").decode()

    def _read(self, prefix: str, idents: Iterable[str]) -> dict[str, bytes]:
        found = self._cache.get_many([prefix + ident for ident in idents])
        return {key[len(prefix) :]: value for key, value in found.items()}


class Beats:
    """Takes signs of life and writes them, once a second, to the cache; hosts nobody knows are then registered.

    What cannot be written stays and is tried again a second later, so a cache or a database that is away for a while
    loses nothing. ``register`` gets names of hosts and makes those known that are not.
    """

    def __init__(
        self,
        cache: Cache,
        settings: PushgwSettings,
        metrics: TargetMetrics,
        register: Callable[[Collection[str]], int],
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache, self._settings, self._metrics = cache, settings, metrics
        self._register, self._clock, self._monotonic = register, clock, monotonic
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._seen: dict[str, int] = {}
        self._said: dict[str, bytes] = {}
        self._extended: dict[str, bytes] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed = Throttle(log, clock=monotonic)

    # --- signs of life ---

    def announce(self, idents: Collection[str]) -> None:
        """Treat hosts as seen now, because their series arrived."""
        self.note(idents, int(self._clock()), "sample")

    def note(self, idents: Collection[str], when: int, source: str) -> None:
        """Treat hosts as seen at a Unix second."""
        taken = 0
        with self._lock:
            for ident in idents:
                if self._takes(ident):
                    self._seen[ident] = when
                    taken += 1
        self._metrics.beats.labels(source).inc(taken)

    def heard(self, ident: str, said: Mapping[str, Any], extended: Any) -> None:
        """Take a heartbeat: the host is seen now, and said this; ``extended`` is kept when it is not ``None``."""
        record = orjson.dumps(said)
        with self._lock:
            if not self._takes(ident):
                return
            self._seen[ident] = int(self._clock())
            self._said[ident] = record
            if extended is not None:
                self._extended[ident] = orjson.dumps(extended)
        self._metrics.beats.labels("heartbeat").inc()

    def _takes(self, ident: str) -> bool:
        reason = ""
        if not 0 < len(ident) <= IDENT_LENGTH or "\0" in ident:
            reason = "name"
        elif ident not in self._seen and len(self._seen) >= MAX_PENDING:
            reason = "full"
        if reason:
            self._metrics.refused.labels(reason).inc()
        return not reason

    # --- writing ---

    def flush(self) -> None:
        """Write everything that is pending; what cannot be written stays pending."""
        with self._flushing:
            with self._lock:
                seen, self._seen = self._seen, {}
                said, self._said = self._said, {}
                extended, self._extended = self._extended, {}
            # A cache that hangs is asked once, not for every batch.
            reached = True
            for batch in chunked(seen, BATCH):
                part = {ident: seen[ident] for ident in batch}
                reached = reached and self._stamp(part)
                self._keep(self._seen, {} if reached and self._make_known(batch) else part)
            for pending, prefix, records in ((self._said, META, said), (self._extended, EXTEND, extended)):
                unwritten = self._store(prefix, records) if reached else records
                self._keep(pending, unwritten)
                reached = reached and not unwritten
            self._metrics.pending.set(len(self._seen))

    def _keep(self, pending: dict[str, Any], unwritten: Mapping[str, Any]) -> None:
        """Put back what could not be written, unless something newer came meanwhile."""
        with self._lock:
            for ident, value in unwritten.items():
                pending.setdefault(ident, value)

    def _store(self, prefix: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Write records for a week; return those that could not be written."""
        unwritten = dict(records)
        for batch in chunked(records, BATCH):
            try:
                self._cache.set_many({prefix + ident: records[ident] for ident in batch}, WEEK)
            except Exception as error:
                self._complain("cache", error)
                break
            for ident in batch:
                del unwritten[ident]
        return unwritten

    def _stamp(self, seen: Mapping[str, int]) -> bool:
        """Write when hosts were seen, in as many attempts as are configured; return whether that worked."""
        deadline = self._monotonic() + self._settings.target_timeout / 1000
        return all(
            self._stamp_batch({ident: seen[ident] for ident in batch}, deadline)
            for batch in chunked(seen, self._settings.target_batch)
        )

    def _stamp_batch(self, seen: Mapping[str, int], deadline: float) -> bool:
        records = {SEEN + i: orjson.dumps({"ident": i, "update_time": when}) for i, when in seen.items()}
        started = self._monotonic()
        status = "fail"
        for attempt in range(1, self._settings.target_retries + 1):
            try:
                self._cache.set_many(records, DAY)
                status = "success"
                break
            except Exception as error:
                pause = self._settings.target_retry_interval / 1000
                last = attempt == self._settings.target_retries or self._monotonic() + pause > deadline
                if last or self._stopping.wait(pause):
                    self._complain("cache", error)
                    break
                self._metrics.retries.inc()
        self._metrics.stamped.labels("mset_target_ts", status).observe(self._monotonic() - started)
        return status == "success"

    def _make_known(self, idents: list[str]) -> bool:
        try:
            self._metrics.registered.inc(self._register(idents))
        except Exception as error:
            self._complain("database", error)
            return False
        return True

    def _complain(self, stage: str, error: Exception) -> None:
        self._metrics.failures.labels(stage).inc()
        name = type(error).__name__
        self._failed.warning(lambda: f"signs of life of hosts cannot be written ({stage}: {name}), they are kept")

    # --- life ---

    def start(self, after: Callable[[], None]) -> None:
        """Start writing once a second; ``after`` is called each time, to give back what the thread holds of the stores."""
        self._thread = threading.Thread(target=self._run, args=(after,), name="beats of hosts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is pending and stop."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._seen:
            log.error("stopped with %d hosts whose signs of life could not be written", len(self._seen))

    def _run(self, after: Callable[[], None]) -> None:
        ended = False
        while not ended:
            ended = self._stopping.wait(TICK_SECONDS)
            try:
                self.flush()
            except Exception:
                log.exception("signs of life of hosts could not be written")
            finally:
                after()
