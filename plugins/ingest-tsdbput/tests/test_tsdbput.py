"""The put protocol: its answers, its clients, and what arrives behind it."""

import gzip
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentsdb import TSDBClient
from opentsdb.protocols.http_connect import HttpTSDBConnect

import tocsin_ingest_tsdbput
from tocsin.plugin import Decoded, DecodeError, IngestRequest, decode_chunk
from tocsin.plugin.testkit import AppFactory, WsgiClient
from tocsin.plugin.testkit.arrivals import ServedGateway
from tocsin.plugin.testkit.components import PATIENCE
from tocsin.plugin.testkit.ingest import IngestContract

TWO = [
    {
        "metric": "disk.used-percent",
        "timestamp": 1760000000,
        "value": "71.5",
        "tags": {"host": "web01", "mount-point": "/data"},
    },
    {"metric": "cpu_load", "timestamp": 1760000000123, "value": 0.42, "tags": {"ident": "web01"}},
]

DEEP = b"[" * 300 + b"]" * 300


def request(body: Any, **headers: str) -> IngestRequest:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return IngestRequest("/tsdbput/put", named, {}, data, "127.0.0.1", 1 << 20)


def decode(body: Any) -> Decoded:
    route = tocsin_ingest_tsdbput.TsdbPut().routes()[0]
    assert route.decode is not None
    return route.decode(request(body))


def item(**members: Any) -> dict[str, Any]:
    return {"metric": "m", "timestamp": 1760000000, "value": 1, "tags": {"a": "b"}, **members}


class TestContract(IngestContract):
    plugin = "tocsin_ingest_tsdbput"

    def valid(self) -> Mapping[str, IngestRequest]:
        return {
            "an array": request(TWO),
            "an object": request(TWO[0]),
            "gzip": request(gzip.compress(orjson.dumps(TWO), mtime=0), content_encoding="gzip"),
        }

    def refused(self) -> Mapping[str, IngestRequest]:
        wrong = {"metric": 1, "timestamp": 1.5, "tags": ["a"]}
        return {
            "nothing": request(b""),
            "noise": request(b"nonsense"),
            "deep nesting": request(b'[{"metric": "m", "value": 1, "tags": %b}]' % DEEP),
            "a number": request(b"5"),
            "numbers": request(b"[5]"),
            "not gzip": request(TWO, content_encoding="gzip"),
            "a tag that is a number": request(item(tags={"a": 1})),
            **{f"{name} of a wrong type": request([item(), item(**{name: value})]) for name, value in wrong.items()},
        }

    def bomb(self) -> IngestRequest | None:
        return request(gzip.compress(b" " * (2 << 20)), content_encoding="gzip")


@pytest.fixture
def client(make_app: AppFactory) -> WsgiClient:
    return make_app(plugins=[tocsin_ingest_tsdbput], start="http").client


def test_names_are_cleaned_and_the_host_becomes_the_identity() -> None:
    first, second = decode_chunk(decode(TWO).body)
    assert str(first) == '{__name__="disk_used_percent",ident="web01",mount_point="/data"} 71.5@1760000000000'
    assert str(second) == '{__name__="cpu_load",ident="web01"} 0.42@1760000000000'


@pytest.mark.parametrize(
    ("tags", "labels"),
    [
        ({"host": "h", "ident": "i"}, {"host": "h", "ident": "i"}),
        ({"host": "h", "ident": ""}, {"ident": "h"}),
        ({"ident": ""}, {}),
        ({}, {}),
        (None, {}),
    ],
)
def test_identity(tags: Any, labels: dict[str, str]) -> None:
    (series,) = decode_chunk(decode(item(tags=tags)).body)
    assert dict(series.labels) == {"__name__": "m", **labels}


@pytest.mark.parametrize(
    ("given", "value"),
    [("12.5", 12.5), ("1e3", 1000.0), ("+Inf", math.inf), ("-inf", -math.inf), (7, 7.0), (-0.5, -0.5), (".5", 0.5)],
)
def test_values_may_be_texts(given: Any, value: float) -> None:
    (series,) = decode_chunk(decode(item(value=given)).body)
    assert series.samples == [(1760000000000, value)]


def test_not_a_number_is_a_value() -> None:
    (series,) = decode_chunk(decode(item(value="NaN")).body)
    assert math.isnan(series.samples[0][1])


@pytest.mark.parametrize("value", [None, True, "", "1_0", " 1", "1e999", "٣", "0x10", [], {}])
def test_what_is_no_number_fails_alone(value: Any) -> None:
    decoded = decode([item(value=value), item()])
    assert decoded.failed == 1
    assert decoded.message.startswith("unparsable value")
    assert len(list(decode_chunk(decoded.body))) == 1


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"metric": ""}, "metric is blank"),
        ({"metric": None}, "metric is blank"),
        ({"metric": "a b"}, "invalid metric name: a b"),
        ({"metric": "1a"}, "invalid metric name: 1a"),
        ({"tags": {"a/b": "c"}}, "invalid tag name: a/b"),
        ({"tags": {"": "c"}}, "invalid tag name: "),
        ({"tags": {"__name__": "c"}}, "invalid tag name: __name__"),
        ({"timestamp": -(1 << 62)}, f"timestamp {-(1 << 62)} is out of range"),
    ],
)
def test_items_fail_alone(members: dict[str, Any], message: str) -> None:
    decoded = decode([item(), item(**members)])
    assert (decoded.failed, decoded.message) == (1, message)
    assert len(list(decode_chunk(decoded.body))) == 1


