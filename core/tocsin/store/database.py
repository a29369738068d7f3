"""The connection to SQLite, MariaDB/MySQL or PostgreSQL: a bounded, counted pool behind peewee."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peewee
from playhouse.pool import MaxConnectionsExceeded, PooledMySQLDatabase, PooledPostgresqlDatabase, PooledSqliteDatabase

from tocsin.app.settings import SettingsError
from tocsin.store.stamp import Stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tocsin.app.sections import DbSettings
    from tocsin.http.metrics import Metrics


class RowId(peewee.AutoField):
    """An id that the database gives and never gives again, so that nothing left behind can point to a later row.

    MariaDB and PostgreSQL count on in any case; SQLite would reuse the highest id after its row is deleted.
    """

    def ddl(self, ctx: Any) -> Any:
        """Return the column's definition."""
        column = super().ddl(ctx)
        if not isinstance(self.model._meta.database, peewee.SqliteDatabase):
            return column
        return peewee.NodeList((column, peewee.SQL("AUTOINCREMENT")))


class Table(peewee.Model):
    """Base of every table: an integer ``id`` and access to rows as plain dicts.

    Tables are bound to the process's database at start (:meth:`Database.bind`), not when their module is imported.
    """

    id = RowId()

    def as_dict(self) -> dict[str, Any]:
        """Return the row's stored values by column name."""
        return dict(self.__data__)


class DbMetrics:
    """The ``svc_db_*`` metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self.open = metrics.gauge("svc_db_pool_open_connections", "Connections that are open.")
        self.in_use = metrics.gauge("svc_db_pool_in_use_connections", "Connections that a request or job holds.")
        self.waits = metrics.counter("svc_db_pool_wait_count_total", "Waits for a free connection.")
        self.wait_seconds = metrics.counter("svc_db_pool_wait_duration_seconds_total", "Seconds waited for one.")
        self.operations = metrics.counter(
            "svc_db_operation_total", "Database operations.", ("operation", "status", "table")
        )


class _Measured:
    """Mixed into the peewee databases: counts operations, pool use and waits."""

    measures: DbMetrics
    _retired: frozenset[int] = frozenset()

    def retire(self) -> None:
        """Close what is idle now, and what a thread still uses as soon as that thread gives it back.

        The driver crashes the process when a connection is closed under a running query.
        """
        pool: Any = self
        with pool._pool_lock:
            self._retired = frozenset(pool._in_use)
            pool.close_idle()
        self._publish()

    def execute(self, query: Any, **options: Any) -> Any:
        """Run a peewee query and count it by kind and table."""
        operation = type(query).__name__.removeprefix("Model").removesuffix("Query").lower()
        model = getattr(query, "model", None)
        table = model._meta.table_name if model is not None else ""
        try:
            result = super().execute(query, **options)  # type: ignore[misc]
        except Exception:
            self.measures.operations.labels(operation, "error", table).inc()
            raise
        self.measures.operations.labels(operation, "success", table).inc()
        return result

    def _connect(self) -> Any:
        started = time.monotonic()
        try:
            return super()._connect()  # type: ignore[misc]
        except MaxConnectionsExceeded:
            self.measures.waits.inc()
            raise
        finally:
            waited = time.monotonic() - started
            if waited > 0.001:
                self.measures.wait_seconds.inc(waited)
            self._publish()

    def _close(self, conn: Any, close_conn: bool = False) -> None:
        pool: Any = self
        with pool._pool_lock:
            key = pool.conn_key(conn)
            retired = key in self._retired
            self._retired -= {key}
            super()._close(conn, close_conn or retired)  # type: ignore[misc]
        self._publish()

    def _publish(self) -> None:
        pool: Any = self
        self.measures.in_use.set(len(pool._in_use))
        self.measures.open.set(len(pool._in_use) + len(pool._connections))


class _Sqlite(_Measured, PooledSqliteDatabase):
    pass


class _MySql(_Measured, PooledMySQLDatabase):
    # The other databases' texts have no limit; this one's TEXT ends at 64 KiB, which a dashboard easily passes.
    field_types = {**PooledMySQLDatabase.field_types, "TEXT": "LONGTEXT"}


class _Postgres(_Measured, PooledPostgresqlDatabase):
    pass


class Database:
    """The process's database.

    ``peewee`` is the underlying object for queries that models cannot express.  Connections are taken on first use in
    a thread and given back by :meth:`release`, which the HTTP layer calls after every request.
    """

    def __init__(self, settings: DbSettings, data_directory: Path, metrics: Metrics) -> None:
        self.kind = settings.kind
        self.peewee: Any = _open(settings, data_directory)
        self.stamp = Stamp(_stamp_file(settings, data_directory))
        self._changing = threading.local()
        self.peewee.measures = DbMetrics(metrics)
        self._tables: list[type[Table]] = []
        self._lock = threading.Lock()

    def bind(self, tables: Iterable[type[Table]]) -> None:
        """Attach tables to this database."""
        found = list(tables)
        with self._lock:
            self._tables += found
            self.peewee.bind(found, bind_refs=False, bind_backrefs=False)

    @property
    def tables(self) -> list[type[Table]]:
        """Every table bound so far."""
        return list(self._tables)

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Run a block as one transaction; nested blocks become savepoints."""
        if self.peewee.in_transaction():
            with self.peewee.atomic():
                yield
            return
        # A deferred transaction that reads first cannot upgrade to a write lock once another process wrote.
        kind = ("IMMEDIATE",) if self.kind == "sqlite" else ()
        try:
            with self.peewee.atomic(*kind):
                yield
        finally:
            if getattr(self._changing, "watched", False):
                self._changing.watched = False
                self.stamp.renew()

    def renew_stamp(self) -> None:
        """Renew the stamp, but not before the present transaction has ended: others would find the old state and keep it."""
        if self.peewee.in_transaction():
            self._changing.watched = True
        else:
            self.stamp.renew()

    def release(self) -> None:
        """Give this thread's connection back to the pool."""
        if not self.peewee.is_closed():
            self.peewee.close()

    def close(self) -> None:
        """Close every connection, those in use by other threads when they are released.

        For the end of the process and before a fork, when there are no other threads.
        """
        self.release()
        self.peewee.retire()


