"""OTLP metrics: what becomes of each kind, the SDK's exporter, and what arrives behind it."""

import gzip
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

import tocsin_ingest_otlp
from tocsin.plugin import Decoded, DecodeError, IngestRequest, decode_chunk
from tocsin.plugin.testkit import AppFactory
from tocsin.plugin.testkit.arrivals import ServedGateway, written
from tocsin.plugin.testkit.ingest import IngestContract
from tocsin_ingest_otlp.names import label_name, metric_name

PROTOBUF, JSON = "application/x-protobuf", "application/json"
PATH = "/otlp/v1/metrics"
NOW = 1_770_000_000.25
AT = 1_760_000_000_123


def request(body: bytes, kind: str = PROTOBUF, **headers: str) -> IngestRequest:
    named = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return IngestRequest(PATH, named, {}, body, "127.0.0.1", 1 << 20)


def attributes(**values: Any) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}
    return [{"key": name.replace("__", "."), "value": {kinds[type(value)]: value}} for name, value in values.items()]


def point(_at: int = AT * 1_000_000, _given: Mapping[str, Any] | None = None, **labels: Any) -> dict[str, Any]:
    return {
        "timeUnixNano": str(_at),
        "attributes": attributes(**labels),
        **({"asDouble": 1.5} if _given is None else _given),
    }


