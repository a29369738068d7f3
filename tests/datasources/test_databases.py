"""Datasources on every database: uniqueness, large texts, ids."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.datasources.catalog import Catalog
from tocsin.plugin.testkit import AppFactory, TestApp, dat, err
from tocsin.plugin.testkit.components import Database


@pytest.fixture
def app(make_app: AppFactory, plugin: Any, database: Database) -> TestApp:
    return make_app(plugins=[plugin], settings={"DB": {"DBType": database.kind, "DSN": database.dsn}})


def test_a_whole_life(app: TestApp) -> None:
    header = "ä" * 60_000
    body = {
        "name": "ünï 😀",
        "plugin_type": "store",
        "settings": {"note": "😀" * 10_000},
        "http": {"url": "http://127.0.0.1:9", "headers": {"X-Long": header}},
        "force_save": True,
    }
    upsert = "/api/svc/datasource/upsert"
    first = dat(app.root.post(upsert, body))["id"]
    second = dat(app.root.post(upsert, {**body, "name": "other"}))["id"]
    assert second > first > 0
    assert err(app.root.post(upsert, body)) == "name already exists"
    assert err(app.root.post(upsert, {**body, "id": second})) == "name already exists"
    found = dat(app.root.post("/api/svc/datasource/desc", {"id": first}))
    assert found["http"]["headers"] == {"X-Long": header}
    assert found["settings"] == body["settings"]
    assert [d["name"] for d in dat(app.root.post("/api/svc/datasource/list", {"name": "ÜNÏ"}))] == ["ünï 😀"]
    dat(app.root.post("/api/svc/datasource/status/update", {"id": first, "status": "disabled"}))
    assert app.core.get(Catalog).find(first).enabled is False
    dat(app.root.delete("/api/svc/datasource", [first, 99]))
    assert list(app.core.get(Catalog).records()) == [second]
