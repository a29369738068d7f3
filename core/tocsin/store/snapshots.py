"""Parts of the configuration held in memory and never stale: "immediate" means the next request.

Every write to a watched table bumps a version row in the same transaction.  A :class:`Snapshot` compares that version
before it hands out what it holds and reads again when it moved.  One small query covers all snapshots; who cannot afford
even that asks for :meth:`Snapshots.recent`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import peewee

from tocsin.store.database import Database, Table

T = TypeVar("T")

RECENT_SECONDS = 0.05
"""How long a change may go unnoticed by :meth:`Snapshots.recent` that was made where the stamp is not seen."""


class ChangeVersion(Table):
    """How often each watched part of the configuration has changed."""

    name = peewee.CharField(64, unique=True)
    version = peewee.BigIntegerField(default=0)

    class Meta:
        table_name = "change_version"


class Snapshots:
    """The version rows and every snapshot that depends on them."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._recent: tuple[int, float, dict[str, int]] = (0, -RECENT_SECONDS, {})
        self._known: set[str] = set()
        self._logs: list[ReadLog] = []
        self._queries = database.peewee.measures.operations.labels("select", "success", "change_version")

    def bump(self, *names: str) -> None:
        """Say that parts of the configuration changed; call it inside the transaction of the change."""
        for name in names:
            if not _increment(name):
                # Two first changes at once must count as two: the row is made first, then counted up by each.
                ChangeVersion.insert(name=name, version=0).on_conflict_ignore().execute()
                _increment(name)
        self._database.renew_stamp()

    def hold(self, name: str) -> None:
        """Let nobody else change a part before the present transaction ends; wait for who is changing it."""
        ChangeVersion.update(version=ChangeVersion.version).where(ChangeVersion.name == name).execute()

    def versions(self) -> dict[str, int]:
        """Return the present version of every part; a part that never changed is missing."""
        # The query of every request, so its text is ready-made; building it took six times as long as running it.
        rows = self._database.peewee.execute_sql("SELECT name, version FROM change_version").fetchall()
        self._queries.inc()
        return dict(rows)

    def recent(self) -> Mapping[str, int]:
        """Return versions that miss no change made on this machine, and none elsewhere that is older than RECENT_SECONDS.

        PERF: for those who are asked very often, since it seldom takes a query.
        """
        if self.in_transaction():
            return self.versions()  # which may be rolled back
        stamp, now = self._database.stamp.read(), self._clock()  # before the query, so that a later change is noticed
        known, at, versions = self._recent
        if stamp != known or not 0 <= now - at < RECENT_SECONDS:
            versions = self.versions()
            self._recent = stamp, now, versions
        return versions

    def in_transaction(self) -> bool:
        """Return whether this thread has an open transaction."""
        return bool(self._database.peewee.in_transaction())

    def make(self, name: str, parts: tuple[str, ...], load: Callable[[], T]) -> Snapshot[T]:
        """Return a snapshot called ``name`` that is loaded again whenever one of ``parts`` changed."""
        return Snapshot(self, self.log(name), parts, load)

    def log(self, name: str) -> ReadLog:
        """Return a record of reads, to be shown in ``/dumper/sync`` under a name."""
        log = ReadLog(name)
        self._logs.append(log)
        return log

    def report(self) -> Iterator[str]:
        """Yield the lines of ``/dumper/sync``."""
        for log in self._logs:
            yield f"{log.name}:"
            yield from log.lines()
            yield ""


def _increment(name: str) -> int:
    return int(ChangeVersion.update(version=ChangeVersion.version + 1).where(ChangeVersion.name == name).execute())


class ReadLog:
    """The two latest reads of something that is held in memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._records: list[str] = []

    def add(self, started: float, count: int, message: str = "success") -> None:
        """Note a read that began at a Unix second and found ``count`` records, -1 for one that found nothing out."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))
        millis = int((time.time() - started) * 1000) if count >= 0 else -1
        record = f"timestamp: {stamp}, mills: {millis}ms, count: {count}, message: {message}"
        self._records = [*self._records[-1:], record]

    def lines(self) -> Iterator[str]:
        """Yield a line for each of them."""
        records = self._records
        words = ("last", "curr")[-len(records) :] if records else ()
        yield from (f"{word}: {record}" for word, record in zip(words, records, strict=True))


class Snapshot(Generic[T]):
    """A value built from the database, rebuilt when the versions it depends on move."""

    def __init__(self, owner: Snapshots, log: ReadLog, parts: tuple[str, ...], load: Callable[[], T]) -> None:
        self._owner = owner
        self._log = log
        self._parts = parts
        self._load = load
        self._held: tuple[tuple[int, ...], T] | None = None
        self._lock = threading.Lock()

    def get(self) -> T:
        """Return the value as of now."""
        return self.get_versioned()[1]

    def get_versioned(self) -> tuple[tuple[int, ...], T]:
        """Return the value with the versions it was read at; equal versions mean the same value object."""
        return self._at(self._owner.versions())

    def at(self, versions: Mapping[str, int]) -> T:
        """Return the value at versions read just before with :meth:`Snapshots.versions`: one query for many snapshots."""
        return self._at(versions)[1]

    def _at(self, versions: Mapping[str, int]) -> tuple[tuple[int, ...], T]:
        wanted = tuple(versions.get(part, 0) for part in self._parts)
        held = self._held
        if held is not None and held[0] == wanted:
            return held
        if self._owner.in_transaction():
            # What an open transaction sees may be rolled back, and its version number be given to another change.
            return wanted, self._load()
        with self._lock:
            held = self._held
            if held is None or held[0] != wanted:
                held = self._held = (wanted, self._reload())
        return held

    def _reload(self) -> T:
        started = time.time()
        try:
            value = self._load()
        except Exception as error:
            self._log.add(started, -1, f"failed to query records: {type(error).__name__}")
            raise
        self._log.add(started, len(value) if hasattr(value, "__len__") else 1)
        return value
