"""Migrations: each runs once, in order, whoever starts at the same time."""

import multiprocessing
from pathlib import Path

import peewee
import pytest

from tocsin.app.sections import DbSettings
from tocsin.http.metrics import Metrics
from tocsin.plugin.testkit.components import PATIENCE
from tocsin.plugin.testkit.components import Database as EmptyDatabase
from tocsin.store.database import Database, Table
from tocsin.store.migrations import Migration, Migrator, SchemaMigration, create, run_migrations


class Thing(Table):
    name = peewee.CharField(100)

    class Meta:
        table_name = "thing"


def add_color(migrator: Migrator) -> None:
    migrator.add_column("thing", "color", peewee.CharField(20, default="red"))
    migrator.add_index("thing", ["color"])


STEPS = (Migration(2, "add color", add_color), create(Thing))


def opened(where: EmptyDatabase, directory: Path) -> Database:
    settings = DbSettings(kind=where.kind, dsn=where.dsn)
    database = Database(settings, directory, Metrics())
    database.bind([Thing])
    return database


def migrate_in_process(where: EmptyDatabase, directory: Path, gate: object, counts: object) -> None:
    database = opened(where, directory)
    gate.wait()  # type: ignore[attr-defined]
    counts.put(run_migrations(database, [("things", STEPS)], directory / "lock"))  # type: ignore[attr-defined]
    database.close()


def test_two_processes_at_once_apply_each_migration_once(database: EmptyDatabase, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    gate, counts = context.Barrier(2), context.Queue()
    workers = [context.Process(target=migrate_in_process, args=(database, tmp_path, gate, counts)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert sorted(counts.get(timeout=PATIENCE) for _ in workers) == [0, 2]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def test_steps_are_idempotent_and_recorded(database: EmptyDatabase, tmp_path: Path) -> None:
    db = opened(database, tmp_path)
    assert run_migrations(db, [("things", STEPS)], tmp_path / "lock") == 2
    assert run_migrations(db, [("things", STEPS)], tmp_path / "lock") == 0
    SchemaMigration.delete().execute()
    assert run_migrations(db, [("things", STEPS)], tmp_path / "lock") == 2
    assert {c.name for c in db.peewee.get_columns("thing")} == {"id", "name", "color"}
    db.close()


def test_a_failing_step_is_not_recorded(tmp_path: Path) -> None:
    db = opened(EmptyDatabase("sqlite", str(tmp_path / "x.db")), tmp_path)

    def fail(migrator: Migrator) -> None:
        migrator.add_column("thing", "half", peewee.IntegerField(default=0))
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        run_migrations(db, [("things", (create(Thing), Migration(2, "broken", fail)))], tmp_path / "lock")
    assert {c.name for c in db.peewee.get_columns("thing")} == {"id", "name"}
    assert [row.number for row in SchemaMigration.select()] == [1]
    db.close()
