"""The cache that the processes of an installation share: embedded by default, Redis when configured."""

from __future__ import annotations

import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tocsin.app.sections import CacheSettings
    from tocsin.http.metrics import Metrics

Clock = Callable[[], float]
T = TypeVar("T")


class CacheError(Exception):
    """The cache cannot be reached or answered with an error."""


class Cache(ABC):
    """Byte values under text keys, each with an expiry; what is in it may be lost when the cache is."""

    @abstractmethod
    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the unexpired values of ``keys``; missing ones are left out."""

    @abstractmethod
    def set_many(self, values: Mapping[str, bytes], ttl: float) -> None:
        """Store values for ``ttl`` seconds."""

    @abstractmethod
    def delete(self, *keys: str) -> int:
        """Remove keys and return how many existed."""

    @abstractmethod
    def increment(self, key: str, ttl: float) -> int:
        """Add one to a counter, make it expire in ``ttl`` seconds from now, and return its new value."""

    @abstractmethod
    def close(self) -> None:
        """Give up connections."""

    def get(self, key: str) -> bytes | None:
        """Return the unexpired value of ``key``, or ``None``."""
        return self.get_many([key]).get(key)

    def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store one value for ``ttl`` seconds."""
        self.set_many({key: value}, ttl)


class _Connection(sqlite3.Connection):
    def __del__(self) -> None:
        self.close()


class EmbeddedCache(Cache):
    """A cache in an SQLite file of its own, shared by the local processes and kept over restarts.

    Nothing in it is worth a disk flush: a crash of the machine may lose the last writes, never consistency.
    """

    SWEEP_SECONDS = 60.0

    def __init__(self, file: Path, clock: Clock = time.time) -> None:
        self._file = file
        self._clock = clock
        self._local = threading.local()
        self._swept = clock()
        file.parent.mkdir(parents=True, exist_ok=True)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        wanted, connection = list(keys), self._connection()
        for start in range(0, len(wanted), 500):
            chunk = wanted[start : start + 500]
            marks = ",".join("?" * len(chunk))
            rows = connection.execute(
                f"SELECT key, value FROM cache WHERE expires > ? AND key IN ({marks})",  # noqa: S608 - only marks
                (self._clock(), *chunk),
            )
            found.update(rows)
        return found

    def set_many(self, values: Mapping[str, bytes], ttl: float) -> None:
        self._sweep()
        expires = self._clock() + ttl
        with self._connection() as connection:
            connection.executemany(
                "INSERT INTO cache VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value=excluded.value, "
                "expires=excluded.expires",
                [(key, value, expires) for key, value in values.items()],
            )

    def delete(self, *keys: str) -> int:
        with self._connection() as connection:
            count = 0
            for key in keys:
                count += connection.execute("DELETE FROM cache WHERE key=?", (key,)).rowcount
        return count

    def increment(self, key: str, ttl: float) -> int:
        now = self._clock()
        with self._connection() as connection:
            row = connection.execute(
                "INSERT INTO cache VALUES (?, CAST('1' AS BLOB), ?) ON CONFLICT (key) DO UPDATE SET value = CASE WHEN "
                "expires > ? THEN CAST(CAST(CAST(value AS TEXT) AS INTEGER) + 1 AS TEXT) ELSE '1' END, "
                "expires=excluded.expires RETURNING value",
                (key, now + ttl, now),
            ).fetchone()
        return int(row[0])

    def close(self) -> None:
        # Only this thread's own: closing a connection under a query of another thread can crash. Theirs end as garbage.
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        self._local = threading.local()
        if connection is not None:
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._file, timeout=10, check_same_thread=False, factory=_Connection)
            connection.execute("PRAGMA journal_mode=wal")
            connection.execute("PRAGMA synchronous=off")
            connection.execute("CREATE TABLE IF NOT EXISTS cache (key TEXT PRIMARY KEY, value BLOB, expires REAL)")
            self._local.connection = connection
        return connection

    def _sweep(self) -> None:
        now = self._clock()
        if now - self._swept > self.SWEEP_SECONDS:
            self._swept = now
            with self._connection() as connection:
                connection.execute("DELETE FROM cache WHERE expires <= ?", (now,))


class RedisCache(Cache):
    """A cache in a Redis server."""

    def __init__(self, settings: CacheSettings) -> None:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        host, _, port = settings.address.rpartition(":")
        seconds = settings.timeout_ms / 1000
        self._redis: Any = redis.Redis(
            host=host or settings.address,
            port=int(port or 6379),
            db=settings.db,
            username=settings.username or None,
            password=settings.password or None,
            ssl=settings.use_tls,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            # Once more for a kept connection that the server has closed; a server that hangs is not waited for again.
            retry=Retry(NoBackoff(), 1, (redis.exceptions.ConnectionError,)),
        )

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        wanted = list(keys)
        values = self._redis.mget(wanted) if wanted else []
        return {key: value for key, value in zip(wanted, values, strict=True) if value is not None}

    def set_many(self, values: Mapping[str, bytes], ttl: float) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            for key, value in values.items():
                pipe.set(key, value, px=max(1, int(ttl * 1000)))
            pipe.execute()

    def delete(self, *keys: str) -> int:
        return int(self._redis.delete(*keys)) if keys else 0

    def increment(self, key: str, ttl: float) -> int:
        with self._redis.pipeline() as pipe:
            pipe.incr(key)
            pipe.pexpire(key, max(1, int(ttl * 1000)))
            return int(pipe.execute()[0])

    def close(self) -> None:
        self._redis.close()

    def ping(self) -> None:
        """Raise :class:`CacheError` unless the server answers."""
        import redis

        try:
            self._redis.ping()
        except redis.RedisError as error:
            raise CacheError(f"Redis.Address: the server does not answer: {error}") from None


class MeasuredCache(Cache):
    """Times every operation of another cache."""

    def __init__(self, inner: Cache, metrics: Metrics) -> None:
        self._inner = inner
        self._seconds = metrics.histogram(
            "svc_center_redis_operation_latency_seconds",
            "Time of cache operations, in seconds.",
            ("operation", "status"),
            (0.0001, 0.001, 0.01, 0.1, 1),
        )

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        return self._timed("get", lambda: self._inner.get_many(keys))

    def set_many(self, values: Mapping[str, bytes], ttl: float) -> None:
        self._timed("set", lambda: self._inner.set_many(values, ttl))

    def delete(self, *keys: str) -> int:
        return self._timed("delete", lambda: self._inner.delete(*keys))

    def increment(self, key: str, ttl: float) -> int:
        return self._timed("increment", lambda: self._inner.increment(key, ttl))

    def close(self) -> None:
        self._inner.close()

    def _timed(self, operation: str, call: Callable[[], T]) -> T:
        started = time.perf_counter()
        status = "error"
        try:
            result = call()
            status = "success"
            return result
        finally:
            self._seconds.labels(operation, status).observe(time.perf_counter() - started)


def open_cache(settings: CacheSettings, data_directory: Path, metrics: Metrics) -> Cache:
    """Return the configured cache; a Redis server that does not answer stops the start."""
    if settings.kind == "standalone":
        redis_cache = RedisCache(settings)
        redis_cache.ping()
        return MeasuredCache(redis_cache, metrics)
    return MeasuredCache(EmbeddedCache(data_directory / "cache.db"), metrics)
