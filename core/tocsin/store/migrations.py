"""Numbered schema changes, applied at start, by one process at a time.

Each feature, in core or in a plugin, has its own numbers.  The first migration usually creates the feature's tables as
its models describe them today; later ones must be idempotent (the helpers are), so that a fresh database and one that
was upgraded step by step end up the same.
"""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peewee
from playhouse.migrate import SchemaMigrator, migrate

from tocsin.store.database import Database, Table

log = logging.getLogger(__name__)
LOCK_ID = 0x70C51
LOCK_WAIT_SECONDS = 60


class SchemaMigration(Table):
    """One applied migration."""

    feature = peewee.CharField(64)
    number = peewee.IntegerField()
    name = peewee.CharField(128)
    applied_at = peewee.BigIntegerField()

    class Meta:
        table_name = "schema_migration"
        indexes = ((("feature", "number"), True),)


class Migrator:
    """What a migration step may do to the schema and the rows; every helper is idempotent."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._changes = SchemaMigrator.from_database(database.peewee)

    def create_tables(self, *tables: type[Table]) -> None:
        """Create tables, with their indexes, as their models describe them; existing ones are left as they are."""
        self.database.peewee.create_tables(tables, safe=True)

    def add_column(self, table: str, column: str, field: peewee.Field) -> None:
        """Add a column unless it exists; ``field`` needs a default or must be nullable."""
        if column not in self.columns(table):
            migrate(self._changes.add_column(table, column, field))

    def drop_column(self, table: str, column: str) -> None:
        """Drop a column if it exists."""
        if column in self.columns(table):
            migrate(self._changes.drop_column(table, column))

    def add_index(self, table: str, columns: Sequence[str], *, unique: bool = False) -> None:
        """Add an index on ``columns`` unless one on exactly these exists."""
        if list(columns) not in [index.columns for index in self.database.peewee.get_indexes(table)]:
            migrate(self._changes.add_index(table, tuple(columns), unique))

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns."""
        return {column.name for column in self.database.peewee.get_columns(table)}


@dataclass(frozen=True)
class Migration:
    """One numbered change of a feature's schema."""

    number: int
    name: str
    apply: Callable[[Migrator], None]


def create(*tables: type[Table]) -> Migration:
    """Return the usual first migration: create these tables."""
    return Migration(1, "create tables", lambda migrator: migrator.create_tables(*tables))


def run_migrations(database: Database, features: Iterable[tuple[str, Sequence[Migration]]], lock_file: Path) -> int:
    """Apply what is missing and return how many migrations that were; a second process waits and finds nothing to do.

    Each migration is one transaction with its own row in ``schema_migration`` (MySQL commits schema changes at once,
    there a migration that failed half-way is repeated from its start).
    """
    database.bind([SchemaMigration])
    applied = 0
    with migration_lock(database, lock_file):
        migrator = Migrator(database)
        migrator.create_tables(SchemaMigration)
        done = {(row.feature, row.number) for row in SchemaMigration.select()}
        for feature, migrations in features:
            for step in sorted(migrations, key=lambda m: m.number):
                if (feature, step.number) not in done:
                    log.info("migration %s %d: %s", feature, step.number, step.name)
                    with database.atomic():
                        step.apply(migrator)
                        SchemaMigration.create(
                            feature=feature, number=step.number, name=step.name, applied_at=int(time.time())
                        )
                    applied += 1
    return applied


@contextmanager
def migration_lock(database: Database, lock_file: Path) -> Iterator[None]:
    """Hold the lock that lets one process of the whole installation change the schema."""
    if database.kind == "sqlite":
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        with lock_file.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        return
    take, give = {
        "mysql": (
            f"SELECT GET_LOCK('tocsin-{LOCK_ID}', {LOCK_WAIT_SECONDS})",
            f"SELECT RELEASE_LOCK('tocsin-{LOCK_ID}')",
        ),
        "postgres": (f"SELECT pg_advisory_lock({LOCK_ID})", f"SELECT pg_advisory_unlock({LOCK_ID})"),
    }[database.kind]
    result: Any = database.peewee.execute_sql(take).fetchone()
    if database.kind == "mysql" and result[0] != 1:
        raise TimeoutError(f"another process holds the migration lock for more than {LOCK_WAIT_SECONDS} s")
    try:
        yield
    finally:
        database.peewee.execute_sql(give)
