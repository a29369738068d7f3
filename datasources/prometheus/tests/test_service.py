"""The plugin inside the service, with real stores behind it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import tocsin_datasource_prometheus
from tocsin.plugin.testkit import AppFactory, TestApp, dat, err
from tocsin.plugin.testkit.components import HttpSink, Prometheus, VictoriaMetrics, wait_until


@pytest.fixture(scope="session")
def prometheus(start_prometheus: Callable[..., Prometheus]) -> Prometheus:
    server = start_prometheus(arguments=["--web.enable-admin-api"])
    wait_until(lambda: len(server.query("count_over_time(up[1m]) >= 2")) == 1, what="two scrapes")
    return server


@pytest.fixture
def app(make_app: AppFactory) -> TestApp:
    return make_app(plugins=[tocsin_datasource_prometheus], start="http")


@pytest.fixture
def save(app: TestApp) -> Callable[..., Any]:
    def saved(url: str, **more: Any) -> Any:
        body = {"name": "prom", "plugin_type": "prometheus", "http": {"url": url, "timeout": 60_000}, **more}
        return app.root.post("/api/svc/datasource/upsert", body)

    return saved


def instant(app: TestApp, datasource_id: int, *queries: str, at: float | None = None) -> Any:
    body = {"datasource_id": datasource_id, "queries": [{"query": q, "time": at or time.time()} for q in queries]}
    return app.root.post("/api/svc/query-instant-batch", body)


def test_instant_batches_answer_in_the_stores_own_words(
    app: TestApp, save: Callable[..., Any], prometheus: Prometheus
) -> None:
    saved = dat(save(prometheus.url))
    assert saved["verification"]["state"] == "verified"
    vector, scalar, text = dat(instant(app, saved["id"], "up", "1+1", '"words"'))
    assert vector[0]["metric"] == {"__name__": "up", "instance": f"127.0.0.1:{prometheus.port}", "job": "prometheus"}
    assert vector[0]["value"][1] == "1"
    assert scalar[1] == "2"
    assert text[1] == "words"


def test_range_batches(app: TestApp, save: Callable[..., Any], prometheus: Prometheus) -> None:
    saved = dat(save(prometheus.url))["id"]
    end = int(time.time())
    query = {"query": "up", "start": end - 60, "end": end, "step": 1}
    answer = app.root.post("/api/svc/query-range-batch", {"datasource_id": saved, "queries": [query]})
    [[series]] = dat(answer)
    assert answer.json()["truncated"] is False
    assert series["metric"]["job"] == "prometheus"
    assert {text for _, text in series["values"]} == {"1"}


def test_a_wrong_expression_is_refused_with_the_stores_words(
    app: TestApp, save: Callable[..., Any], prometheus: Prometheus
) -> None:
    answer = instant(app, dat(save(prometheus.url))["id"], "sum(")
    assert err(answer).startswith("bad_data: ")
    assert "parse error" in err(answer)
    assert answer.headers["x-error-code"] == "invalid"


def test_the_whole_api_passes_through(app: TestApp, save: Callable[..., Any], prometheus: Prometheus) -> None:
    base = f"/api/svc/proxy/{dat(save(prometheus.url))['id']}"
    assert app.root.get(f"{base}/api/v1/query?query=up").json()["data"]["resultType"] == "vector"
    assert "prometheus" in app.root.get(f"{base}/api/v1/label/job/values").json()["data"]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    posted = app.root.request("POST", f"{base}/api/v1/query", body=b"query=1%2B1", headers=form)
    assert posted.json()["data"]["result"][1] == "2"
    assert app.root.get(f"{base}/api/v1/query?query=sum(").status == 400
    assert app.root.get(f"{base}/api/v1/status/buildinfo").json()["data"]["version"]


def test_series_are_deleted_in_both_dialects(
    app: TestApp, save: Callable[..., Any], prometheus: Prometheus, http_sink: HttpSink
) -> None:
    saved = dat(save(prometheus.url, settings={"prometheus.tsdb_type": "Prometheus"}))["id"]
    body = {"datasource_id": saved, "match": ['{job="nobody"}'], "start": "1700000000", "end": "1700000001"}
    assert app.root.delete("/api/svc/datasource/series", body).json()["err"] == ""
    for tsdb_type, message in (("", "datasource type not found"), ("Thanos", "not support delete series yet")):
        change = {"id": saved, "settings": {"prometheus.tsdb_type": tsdb_type}}
        dat(save(prometheus.url, **change))
        assert message in err(app.root.delete("/api/svc/datasource/series", body))
    change = {"id": saved, "force_save": True, "settings": {"prometheus.tsdb_type": "VictoriaMetrics"}}
    dat(save(f"{http_sink.url}/select/7/prometheus", **change))
    assert app.root.delete("/api/svc/datasource/series", body).json()["err"] == ""
    [got] = http_sink.requests
    assert (got.method, got.path) == ("GET", "/delete/7/prometheus/api/v1/admin/tsdb/delete_series")
    assert got.query == {"match[]": ['{job="nobody"}']}


def test_victoria_metrics_answers_too(
    app: TestApp, save: Callable[..., Any], start_victoria_metrics: Callable[[], VictoriaMetrics]
) -> None:
    server = start_victoria_metrics()
    saved = dat(save(server.url))["id"]
    assert dat(instant(app, saved, "1+1"))[0][0]["value"][1] == "2"
    server.stop()
    assert "Connection refused" in err(instant(app, saved, "1+1"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"http": {}}, "url is empty"),
        ({"http": {"url": "127.0.0.1:9090"}}, "http.url must start with http or https"),
        ({"settings": {"write_addr": "127.0.0.1/write"}}, "settings.write_addr must start with http or https"),
        ({"settings": {"write_addr": "http://a/w,ftp://b"}}, "settings.write_addr[1] must start with http"),
        ({"settings": {"internal_addr": "http://169.254.169.254"}}, "settings.internal_addr: connections to"),
        ({"settings": {"prometheus.tsdb_type": 5}}, "settings.prometheus.tsdb_type: got 5, expected a text"),
    ],
)
def test_settings_that_cannot_work_are_named(save: Callable[..., Any], change: dict[str, Any], message: str) -> None:
    assert message in err(save("http://127.0.0.1:9", **change))


def test_the_brief_list_shows_what_everybody_may_know(app: TestApp, save: Callable[..., Any]) -> None:
    settings = {"prometheus.tsdb_type": "M3", "write_addr": "http://w/", "other": "hidden"}
    dat(save("http://127.0.0.1:9", settings=settings, force_save=True))
    [shown] = dat(app.root.get("/api/svc/datasource/brief"))
    assert shown["settings"] == {"tsdb_type": "M3", "write_addr": "http://w/"}
