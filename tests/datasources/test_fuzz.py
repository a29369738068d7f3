"""Whatever JSON arrives is answered with a success or a complaint, never with a crash."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.plugin.testkit import TestApp

NAMES = st.sampled_from(
    [
        *("id", "name", "plugin_type", "settings", "http", "auth", "url", "urls", "headers", "tls", "timeout"),
        *("ca_cert", "basic_auth_user", "basic_auth_password", "is_default", "weight", "force_save", "status"),
        *("datasource_id", "queries", "query", "start", "end", "step", "time", "max_points", "match"),
        *("datasource_cate", "datasource_queries", "match_type", "op", "values", "cluster_name", "category"),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10)
    | st.sampled_from(["store", "http://127.0.0.1:9", "http://169.254.169.254", "in", "up", "enabled", ""])
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6), max_leaves=25
)
ENDPOINTS = [
    ("POST", "datasource/upsert"),
    ("POST", "datasource/list"),
    ("POST", "datasource/desc"),
    ("POST", "datasource/status/update"),
    ("DELETE", "datasource/"),
    ("DELETE", "datasource/series"),
    ("POST", "datasource/query"),
    ("POST", "query-range-batch"),
    ("POST", "query-instant-batch"),
]


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(body=JSON)
def test_any_json_is_answered(app: TestApp, method: str, path: str, body: Any) -> None:
    answer = app.root.request(method, f"/api/svc/{path}", body=orjson.dumps(body))
    assert answer.status == 200
    assert answer.headers.get("x-error-code") != "internal", answer.text
    assert answer.json()["request_id"]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(changes=st.dictionaries(NAMES, JSON, max_size=5))
def test_a_datasource_with_any_change_is_saved_or_refused(app: TestApp, changes: dict[str, Any]) -> None:
    body = {"name": "fuzzed", "plugin_type": "store", "http": {"url": "http://127.0.0.1:9"}, "force_save": True}
    answer = app.root.post("/api/svc/datasource/upsert", {**body, **changes})
    assert answer.headers.get("x-error-code") != "internal", answer.text
    listed = app.root.post("/api/svc/datasource/list", {})
    assert listed.json()["err"] == "", listed.text
    assert app.root.get("/api/svc/datasource/brief").json()["err"] == ""
    app.root.delete("/api/svc/datasource/", [row["id"] for row in listed.json()["dat"]])