@pytest.mark.parametrize(
    ("timestamp", "seconds"),
    [
        (None, 0),
        (0, 0),
        (-60, -60),
        (999_999_999, 999_999_999),
        (999_999_999_999, 999_999_999),
        (1_000_000_300, 1_000_000_300),
        (1_000_000_301, 1_000_000_000),
        (4_294_967_295, 1_000_000_000),
    ],
)
def test_times(timestamp: Any, seconds: int) -> None:
    route = tocsin_ingest_tsdbput.TsdbPut(clock=lambda: 1_000_000_000.7).routes()[0]
    assert route.decode is not None
    decoded = route.decode(request(item(timestamp=timestamp)))
    (series,) = decode_chunk(decoded.body)
    assert series.samples[0][0] == seconds * 1000


@pytest.mark.parametrize(
    ("query", "beside"),
    [
        ("", {}),
        ("?summary", {"success": 1, "failed": 1}),
        ("?details=false", {}),
        (
            "?details=true",
            {"success": 1, "failed": 1, "errors": [{"datapoint": item(metric=""), "error": "metric is blank"}]},
        ),
    ],
)
def test_answers(client: WsgiClient, query: str, beside: dict[str, Any]) -> None:
    answer = client.request("POST", "/tsdbput/put" + query, json=[item(), item(metric="")])
    assert answer.status == 200
    expected = {"fail": 1, "msg": "received , Error clean: metric is blank", "succ": 1}
    assert answer.json() == expected | beside
    metrics = client.get("/metrics").text
    assert 'svc_pushgw_samples_received_total{channel="opentsdb"} 1.0' in metrics
    assert 'svc_pushgw_items_failed_total{channel="opentsdb"} 1.0' in metrics


def test_names_that_cannot_be_cleaned_are_told_apart(client: WsgiClient) -> None:
    answer = client.request("POST", "/tsdbput/put", json=[item(metric="a b")])
    assert answer.json() == {"fail": 1, "msg": "received , Error toprom: invalid metric name: a b", "succ": 0}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (5, "[1]: got 5, expected an object"),
        (item(tags={"a": 5}), "[1].tags.a: got 5, expected a string"),
        (item(tags=[]), "[1].tags: got [], expected an object of strings"),
        (item(metric=0), "[1].metric: got 0, expected a string"),
        (item(timestamp=1.5), "[1].timestamp: got 1.5, expected an integer, Unix seconds"),
    ],
)
def test_refusals_name_the_place(client: WsgiClient, wrong: Any, message: str) -> None:
    answer = client.request("POST", "/tsdbput/put", json=[item(), wrong])
    assert (answer.status, answer.text) == (400, message)


def test_label_sets_are_encoded_once() -> None:
    protocol = tocsin_ingest_tsdbput.TsdbPut()
    route = protocol.routes()[0]
    assert route.decode is not None
    for number in range(3):
        route.decode(request([item(value=number), item(tags={"a": "c"})]))
    assert protocol.label_sets().stats()[:2] == (4, 2)


@pytest.fixture
def served(serve_gateway: Callable[..., ServedGateway], monkeypatch: pytest.MonkeyPatch) -> ServedGateway:
    monkeypatch.setattr(HttpTSDBConnect, "SEND_TIMEOUT", PATIENCE)  # the client waits for two seconds
    return serve_gateway(tocsin_ingest_tsdbput)


@pytest.mark.parametrize("compression", ["gzip", None])
def test_with_a_client_library(served: ServedGateway, compression: str | None) -> None:
    client = TSDBClient(uri=f"{served.url}/tsdbput", http_compression=compression, host_tag=False)
    try:
        assert client.is_alive()
        now = int(time.time())
        client.send("web.requests-total", 17, timestamp=now, host="web01", path="/a")
        client.send("web.errors", 2.5, timestamp=now, host="web01")
        assert served.arrivals.samples(2) == {
            'web_requests_total{ident="web01",path="/a"}': [(now * 1000, 17.0)],
            'web_errors{ident="web01"}': [(now * 1000, 2.5)],
        }
    finally:
        client.close()
        client.wait()
        client._tsdb_connect.connect.close()
    assert client.statuses["success"] == 2
    assert client.statuses["failed"] == 0


def test_the_client_is_told_what_failed(served: ServedGateway) -> None:
    connection = HttpTSDBConnect("", 0, False, "gzip", f"{served.url}/tsdbput")
    answer = connection.sendall(item(), item(value="many"))
    connection.connect.close()
    assert (answer["success"], answer["failed"]) == (1, 1)
    assert answer["errors"] == [{"datapoint": item(value="many"), "error": 'unparsable value "many"'}]


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.integers(-(2**63), 2**63),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["metric", "tags", "value", "timestamp", "ident", "host"]) | st.text(max_size=3), inner, max_size=5),
    max_leaves=12,
))  # fmt: skip
def test_any_body_is_decoded_or_refused(body: Any) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode(errors="replace")
    try:
        decoded = decode(data)
    except DecodeError:
        return
    parsed = orjson.loads(data)
    items = parsed if isinstance(parsed, list) else [parsed]
    assert len(list(decode_chunk(decoded.body))) + decoded.failed == len(items)