def document(*metrics: Mapping[str, Any], resource: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    scopes = [{"scope": {"name": "s"}, "metrics": list(metrics)}]
    return {"resourceMetrics": [{"resource": {"attributes": resource or []}, "scopeMetrics": scopes}]}


def protobuf(body: dict[str, Any]) -> bytes:
    """Encode by the messages that the project publishes, not by ours."""
    return bytes(json_format.ParseDict(body, ExportMetricsServiceRequest()).SerializeToString())


def decode(body: dict[str, Any], kind: str = PROTOBUF) -> Decoded:
    data = protobuf(body) if kind == PROTOBUF else orjson.dumps(body)
    return tocsin_ingest_otlp.Otlp(clock=lambda: NOW).decode(request(data, kind))


def samples(
    *metrics: Mapping[str, Any], resource: list[dict[str, Any]] | None = None
) -> dict[str, list[tuple[int, float]]]:
    body = document(*metrics, resource=resource)
    found = {
        kind: {written(series): series.samples for series in decode_chunk(decode(body, kind).body)}
        for kind in (PROTOBUF, JSON)
    }
    assert found[PROTOBUF] == found[JSON]
    return found[PROTOBUF]


GAUGE = {"name": "system.temperature", "unit": "Cel", "gauge": {"dataPoints": [point(room="kitchen")]}}
BUCKETS = {
    "name": "http.server.duration",
    "unit": "ms",
    "histogram": {
        "aggregationTemporality": 2,
        "dataPoints": [
            point(
                _given={"count": "6", "sum": 12.5, "bucketCounts": ["1", "2", "3"], "explicitBounds": [0.5, 10]},
                path="/",
            )
        ],
    },
}


def total(temporality: int = 2, monotonic: bool = True, **members: Any) -> dict[str, Any]:
    data = {
        "aggregationTemporality": temporality,
        "isMonotonic": monotonic,
        "dataPoints": [point(_given={"asInt": "7"})],
    }
    return {"name": "requests", "sum": data, **members}


class TestContract(IngestContract):
    plugin = "tocsin_ingest_otlp"

    def valid(self) -> Mapping[str, IngestRequest]:
        body = protobuf(document(GAUGE, BUCKETS, total(), resource=attributes(service__name="shop", os="linux")))
        return {
            "protobuf": request(body),
            "gzip": request(gzip.compress(body, mtime=0), content_encoding="gzip"),
            "deflate": request(zlib.compress(body), content_encoding="deflate"),
            "json": request(orjson.dumps(document(GAUGE)), JSON),
        }

    def refused(self) -> Mapping[str, IngestRequest]:
        bad_attribute = b"\x0a\x08\x12\x06\x12\x04\x0a\x00\x2a\x00"
        return {
            "noise": request(b"\xff\xff\xff"),
            "no json": request(b"nonsense", JSON),
            "an array": request(b"[]", JSON),
            "json of another shape": request(b'{"resourceMetrics": 5}', JSON),
            "nothing as json": request(b"", JSON),
            "another content type": request(b"", "text/plain"),
            "another encoding": request(b"", content_encoding="br"),
            "not gzip": request(b"x", content_encoding="gzip"),
            "an attribute that is none": request(b"\x0a\x05\x0a\x03\x0a\x01\xff" + bad_attribute),
        }

    def bomb(self) -> IngestRequest | None:
        return request(gzip.compress(b"\0" * (2 << 20)), content_encoding="gzip")


def test_a_gauge_is_a_series() -> None:
    assert samples(GAUGE) == {'system_temperature_celsius{room="kitchen"}': [(AT, 1.5)]}


def test_sums() -> None:
    assert samples(total()) == {"requests_total{}": [(AT, 7.0)]}
    assert samples(total(monotonic=False)) == {"requests{}": [(AT, 7.0)]}


def test_histograms_become_cumulative_buckets() -> None:
    name = "http_server_duration_milliseconds"
    assert samples(BUCKETS) == {
        f'{name}_bucket{{le="0.5",path="/"}}': [(AT, 1.0)],
        f'{name}_bucket{{le="10",path="/"}}': [(AT, 3.0)],
        f'{name}_bucket{{le="+Inf",path="/"}}': [(AT, 6.0)],
        f'{name}_sum{{path="/"}}': [(AT, 12.5)],
        f'{name}_count{{path="/"}}': [(AT, 6.0)],
    }


def test_histograms_need_neither_sum_nor_buckets() -> None:
    metric = {"name": "h", "histogram": {"aggregationTemporality": 2, "dataPoints": [point(_given={"count": "6"})]}}
    assert samples(metric) == {'h_bucket{le="+Inf"}': [(AT, 6.0)], "h_count{}": [(AT, 6.0)]}


def test_summaries() -> None:
    values = [{"quantile": 0.5, "value": 3.0}, {"quantile": 1, "value": 9.0}]
    data = point(_given={"count": "2", "sum": 12.0, "quantileValues": values})
    assert samples({"name": "s", "summary": {"dataPoints": [data]}}) == {
        's{quantile="0.5"}': [(AT, 3.0)],
        's{quantile="1"}': [(AT, 9.0)],
        "s_sum{}": [(AT, 12.0)],
        "s_count{}": [(AT, 2.0)],
    }


def test_points_of_one_series_stay_together_and_without_time_it_is_now() -> None:
    points = [point(), point(_at=AT * 1_000_000 + 5_000_000), point(_at=0)]
    assert samples({"name": "m", "gauge": {"dataPoints": points}}) == {
        "m{}": [(AT, 1.5), (AT + 5, 1.5), (int(NOW * 1000), 1.5)]
    }


def test_resources_name_job_instance_and_host() -> None:
    resource = attributes(
        service__name="shop", service__namespace="eu", service__instance__id="i-1", host__name="web01", os__type="linux"
    )
    labels = 'ident="web01",instance="i-1",job="eu/shop"'
    assert samples(GAUGE, resource=resource) == {
        f'system_temperature_celsius{{{labels},room="kitchen"}}': [(AT, 1.5)],
        f'target_info{{host_name="web01",{labels},os_type="linux"}}': [(AT, 1.0)],
    }
    assert list(samples(GAUGE, resource=attributes(os__type="linux"))) == ['system_temperature_celsius{room="kitchen"}']


def test_attributes_of_every_type() -> None:
    extra = [
        {"key": "list", "value": {"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "a"}]}}},
        {"key": "map", "value": {"kvlistValue": {"values": attributes(x=1)}}},
        {"key": "bytes", "value": {"bytesValue": "AAE="}},
        {"key": "nothing", "value": {}},
        {"key": "", "value": {"stringValue": "nameless"}},
    ]
    metric = {"name": "m", "gauge": {"dataPoints": [point(s="t", b=True, i=-5, d=0.5)]}}
    metric["gauge"]["dataPoints"][0]["attributes"] += extra  # type: ignore[index]
    (series,) = decode_chunk(decode(document(metric)).body)
    assert dict(series.labels) == {
        "__name__": "m", "s": "t", "b": "true", "i": "-5", "d": "0.5", "list": '[1,"a"]', "map": '{"x":1}', "bytes": "AAE=",
    }  # fmt: skip


def test_attributes_whose_names_become_equal_are_joined() -> None:
    metric = {"name": "m", "gauge": {"dataPoints": [point(a_b="2", a__b="1", __name__="no", job="own")]}}
    (series,) = decode_chunk(decode(document(metric, resource=attributes(service__name="shop"))).body)
    assert dict(series.labels) == {"__name__": "m", "a_b": "1;2", "job": "shop", "_name_": "no"}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (total(temporality=1), "metric requests: got temporality 1, expected 2 (cumulative)"),
        (total(temporality=0), "metric requests: got temporality 0, expected 2 (cumulative)"),
        (total(name="..."), "a metric has no name"),
        ({"name": "m", "gauge": {"dataPoints": [point(_given={})]}}, "metric m: a point has no value"),
        (
            {"name": "m", "exponentialHistogram": {"aggregationTemporality": 2, "dataPoints": [{"count": "1"}]}},
            "metric m: exponential histograms are not supported, use explicit buckets",
        ),
        (
            {
                "name": "m",
                "histogram": {
                    "aggregationTemporality": 2,
                    "dataPoints": [point(_given={"count": "1", "bucketCounts": ["1"], "explicitBounds": [1, 2]})],
                },
            },
            "metric m: 1 buckets, expected one more than 2 bounds",
        ),
    ],
)
def test_what_cannot_be_a_series_is_rejected_alone(metric: dict[str, Any], message: str) -> None:
    for kind in (PROTOBUF, JSON):
        decoded = decode(document(metric, GAUGE), kind)
        assert (decoded.failed, decoded.message) == (1, message)
        assert len(list(decode_chunk(decoded.body))) == 1


def test_a_point_without_value_any_more_ends_its_series() -> None:
    gone = {"flags": 1}
    histogram = {"aggregationTemporality": 2, "dataPoints": [point(_given=gone)]}
    body = document({"name": "g", "gauge": {"dataPoints": [point(_given=gone)]}}, {"name": "h", "histogram": histogram})
    found = list(decode_chunk(decode(body).body))
    assert len(found) == 3
    for series in found:
        assert struct.pack("<d", series.samples[0][1]).hex() == "020000000000f07f"


def test_not_a_number_and_infinities_are_carried() -> None:
    points = [point(_given={"asDouble": text}, n=text) for text in ("NaN", "Infinity", "-Infinity")]
    found = samples({"name": "m", "gauge": {"dataPoints": points[1:]}})
    assert [value[0][1] for value in found.values()] == [math.inf, -math.inf]
    (series,) = decode_chunk(decode(document({"name": "m", "gauge": {"dataPoints": points[:1]}}), JSON).body)
    assert math.isnan(series.samples[0][1])


def test_metadata_says_what_metrics_are() -> None:
    decoded = decode(document({**total(), "description": "Requests.", "unit": "{request}"}, GAUGE, BUCKETS))
    assert decoded.metadata[0] == b"\x08\x01\x12\x0erequests_total\x22\x09Requests.\x2a\x09{request}"
    assert len(decoded.metadata) == 3


def test_label_sets_are_encoded_once() -> None:
    protocol = tocsin_ingest_otlp.Otlp()
    for host in ("a", "a", "b"):
        protocol.decode(request(protobuf(document(GAUGE, BUCKETS, resource=attributes(host__name=host)))))
    assert protocol.label_sets().stats()[:2] == (6, 12)


@pytest.mark.parametrize(
    ("name", "unit", "kind", "expected"),
    [
        ("http.server.duration", "s", "other", "http_server_duration_seconds"),
        ("process.cpu.seconds", "s", "counter", "process_cpu_seconds_total"),
        ("total.requests", "1", "counter", "requests_total"),
        ("cpu.utilization", "1", "gauge", "cpu_utilization_ratio"),
        ("disk.io", "By/s", "gauge", "disk_io_bytes_per_second"),
        ("queue", "{item}", "gauge", "queue"),
        ("rate", "{item}/min", "gauge", "rate_per_minute"),
        ("a__b--c", "", "gauge", "a_b_c"),
        ("2xx", "", "gauge", "_2xx"),
        ("load", "%", "gauge", "load_percent"),
        ("x", "furlong", "gauge", "x_furlong"),
        ("ns:x", "", "gauge", "ns:x"),
        ("größe", "", "gauge", "gr_e"),
        ("..", "s", "gauge", ""),
    ],
)
def test_names_of_metrics(name: str, unit: str, kind: str, expected: str) -> None:
    assert metric_name(name, unit, kind) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("a.b", "a_b"), ("1a", "key_1a"), ("", ""), ("_x", "_x"), ("a:b", "a_b")]
)
def test_names_of_labels(name: str, expected: str) -> None:
    assert label_name(name) == expected


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_answers(make_app: AppFactory, kind: str) -> None:
    client = make_app(plugins=[tocsin_ingest_otlp], start="http").client

    def send(body: dict[str, Any]) -> Any:
        data = protobuf(body) if kind == PROTOBUF else orjson.dumps(body)
        answer = client.request("POST", PATH, body=data, headers={"Content-Type": kind})
        assert (answer.status, answer.headers["content-type"]) == (200, kind)
        message = ExportMetricsServiceResponse()
        return message.FromString(answer.body) if kind == PROTOBUF else json_format.Parse(answer.body, message)

    assert not send(document(GAUGE)).HasField("partial_success")
    partial = send(document(total(temporality=1), GAUGE)).partial_success
    assert partial.rejected_data_points == 1
    assert "temporality" in partial.error_message
    assert 'svc_pushgw_items_failed_total{channel="otlp"} 1.0' in client.get("/metrics").text


