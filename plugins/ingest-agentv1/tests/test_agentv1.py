"""The series protocol: its answers, its clients, and what arrives behind it."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import datadog
import datadog.api
import datadog.api.api_client
import orjson
import pytest
from datadog_api_client import ApiClient, Configuration
from datadog_api_client.exceptions import ApiException
from datadog_api_client.v1.api.metrics_api import MetricsApi
from datadog_api_client.v1.model.metric_content_encoding import MetricContentEncoding
from datadog_api_client.v1.model.metrics_payload import MetricsPayload
from datadog_api_client.v1.model.point import Point
from datadog_api_client.v1.model.series import Series
from hypothesis import given
from hypothesis import strategies as st

import tocsin_ingest_agentv1
from tocsin.plugin import Decoded, DecodeError, IngestRequest, decode_chunk
from tocsin.plugin.testkit import AppFactory, WsgiClient
from tocsin.plugin.testkit.arrivals import ServedGateway
from tocsin.plugin.testkit.ingest import IngestContract

PATH = "/agentv1/api/v1/series"
LOAD = {
    "metric": "system.load.1",
    "points": [[1760000000, 0.7], [1760000015.9, 0.8, "more"]],
    "host": "web01",
    "type": "gauge",
    "device": "",
    "tags": ["env:prod", "role:db"],
}

DEEP = b"[" * 300 + b"]" * 300


def request(body: Any, **headers: str) -> IngestRequest:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return IngestRequest(PATH, named, {}, data, "127.0.0.1", 1 << 20)


def decode(body: Any) -> Decoded:
    return tocsin_ingest_agentv1.AgentV1().decode(request(body))


def series(**members: Any) -> dict[str, Any]:
    return {"series": [{"metric": "m", "points": [[1, 2]], **members}]}


class TestContract(IngestContract):
    plugin = "tocsin_ingest_agentv1"

    def valid(self) -> Mapping[str, IngestRequest]:
        body = orjson.dumps({"series": [LOAD]})
        return {
            "plain": request(body),
            "gzip": request(gzip.compress(body, mtime=0), content_encoding="gzip"),
            "deflate": request(zlib.compress(body), content_encoding="deflate"),
        }

    def refused(self) -> Mapping[str, IngestRequest]:
        wrong = {"metric": 5, "points": "none", "host": 7, "tags": "a:b"}
        points = ([1, None], [1], 5, [True, 1], ["1", 2])
        return {
            "nothing": request(b""),
            "noise": request(b"nonsense"),
            "deep nesting": request(b'{"series": [{"metric": "m", "tags": %b}]}' % DEEP),
            "an array": request([LOAD]),
            "no series": request({}),
            "empty series": request({"series": []}),
            "a series that is a number": request({"series": [5]}),
            "not gzip": request({"series": [LOAD]}, content_encoding="gzip"),
            "not deflate": request({"series": [LOAD]}, content_encoding="deflate"),
            "a tag that is a number": request(series(tags=[5])),
            **{f"{name} of a wrong type": request(series(**{name: value})) for name, value in wrong.items()},
            **{f"the point {point}": request(series(points=[[1, 2], point])) for point in points},
        }

    def bomb(self) -> IngestRequest | None:
        return request(zlib.compress(b" " * (2 << 20)), content_encoding="deflate")


@pytest.fixture
def client(make_app: AppFactory) -> WsgiClient:
    return make_app(plugins=[tocsin_ingest_agentv1], start="http").client


def test_points_become_samples_of_one_series() -> None:
    (found,) = decode_chunk(decode({"series": [None, LOAD]}).body)
    assert dict(found.labels) == {"__name__": "system_load_1", "ident": "web01", "env": "prod", "role": "db"}
    assert found.samples == [(1760000000000, 0.7), (1760000015000, 0.8)]


@pytest.mark.parametrize(
    ("members", "labels"),
    [
        ({"host": "h"}, {"ident": "h"}),
        ({"tags": ["host:t"]}, {"ident": "t"}),
        ({"host": "h", "tags": ["host:t"]}, {"ident": "h"}),
        ({"host": "h", "tags": ["ident:i"]}, {"ident": "i", "host": "h"}),
        ({"tags": ["ident:i", "host:t"]}, {"ident": "i", "host": "t"}),
        ({"host": "h", "tags": ["ident:"]}, {"ident": "h"}),
        ({"tags": ["ident:"]}, {}),
        ({"host": None, "tags": None, "device": "sda"}, {}),
        ({"tags": ["device:sda", "a.b-c:d:e", "nothing", "x:"]}, {"device": "sda", "a_b_c": "d:e", "x": ""}),
        ({"tags": ["role:a", "role:b"]}, {"role": "b"}),
    ],
)
def test_labels(members: dict[str, Any], labels: dict[str, str]) -> None:
    (found,) = decode_chunk(decode(series(**members)).body)
    assert dict(found.labels) == {"__name__": "m", **labels}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"metric": "a b"}, "invalid metric name: a b"),
        ({"metric": ""}, "metric is blank"),
        ({"metric": None}, "metric is blank"),
        ({"tags": ["a b:c"]}, "invalid tag name: a b"),
        ({"tags": ["__name__:c"]}, "invalid tag name: __name__"),
        ({"points": [[1e300, 1]]}, "timestamp outside 64 bits"),
    ],
)
def test_series_fail_alone(members: dict[str, Any], message: str) -> None:
    decoded = decode({"series": [LOAD, *series(**members)["series"]]})
    assert decoded.failed == 1
    assert message in decoded.message
    assert len(list(decode_chunk(decoded.body))) == 1


def test_a_series_without_points_is_one(client: WsgiClient) -> None:
    answer = client.request("POST", PATH, json={"series": [LOAD, {"metric": "m"}, {"metric": "?"}]})
    assert (answer.status, answer.json()) == (200, {"fail": 1, "msg": "received", "succ": 2})
    metrics = client.get("/metrics").text
    assert 'svc_pushgw_samples_received_total{channel="datadog"} 2.0' in metrics
    assert 'svc_pushgw_items_failed_total{channel="datadog"} 1.0' in metrics


def test_an_empty_list_is_refused(client: WsgiClient) -> None:
    answer = client.request("POST", PATH, json={"series": []})
    assert (answer.status, answer.text) == (400, "series empty")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (5, "series[1]: got 5, expected an object"),
        ({"metric": 5}, "series[1].metric: got 5, expected a string"),
        ({"metric": "m", "tags": ["a:b", 1]}, "series[1].tags[1]: got 1, expected a string"),
        ({"metric": "m", "points": [[1]]}, "series[1].points[0]: got [1], expected [seconds, value]"),
    ],
)
def test_refusals_name_the_place(client: WsgiClient, item: Any, message: str) -> None:
    answer = client.request("POST", PATH, json={"series": [LOAD, item]})
    assert (answer.status, answer.text) == (400, message)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/agentv1/api/v1/check_run"),
        ("POST", "/agentv1/api/v1/metadata"),
        ("POST", "/agentv1/intake/"),
        ("POST", "/agentv1/intake"),
        ("GET", "/agentv1/api/v1/validate"),
    ],
)
def test_companions_need_no_key(make_app: AppFactory, method: str, path: str) -> None:
    settings = {"HTTP": {"APIForAgent": {"BasicAuth": {"agent": "secret"}}}}
    client = make_app(plugins=[tocsin_ingest_agentv1], settings=settings, start="http").client
    answer = client.request(method, path, body=b"whatever" if method == "POST" else None)
    assert (answer.status, answer.text) == (200, "not implemented")


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("?api_key=secret", {}, 200),
        ("", {"DD-API-KEY": "secret"}, 200),
        ("?api_key=other", {}, 401),
        ("", {"DD-API-KEY": "agent"}, 401),
        ("?api_key=", {}, 401),
        ("", {}, 401),
    ],
)
def test_the_key_is_a_password_of_the_agents(
    make_app: AppFactory, query: str, headers: dict[str, str], status: int
) -> None:
    settings = {"HTTP": {"APIForAgent": {"BasicAuth": {"one": "another", "agent": "secret"}}}}
    client = make_app(plugins=[tocsin_ingest_agentv1], settings=settings, start="http").client
    answer = client.request("POST", PATH + query, json={"series": [LOAD]}, headers=headers)
    assert answer.status == status
    assert status == 200 or answer.text == "unauthorized"


@pytest.fixture
def served(serve_gateway: Callable[..., ServedGateway]) -> ServedGateway:
    settings = {"HTTP": {"APIForAgent": {"BasicAuth": {"agent": "secret"}}}}
    return serve_gateway(tocsin_ingest_agentv1, settings)


def configured(served: ServedGateway, key: str = "secret") -> Configuration:
    configuration = Configuration(host=f"{served.url}/agentv1")
    configuration.api_key["apiKeyAuth"] = key
    return configuration


PAYLOAD = MetricsPayload(
    series=[
        Series(metric="system.load.1", type="gauge", host="web01", points=[Point([1760000000.0, 1.1])], tags=["a:b"])
    ]
)


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_with_the_api_client(served: ServedGateway, encoding: str) -> None:
    options = {"content_encoding": MetricContentEncoding(encoding)} if encoding else {}
    with ApiClient(configured(served)) as client:
        MetricsApi(client).submit_metrics(body=PAYLOAD, **options)
    assert served.arrivals.samples(1) == {'system_load_1{a="b",ident="web01"}': [(1760000000000, 1.1)]}


def test_a_client_with_a_wrong_key_is_told(served: ServedGateway) -> None:
    with ApiClient(configured(served, "guess")) as client, pytest.raises(ApiException) as caught:
        MetricsApi(client).submit_metrics(body=PAYLOAD)
    assert caught.value.status == 401


@pytest.fixture
def library(served: ServedGateway) -> Iterator[ServedGateway]:
    datadog.initialize(api_key="secret", api_host=f"{served.url}/agentv1", mute=False, host_name="web02")
    yield served
    datadog.api._api_key = None


def test_with_the_older_library(library: ServedGateway) -> None:
    answer = datadog.api.Metric.send(  # type: ignore[attr-defined]
        metric="page.views", points=[(1760000000, 1000), (1760000010, 1001)], tags=["version:1"], compress_payload=True
    )
    assert answer == {"fail": 0, "msg": "received", "succ": 1}
    samples = [(1760000000000, 1000.0), (1760000010000, 1001.0)]
    assert library.arrivals.samples(1) == {'page_views{ident="web02",version="1"}': samples}


@given(
    st.binary(max_size=100)
    | st.lists(
        st.dictionaries(
            st.sampled_from(["metric", "points", "host", "tags", "type"]),
            st.none()
            | st.text(max_size=5)
            | st.lists(
                st.text(max_size=5) | st.lists(st.integers() | st.floats(allow_nan=False), max_size=3), max_size=3
            ),
            max_size=5,
        )
        | st.none(),
        max_size=4,
    )
)
def test_any_body_is_decoded_or_refused(body: Any) -> None:
    data = body if isinstance(body, bytes) else json.dumps({"series": body}).encode(errors="replace")
    try:
        decoded = decode(data)
    except DecodeError:
        return
    assert len(list(decode_chunk(decoded.body))) + decoded.failed == sum(item is not None for item in body)
