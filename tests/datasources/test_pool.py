"""Connected datasources: when they are made, shared, replaced and closed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tocsin.datasources.catalog import Catalog
from tocsin.datasources.pool import DatasourcePool
from tocsin.plugin import ApiError, DatasourceError, MetricQuery, PluginCallError, Series
from tocsin.plugin.testkit import AppFactory, TestApp, dat
from tocsin.plugin.testkit.components import PATIENCE

UP = MetricQuery({"query": "up"}, 5.0, 5.0, timeout=5.0)


@pytest.fixture
def pool(app: TestApp) -> DatasourcePool:
    return app.core.get(DatasourcePool)


def names(configs: list[Any]) -> list[str]:
    return [config.name for config in configs]


def change(app: TestApp, datasource_id: int, **values: Any) -> None:
    record = app.core.get(Catalog).find(datasource_id)
    app.core.get(Catalog).update(datasource_id, {**vars(record), **values}, "test")


def test_one_connection_serves_all_queries_until_the_row_changes(
    app: TestApp, pool: DatasourcePool, journal: Any, save: Callable[..., int]
) -> None:
    saved, other = save("one"), save("other")
    journal.opened.clear()
    journal.closed.clear()
    journal.answer = lambda _: [Series({"a": "b"}, (5.0,), (1.0,))]
    for _ in range(3):
        assert pool.query_metrics(saved, UP)[0].labels == {"a": "b"}
        pool.query_metrics(other, UP)
    assert names(journal.opened) == ["one", "other"]
    change(app, saved, settings={"flavour": "new"})
    pool.query_metrics(saved, UP)
    pool.query_metrics(other, UP)
    assert names(journal.closed) == ["one"]
    assert journal.opened[2].settings == {"flavour": "new"}
    assert len(journal.opened) == 3


def test_what_does_not_concern_the_connection_does_not_replace_it(
    app: TestApp, pool: DatasourcePool, journal: Any, save: Callable[..., int]
) -> None:
    saved = save("one")
    pool.query_metrics(saved, UP)
    journal.opened.clear()
    change(app, saved, name="renamed", description="new", weight=9)
    app.core.get(Catalog).set_status(saved, "disabled", "test")
    assert pool.query_metrics(saved, UP) == []
    assert journal.opened == []


def test_a_deleted_datasource_is_closed_and_unknown(
    app: TestApp, pool: DatasourcePool, journal: Any, save: Callable[..., int]
) -> None:
    saved, other = save("one"), save("other")
    pool.query_metrics(saved, UP)
    journal.closed.clear()
    app.core.get(Catalog).delete([saved])
    pool.query_metrics(other, UP)
    assert names(journal.closed) == ["one"]
    with pytest.raises(ApiError, match="no such datasource id"):
        pool.query_metrics(saved, UP)


def test_a_datasource_in_use_is_closed_only_when_its_calls_have_ended(
    app: TestApp, pool: DatasourcePool, journal: Any, save: Callable[..., int], gate: threading.Event
) -> None:
    saved = save("one")
    journal.closed.clear()
    entered = threading.Event()

    def slow(_: MetricQuery) -> list[Series]:
        entered.set()
        assert gate.wait(PATIENCE)
        return []

    journal.answer = slow
    thread = threading.Thread(target=pool.query_metrics, args=(saved, UP))
    thread.start()
    assert entered.wait(PATIENCE)
    app.core.get(Catalog).delete([saved])
    with pytest.raises(ApiError):
        pool.query_key(saved, {})
    assert journal.closed == []
    gate.set()
    thread.join(PATIENCE)
    assert names(journal.closed) == ["one"]


def test_closing_the_pool_closes_everything(
    app: TestApp, pool: DatasourcePool, journal: Any, save: Callable[..., int]
) -> None:
    for name in ("a", "b"):
        pool.query_metrics(save(name), UP)
    journal.closed.clear()
    pool.close()
    assert sorted(names(journal.closed)) == ["a", "b"]


def test_the_plugin_learns_the_denied_networks(journal: Any, save: Callable[..., int]) -> None:
    save("one")
    assert "169.254.0.0/16" in [str(network) for network in journal.opened[0].denied_networks]
    assert journal.opened[0].from_edge is False


def test_a_query_out_of_time_is_given_up_and_counted(
    app: TestApp, pool: DatasourcePool, journal: Any, save: Callable[..., int], gate: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("tocsin.app.calls.SLACK", 0.01)
    saved, other = save("stuck"), save("other")
    journal.answer = lambda query: [] if query.spec["query"] == "up" else gate.wait(PATIENCE) and []
    hang = MetricQuery({"query": "hang"}, 5.0, 5.0, timeout=0.02)
    for _ in range(8):
        with pytest.raises(PluginCallError, match=r"no answer within 0\.02 s"):
            pool.query_metrics(saved, hang)
    with pytest.raises(PluginCallError, match="8 earlier calls have not returned"):
        pool.query_metrics(saved, UP)
    assert pool.query_metrics(other, UP) == []
    value = app.core.metrics.registry.get_sample_value
    labels = {"plugin": "store", "operation": "query_metrics"}
    assert value("svc_plugin_calls_total", {**labels, "outcome": "timeout"}) == 8
    assert value("svc_plugin_calls_total", {**labels, "outcome": "busy"}) == 1
    assert value("svc_plugin_overdue_calls", {"plugin": "store"}) == 8


def test_a_plugin_that_crashes_is_reported_without_its_words(
    app: TestApp, pool: DatasourcePool, journal: Any, save: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    saved = save("one")

    def crash(_: MetricQuery) -> list[Series]:
        raise KeyError("inner detail")

    journal.answer = crash
    with pytest.raises(PluginCallError, match=r"^plugin store failed in query_metrics: KeyError$"):
        pool.query_metrics(saved, UP)
    assert "inner detail" in caplog.text
    labels = {"plugin": "store", "operation": "query_metrics", "outcome": "crash"}
    assert app.core.metrics.registry.get_sample_value("svc_plugin_calls_total", labels) == 1


def test_a_name_that_resolves_to_a_denied_address_is_not_connected_to(
    make_app: AppFactory, plugin: Any, http_sink: Any
) -> None:
    app = make_app(plugins=[plugin], settings={"Datasource": {"DeniedNetworks": ["127.0.0.0/8", "::1/128"]}})
    body = {"name": "inner", "plugin_type": "store", "http": {"url": f"http://localhost:{http_sink.port}"}}
    saved = dat(app.root.post("/api/svc/datasource/upsert", body))["id"]
    fetch = MetricQuery({"query": "fetch"}, 5.0, 5.0, timeout=5.0)
    with pytest.raises(DatasourceError, match="are not allowed"):
        app.core.get(DatasourcePool).query_metrics(saved, fetch)
    assert http_sink.requests == []
    app.core.get(DatasourcePool).close()
