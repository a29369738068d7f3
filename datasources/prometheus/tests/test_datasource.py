"""What is asked of a store and what is made of its answers."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.plugin import Datasource, DatasourceConfig, DatasourceError, MetadataQuery, MetricQuery, number_text
from tocsin.plugin.testkit.components import Answer, HttpSink, Prometheus, wait_until
from tocsin_datasource_prometheus.answers import columns
from tocsin_datasource_prometheus.kind import PrometheusType


@pytest.fixture
def connect(http_sink: HttpSink) -> Iterator[Callable[..., Datasource]]:
    """Connect to the sink."""
    made: list[Datasource] = []

    def connected(url: str = "", **more: Any) -> Datasource:
        http = {"url": url or f"{http_sink.url}/base", "timeout": 60_000, **more.pop("http", {})}
        made.append(PrometheusType().connect(DatasourceConfig(1, "p", "prometheus", http=http, **more)))
        return made[-1]

    yield connected
    for datasource in made:
        datasource.close()


def success(data: Any, **more: Any) -> Answer:
    return Answer(200, json.dumps({"status": "success", "data": data, **more}).encode())


def vector(*items: Any) -> dict[str, Any]:
    return {"resultType": "vector", "result": [{"metric": labels, "value": value} for labels, value in items]}


def test_queries_are_posted_as_forms(connect: Callable[..., Datasource], http_sink: HttpSink) -> None:
    http_sink.default = success(vector())
    datasource = connect()
    datasource.query_metrics(MetricQuery({"query": " up "}, 1700000000.5, 1700000000.5))
    datasource.query_metrics(MetricQuery({"prom_ql": "a+b"}, 1.0, 2.0, 0.25))
    first, second = http_sink.requests
    assert (first.method, first.path, first.body) == ("POST", "/base/api/v1/query", b"query=up&time=1700000000.5")
    assert (second.path, second.body) == ("/base/api/v1/query_range", b"query=a%2Bb&start=1&end=2&step=0.25")
    assert first.headers["content-type"] == "application/x-www-form-urlencoded"


def test_a_store_that_refuses_post_is_asked_with_get_from_then_on(
    connect: Callable[..., Datasource], http_sink: HttpSink
) -> None:
    http_sink.default = lambda request: Answer(405) if request.method == "POST" else success(vector())
    datasource = connect()
    for _ in range(3):
        datasource.query_metrics(MetricQuery({"query": "a b"}, 5.0, 5.0))
    assert [request.method for request in http_sink.requests] == ["POST", "GET", "GET", "GET"]
    assert http_sink.requests[3].query == {"query": ["a b"], "time": ["5"]}


def test_credentials_headers_and_base_path_are_sent(connect: Callable[..., Datasource], http_sink: HttpSink) -> None:
    http_sink.default = success(vector())
    auth = {"basic_auth_user": "u", "basic_auth_password": "p"}
    connect(http={"headers": {"X-Scope-OrgID": "t1"}}, auth=auth).check(1.0)
    [got] = http_sink.requests
    assert (got.method, got.path, got.query) == ("GET", "/base/api/v1/query", {"query": ["1+1"]})
    assert (got.headers["authorization"], got.headers["x-scope-orgid"]) == ("Basic dTpw", "t1")


@pytest.mark.parametrize("change", [{"url": "/loki"}, {"headers": {"X-Loki-Org": "1"}}])
def test_a_store_of_logs_is_checked_by_its_labels(
    connect: Callable[..., Datasource], http_sink: HttpSink, change: dict[str, Any]
) -> None:
    http_sink.default = success([])
    if "url" in change:
        change = {"url": http_sink.url + change["url"]}
    connect(http=change).check(1.0)
    assert http_sink.requests[0].path.endswith("/api/v1/labels")


def test_a_failed_check_quotes_the_request_and_the_answer(
    connect: Callable[..., Datasource], http_sink: HttpSink
) -> None:
    http_sink.default = Answer(502, b"bad gateway")
    expected = f"request url:{http_sink.url}/base/api/v1/query?query=1%2B1 failed code:502 body:bad gateway"
    with pytest.raises(DatasourceError) as caught:
        connect(http_sink.url.replace("//", "//user:hidden@") + "/base").check(1.0)
    assert str(caught.value) == expected.replace("//", "//***:***@")


def test_edges_use_the_internal_address(http_sink: HttpSink) -> None:
    http_sink.default = success(vector())
    config = DatasourceConfig(
        1, "p", "prometheus", {"internal_addr": http_sink.url}, {"url": "http://127.0.0.1:9"}, from_edge=True
    )
    datasource = PrometheusType().connect(config)
    datasource.check(1.0)
    datasource.close()
    assert len(http_sink.requests) == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (vector(({"a": "b"}, [5.25, "1.5"])), [({"a": "b"}, [5.25], [1.5])]),
        (vector(({}, [5, "+Inf"]), ({}, [5, "-Inf"])), [({}, [5], [math.inf]), ({}, [5], [-math.inf])]),
        (
            {"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": [[1, "1"], [2.5, "2e3"]]}]},
            [({"a": "b"}, [1, 2.5], [1.0, 2000.0])],
        ),
        ({"resultType": "matrix", "result": [{"metric": {}, "values": []}]}, []),
        ({"resultType": "scalar", "result": [7, "3"]}, [({}, [7], [3.0])]),
        ({"resultType": "vector", "result": [{"metric": {}, "histogram": [5, {}]}]}, []),
        ({"resultType": "matrix", "result": [{"metric": {}, "histograms": [[5, {}]]}]}, []),
    ],
)
def test_results_become_columns(data: Any, expected: list[Any]) -> None:
    assert [(s.labels, list(s.timestamps), list(s.values)) for s in columns(data)] == expected


def test_not_a_number_is_one() -> None:
    [series] = columns(vector(({}, [5, "NaN"])))
    assert math.isnan(series.values[0])


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"resultType": "vector"},
        {"resultType": "vector", "result": {}},
        {"resultType": "vector", "result": [{"value": [1, "1"]}]},
        {"resultType": "vector", "result": [{"metric": {}, "value": [1, "x"]}]},
        {"resultType": "vector", "result": [{"metric": {}, "value": [1]}]},
        {"resultType": "matrix", "result": [{"metric": {}, "values": [[1]]}]},
        {"resultType": "matrix", "result": ["text"]},
        {"resultType": "scalar", "result": []},
        {"resultType": "string", "result": [1, "words"]},
        {"resultType": "streams", "result": []},
    ],
)
def test_results_that_are_none_are_errors(data: Any) -> None:
    with pytest.raises(DatasourceError):
        columns(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["metric", "value", "values"]), inner),
    max_leaves=10,
)


@given(st.fixed_dictionaries({"resultType": st.sampled_from(["vector", "matrix", "scalar"]), "result": JSON}))
def test_nothing_a_store_answers_is_a_crash(data: Any) -> None:
    try:
        found = columns(data)
    except DatasourceError:
        return
    for series in found:
        assert isinstance(series.labels, dict)
        assert len(series.timestamps) == len(series.values)
        assert all(isinstance(number, float) for number in (*series.timestamps, *series.values))


@given(st.floats())
def test_numbers_survive_their_text(value: float) -> None:
    again = float(number_text(value))
    assert again == value or (math.isnan(again) and math.isnan(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (-0.0, "-0"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (1e-6, "0.000001"), (1e-7, "1e-7"),
     (0.1, "0.1"), (1.5e300, "1.5e+300"), (123456789.5, "123456789.5")],
)  # fmt: skip
def test_numbers_are_written_like_the_api_writes_them(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"warnings": ["store 3 is down"]}, "incomplete answer: store 3 is down"),
        ({"isPartial": True}, "incomplete answer"),
        ({"warnings": ["PromQL info: metric might not be a counter"]}, ""),
        ({"warnings": []}, ""),
    ],
)
def test_an_answer_that_lacks_data_is_an_error_for_rules_and_shown_on_dashboards(
    connect: Callable[..., Datasource], http_sink: HttpSink, more: dict[str, Any], message: str
) -> None:
    http_sink.default = success(vector(({}, [5, "1"])), **more)
    query = MetricQuery({"query": "up"}, 5.0, 5.0)
    datasource = connect()
    assert datasource.query_result(query) == [{"metric": {}, "value": [5, "1"]}]
    if message:
        with pytest.raises(DatasourceError, match=message) as caught:
            datasource.query_metrics(query)
        assert not caught.value.refused
    else:
        assert len(datasource.query_metrics(query)) == 1


@pytest.mark.parametrize(
    ("status", "kind", "refused"),
    [(400, "bad_data", True), (422, "execution", True), (503, "timeout", False), (503, "unavailable", False),
     (500, "internal", False)],
)  # fmt: skip
def test_errors_of_the_store(
    connect: Callable[..., Datasource], http_sink: HttpSink, status: int, kind: str, refused: bool
) -> None:
    body = {"status": "error", "errorType": kind, "error": "because"}
    http_sink.default = Answer(status, json.dumps(body).encode())
    with pytest.raises(DatasourceError, match=f"{kind}: because") as caught:
        connect().query_metrics(MetricQuery({"query": "up"}, 5.0, 5.0))
    assert caught.value.refused is refused


def test_a_query_without_expression_is_refused(connect: Callable[..., Datasource]) -> None:
    for spec in ({}, {"query": ""}, {"query": 5}):
        with pytest.raises(DatasourceError, match="expected a PromQL expression"):
            connect().query_metrics(MetricQuery(spec, 5.0, 5.0))


def test_metadata_of_a_real_store(
    connect: Callable[..., Datasource], start_prometheus: Callable[..., Prometheus]
) -> None:
    server = start_prometheus()
    wait_until(lambda: bool(server.query("up")), what="the first scrape")
    datasource = connect(server.url)
    now = time.time()
    query = MetadataQuery(('up{job="prometheus"}',), now - 300, now)
    assert datasource.label_names(query) == ["__name__", "instance", "job"]
    assert datasource.label_values("job", query) == ["prometheus"]
    assert "up" in datasource.label_values("__name__", MetadataQuery())
    assert [dict(labels)["__name__"] for labels in datasource.series(query)] == ["up"]
    assert len(datasource.label_values("__name__", MetadataQuery(limit=3))) == 3
    with pytest.raises(DatasourceError, match="bad_data") as caught:
        datasource.series(MetadataQuery(("{",)))
    assert caught.value.refused