def _sqlite_file(settings: DbSettings, data_directory: Path) -> Path:
    return Path(settings.dsn or data_directory / "tocsin.db")


def _stamp_file(settings: DbSettings, data_directory: Path) -> Path:
    """Return the place of the stamp: beside the database where that is a file, since all its users see that folder."""
    if settings.kind == "sqlite":
        file = _sqlite_file(settings, data_directory).resolve()
        return file.with_name(file.name + ".stamp")
    return data_directory / "database.stamp"


def _open(settings: DbSettings, data_directory: Path) -> Any:
    pool = {"max_connections": settings.max_open, "stale_timeout": settings.max_lifetime, "timeout": settings.wait}
    if settings.kind == "sqlite":
        file = _sqlite_file(settings, data_directory)
        file.parent.mkdir(parents=True, exist_ok=True)
        pragmas = {"journal_mode": "wal", "synchronous": "normal", "foreign_keys": 1, "busy_timeout": 10000}
        return _Sqlite(str(file), pragmas=pragmas, check_same_thread=False, **pool)
    if settings.kind == "mysql":
        return _MySql(charset="utf8mb4", **mysql_options(settings.dsn), **pool)
    return _Postgres(**postgres_options(settings.dsn), **pool)


def mysql_options(dsn: str) -> dict[str, Any]:
    """Return connection options from ``user:password@tcp(host:port)/database?parameters``; parameters are ignored."""
    match = re.fullmatch(
        r"(?P<user>[^:]*):(?P<password>.*)@tcp\((?P<host>.+?)(?::(?P<port>\d+))?\)/(?P<name>[^?]+)(\?.*)?", dsn
    )
    if match is None:
        raise SettingsError("DB.DSN: expected user:password@tcp(host:port)/database for mysql")
    port = int(match["port"] or 3306)
    return {
        "database": match["name"],
        "host": match["host"],
        "port": port,
        "user": match["user"],
        "password": match["password"],
    }


def postgres_options(dsn: str) -> dict[str, Any]:
    """Return connection options from the key=value form that PostgreSQL's own clients use."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        options = dict(conninfo_to_dict(dsn))
    except ProgrammingError:
        raise SettingsError(
            "DB.DSN: expected 'host=... port=... user=... password=... dbname=...' for postgres"
        ) from None
    return {"database": options.pop("dbname", "tocsin"), **options}
