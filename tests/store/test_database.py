"""Databases: the three kinds behave alike, the pool is bounded and counted."""

import threading

import peewee
import pytest

from tocsin.app.sections import DbSettings
from tocsin.app.settings import SettingsError
from tocsin.http.metrics import Metrics
from tocsin.plugin.testkit.components import PATIENCE
from tocsin.plugin.testkit.components import Database as EmptyDatabase
from tocsin.store.database import Database, Table, mysql_options


class Note(Table):
    text = peewee.CharField(100)
    size = peewee.IntegerField(default=0)

    class Meta:
        table_name = "note"


def opened(where: EmptyDatabase, tmp_path_factory: pytest.TempPathFactory, **more: int) -> tuple[Database, Metrics]:
    metrics = Metrics()
    settings = DbSettings(kind=where.kind, dsn=where.dsn, **more)
    database = Database(settings, tmp_path_factory.mktemp("data"), metrics)
    database.bind([Note])
    return database, metrics


def test_rows_go_in_and_come_out(database: EmptyDatabase, tmp_path_factory: pytest.TempPathFactory) -> None:
    db, metrics = opened(database, tmp_path_factory)
    db.peewee.create_tables([Note])
    with db.atomic():
        Note.create(text="ünï 漢字 😀", size=1)
    with pytest.raises(ZeroDivisionError), db.atomic():
        _ = Note.create(text="never", size=2).size // 0
    assert [row.as_dict() for row in Note.select()] == [{"id": 1, "text": "ünï 漢字 😀", "size": 1}]
    counted = metrics.registry.get_sample_value(
        "svc_db_operation_total", {"operation": "insert", "status": "success", "table": "note"}
    )
    assert counted == 2, counted
    assert metrics.registry.get_sample_value("svc_db_pool_in_use_connections") == 1
    db.release()
    assert metrics.registry.get_sample_value("svc_db_pool_in_use_connections") == 0
    db.close()


def test_the_pool_is_bounded(database: EmptyDatabase, tmp_path_factory: pytest.TempPathFactory) -> None:
    db, metrics = opened(database, tmp_path_factory, max_open=1, wait=1)
    db.peewee.create_tables([Note])
    failures: list[Exception] = []

    def other() -> None:
        try:
            Note.select().count()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(failures) == 1
    assert (metrics.registry.get_sample_value("svc_db_pool_wait_count_total") or 0) >= 1
    db.close()


def test_closing_waits_for_threads_that_still_query(
    database: EmptyDatabase, tmp_path_factory: pytest.TempPathFactory
) -> None:
    db, metrics = opened(database, tmp_path_factory)
    db.peewee.create_tables([Note])
    connected, closed = threading.Event(), threading.Event()
    counts: list[int] = []

    def other() -> None:
        counts.append(Note.select().count())
        connected.set()
        closed.wait(PATIENCE)
        counts.append(Note.select().count())
        db.release()

    thread = threading.Thread(target=other)
    thread.start()
    connected.wait(PATIENCE)
    db.close()
    assert metrics.registry.get_sample_value("svc_db_pool_open_connections") == 1
    closed.set()
    thread.join()
    assert counts == [0, 0]
    assert metrics.registry.get_sample_value("svc_db_pool_open_connections") == 0


def test_a_wrong_dsn_names_the_key() -> None:
    with pytest.raises(SettingsError, match=r"DB.DSN: expected user:password@tcp"):
        mysql_options("nonsense")
    assert mysql_options("u:p@:w@tcp(h:1)/d?x=y")["password"] == "p@:w"