@pytest.fixture
def served(serve_gateway: Callable[..., ServedGateway]) -> ServedGateway:
    return serve_gateway(tocsin_ingest_otlp)


@pytest.fixture(params=list(Compression), ids=lambda each: each.value)
def provider(served: ServedGateway, request: pytest.FixtureRequest) -> Iterator[MeterProvider]:
    exporter = OTLPMetricExporter(served.url + PATH, compression=request.param, timeout=60)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)
    resource = Resource({"service.name": "shop", "service.instance.id": "1", "host.name": "web01"})
    provider = MeterProvider([reader], resource)
    yield provider
    provider.shutdown()


def test_with_the_exporter_of_the_sdk(served: ServedGateway, provider: MeterProvider) -> None:
    meter = provider.get_meter("test")
    meter.create_counter("orders", "1", "Orders taken.").add(3, {"kind": "book"})
    meter.create_up_down_counter("stock").add(-2)
    meter.create_gauge("room.temperature", "Cel").set(21.5)
    meter.create_histogram("wait", "s", explicit_bucket_boundaries_advisory=[1.0, 5.0]).record(2.0)
    assert provider.force_flush()
    common = 'ident="web01",instance="1",job="shop"'
    found = {name: values[0][1] for name, values in served.arrivals.samples(9).items()}
    assert found == {
        f'orders_total{{{common},kind="book"}}': 3.0,
        f"stock{{{common}}}": -2.0,
        f"room_temperature_celsius{{{common}}}": 21.5,
        f'wait_seconds_bucket{{{common},le="1"}}': 0.0,
        f'wait_seconds_bucket{{{common},le="5"}}': 1.0,
        f'wait_seconds_bucket{{{common},le="+Inf"}}': 1.0,
        f"wait_seconds_sum{{{common}}}": 2.0,
        f"wait_seconds_count{{{common}}}": 1.0,
        f'target_info{{host_name="web01",{common}}}': 1.0,
    }


