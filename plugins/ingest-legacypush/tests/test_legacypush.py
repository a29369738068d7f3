"""The push protocol: its answers, and what arrives behind it."""

import gzip
import json
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin_ingest_legacypush
from tocsin.plugin import Decoded, DecodeError, IngestRequest, decode_chunk
from tocsin.plugin.testkit import AppFactory, WsgiClient
from tocsin.plugin.testkit.arrivals import ServedGateway
from tocsin.plugin.testkit.components import PATIENCE
from tocsin.plugin.testkit.ingest import IngestContract

BYTES_IN = {
    "metric": "net.if.in.bytes",
    "endpoint": "web01",
    "timestamp": 1760000000,
    "step": 60,
    "counterType": "COUNTER",
    "value": 1024,
    "tags": "iface=eth0,module=net",
}

DEEP = b"[" * 300 + b"]" * 300


def request(body: Any, **headers: str) -> IngestRequest:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return IngestRequest("/legacypush/push", named, {}, data, "127.0.0.1", 1 << 20)


def decode(body: Any) -> Decoded:
    route = tocsin_ingest_legacypush.LegacyPush(clock=lambda: 1_800_000_000.0).routes()[0]
    assert route.decode is not None
    return route.decode(request(body))


class TestContract(IngestContract):
    plugin = "tocsin_ingest_legacypush"

    def valid(self) -> Mapping[str, IngestRequest]:
        return {
            "an array": request([BYTES_IN, {**BYTES_IN, "value": "1.5"}]),
            "an object": request(BYTES_IN),
            "gzip": request(gzip.compress(orjson.dumps(BYTES_IN), mtime=0), content_encoding="gzip"),
        }

    def refused(self) -> Mapping[str, IngestRequest]:
        wrong = {"metric": 1, "timestamp": "1760000000", "tags": {"a": "b"}, "endpoint": 5}
        return {
            "nothing": request(b""),
            "noise": request(b"nonsense"),
            "deep nesting": request(b'[{"metric": "m", "value": %b}]' % DEEP),
            "numbers": request([5]),
            "not gzip": request(BYTES_IN, content_encoding="gzip"),
            **{
                f"{name} of a wrong type": request([BYTES_IN, {**BYTES_IN, name: value}])
                for name, value in wrong.items()
            },
        }

    def bomb(self) -> IngestRequest | None:
        return request(gzip.compress(b" " * (2 << 20)), content_encoding="gzip")


@pytest.fixture
def client(make_app: AppFactory) -> WsgiClient:
    return make_app(plugins=[tocsin_ingest_legacypush], start="http").client


def test_an_object_becomes_a_series() -> None:
    (series,) = decode_chunk(decode(BYTES_IN).body)
    labels = '__name__="net_if_in_bytes",iface="eth0",module="net",ident="web01"'
    assert str(series) == f"{{{labels}}} 1024@1760000000000"


@pytest.mark.parametrize(
    ("endpoint", "tags", "labels"),
    [
        ("e", "ident=i", {"ident": "i", "endpoint": "e"}),
        ("e", "ident=", {"ident": "e"}),
        ("", "ident=i", {"ident": "i"}),
        ("", "ident=", {}),
        (None, None, {}),
        ("e", "", {"ident": "e"}),
        ("", "a.b-c=d=e,nothing,,x=", {"a_b_c": "d=e", "x": ""}),
        ("", "a=1,a=2", {"a": "2"}),
    ],
)
def test_labels(endpoint: Any, tags: Any, labels: dict[str, str]) -> None:
    decoded = decode({"metric": "m", "value": 1, "endpoint": endpoint, "tags": tags})
    (series,) = decode_chunk(decoded.body or decoded.hostless)
    assert dict(series.labels) == {"__name__": "m", **labels}
    assert bool(decoded.hostless) is not bool(endpoint)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"metric": ""}, "metric is blank"),
        ({"metric": "a b"}, "invalid metric name: a b"),
        ({"tags": "a=1, b=2"}, "invalid tag name:  b"),
        ({"tags": "__name__=c"}, "invalid tag name: __name__"),
        ({"value": None}, "unparsable value null"),
        ({"value": True}, "unparsable value true"),
    ],
)
def test_objects_fail_alone(client: WsgiClient, members: dict[str, Any], message: str) -> None:
    items = [{**BYTES_IN, **members}, BYTES_IN]
    decoded = decode(items)
    assert (decoded.failed, decoded.message) == (1, message)
    answer = client.request("POST", "/legacypush/push", json=items)
    assert (answer.status, answer.json()) == (200, {"fail": 1, "msg": "received", "succ": 1})
    metrics = client.get("/metrics").text
    assert 'svc_pushgw_samples_received_total{channel="openfalcon"} 1.0' in metrics
    assert 'svc_pushgw_items_failed_total{channel="openfalcon"} 1.0' in metrics


def test_without_an_endpoint_there_is_no_host(make_app: AppFactory) -> None:
    """A tag ``ident`` is the host's identity beside an endpoint, and a label like any other without one."""
    tagged = {**BYTES_IN, "tags": "ident=db01"}
    items = [tagged, {**tagged, "endpoint": ""}, {**tagged, "endpoint": None}, {**BYTES_IN, "endpoint": "", "tags": ""}]
    app = make_app(plugins=[tocsin_ingest_legacypush], start="http")
    answer = app.client.request("POST", "/legacypush/push", json=items)
    assert answer.json() == {"fail": 0, "msg": "received", "succ": 4}
    app.core.stop("http")  # hosts are counted once a second, and at the end
    metrics = app.client.get("/metrics").text
    assert 'svc_pushgw_samples_received_total{channel="openfalcon"} 4.0' in metrics
    assert 'svc_pushgw_sample_received_by_ident{host_ident="db01"} 1.0' in metrics
    assert metrics.count("svc_pushgw_sample_received_by_ident{") == 1


def test_refusals_name_the_place(client: WsgiClient) -> None:
    answer = client.request("POST", "/legacypush/push", json=[BYTES_IN, {**BYTES_IN, "tags": ["a=b"]}])
    assert (answer.status, answer.text) == (400, '[1].tags: got ["a=b"], expected a string')


def test_over_http_as_collectors_send_it(serve_gateway: Callable[..., ServedGateway]) -> None:
    served = serve_gateway(tocsin_ingest_legacypush)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    body = gzip.compress(json.dumps([BYTES_IN]).encode())
    sent = urllib.request.Request(f"{served.url}/legacypush/push", body, headers)
    with urllib.request.urlopen(sent, timeout=PATIENCE) as answer:
        assert json.load(answer) == {"fail": 0, "msg": "received", "succ": 1}
    assert served.arrivals.samples(1) == {
        'net_if_in_bytes{ident="web01",iface="eth0",module="net"}': [(1760000000000, 1024.0)]
    }


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_makes_labels_or_fails(endpoint: str, tags: str) -> None:
    try:
        decoded = decode(json.dumps({**BYTES_IN, "endpoint": endpoint, "tags": tags}).encode())
    except DecodeError:
        pytest.fail("texts refuse no request")
    for series in decode_chunk(decoded.body + decoded.hostless):
        labels = dict(series.labels)
        assert len(labels) == len(series.labels)
        assert not endpoint or endpoint in (labels["ident"], labels.get("endpoint"))
