"""The plugin inside the service, with a real Prometheus behind it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import tocsin_datasource_prometheus
from tocsin.plugin.testkit import AppFactory, TestApp, dat
from tocsin.plugin.testkit.components import Prometheus, wait_until


@pytest.fixture(scope="session")
def prometheus(start_prometheus: Callable[..., Prometheus]) -> Prometheus:
    server = start_prometheus(arguments=["--web.enable-admin-api"])
    wait_until(lambda: bool(server.query("up")), timeout=30, what="the first scrape")
    return server


@pytest.fixture
def app(make_app: AppFactory) -> TestApp:
    return make_app(plugins=[tocsin_datasource_prometheus])


@pytest.fixture
def datasource_id(app: TestApp, prometheus: Prometheus) -> int:
    body = {"name": "prom", "plugin_type": "prometheus", "http": {"url": prometheus.url},
            "settings": {"prometheus.tsdb_type": "Prometheus"}}  # fmt: skip
    saved = dat(app.root.post("/api/svc/datasource/upsert", body))
    assert saved["verification"]["state"] == "verified"
    return int(saved["id"])


def test_instant_and_range_batches(app: TestApp, datasource_id: int, prometheus: Prometheus) -> None:
    now = time.time()
    body = {"datasource_id": datasource_id, "queries": [{"query": "up", "time": now}, {"query": "1+1", "time": now}]}
    vector, scalar = dat(app.root.post("/api/svc/query-instant-batch", body))
    assert vector[0]["metric"]["__name__"] == "up"
    assert vector[0]["value"][1] == "1"
    assert scalar[1] == "2"