def test_deltas_of_the_sdk_are_rejected(served: ServedGateway) -> None:
    from opentelemetry.sdk.metrics import Counter

    exporter = OTLPMetricExporter(served.url + PATH, preferred_temporality={Counter: AggregationTemporality.DELTA})
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)], Resource({}))
    provider.get_meter("test").create_counter("orders").add(3)
    assert provider.force_flush()
    provider.shutdown()
    assert 'svc_pushgw_items_failed_total{channel="otlp"}' in served.app.client.get("/metrics").text
    assert served.arrivals.series == []


MEMBERS = [
    "resourceMetrics",
    "resource",
    "scopeMetrics",
    "metrics",
    "name",
    "gauge",
    "dataPoints",
    "attributes",
    "value",
]
PLAIN = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e300, 1e300) | st.text(max_size=5)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(
    st.binary(max_size=100) | VALUES | st.builds(lambda value: {"resourceMetrics": [{"scopeMetrics": [value]}]}, VALUES)
)
def test_any_body_is_decoded_or_refused(body: Any) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode(errors="replace")
    for kind in (PROTOBUF, JSON):
        try:
            decoded = tocsin_ingest_otlp.Otlp().decode(request(data, kind))
        except DecodeError:
            continue
        list(decode_chunk(decoded.body))


@given(st.data())
def test_flipped_bits_are_decoded_or_refused(data: st.DataObject) -> None:
    body = bytearray(protobuf(document(GAUGE, BUCKETS, total(), resource=attributes(service__name="shop"))))
    for place in data.draw(st.lists(st.integers(0, len(body) * 8 - 1), min_size=1, max_size=4)):
        body[place // 8] ^= 1 << place % 8
    try:
        decoded = tocsin_ingest_otlp.Otlp().decode(request(bytes(body)))
    except DecodeError:
        return
    list(decode_chunk(decoded.body))
