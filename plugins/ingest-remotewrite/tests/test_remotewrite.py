"""Remote write into a gateway that keeps what it gets in its queues."""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin_ingest_remotewrite
from tocsin.plugin import DecodeError, IngestRequest, TooLargeError, decode_chunk, encode_labels, encode_series
from tocsin.plugin.testkit import AppFactory, WsgiClient
from tocsin.plugin.testkit.ingest import IngestContract


def series(name: bytes, *samples: tuple[int, float]) -> bytes:
    labels = encode_labels([(b"__name__", name), (b"job", b"test")])
    return bytes(encode_series(labels, [t for t, _ in samples], [v for _, v in samples]))


def compressed(body: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(body))


def zstandard(body: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(body, 1))


def request(body: bytes, *, query: dict[str, str] | None = None, limit: int = 1 << 20, **headers: str) -> IngestRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return IngestRequest("/rw/v1/write", named, query or {}, body, "127.0.0.1", limit)


VERSION_2 = {"Content-Type": 'application/x-protobuf; Proto="io.prometheus.write.v2.Request"'}


class TestContract(IngestContract):
    plugin = "tocsin_ingest_remotewrite"

    def valid(self) -> Mapping[str, IngestRequest]:
        return {
            "two series": request(compressed(series(b"up", (1000, 1.0)) + series(b"down", (1000, 2.0), (2000, 3.0))))
        }

    def refused(self) -> Mapping[str, IngestRequest]:
        return {"noise": request(b"not snappy"), "no protobuf": request(compressed(b"\xff\xff\xff"))}

    def bomb(self) -> IngestRequest | None:
        return request(compressed(b"\0" * (2 << 20)))


@pytest.fixture
def client(make_app: AppFactory) -> WsgiClient:
    return make_app(plugins=[tocsin_ingest_remotewrite], start="http").client


def test_samples_are_accepted_and_counted(client: WsgiClient) -> None:
    body = compressed(series(b"up", (1000, 1.0)) + series(b"down", (1000, 2.0), (2000, 3.0)))
    answer = client.request("POST", "/rw/v1/write", body=body, headers={"Content-Encoding": "snappy"})
    assert (answer.status, answer.body) == (200, b"")
    metrics = client.get("/metrics").text
    assert 'svc_pushgw_samples_received_total{channel="prometheus"} 2.0' in metrics


def test_metrics_have_their_names_labels_and_types(make_app: AppFactory) -> None:
    app = make_app(plugins=[tocsin_ingest_remotewrite], start="http")
    client = app.client
    labels = encode_labels([(b"__name__", b"up"), (b"ident", b"web01")])
    client.request("POST", "/rw/v1/write", body=compressed(bytes(encode_series(labels, [1000], [1.0]))))
    app.core.stop("http")  # hosts are counted once a second, and at the end
    lines = client.get("/metrics").text.splitlines()
    assert "# TYPE svc_pushgw_sample_received_by_ident counter" in lines
    assert 'svc_pushgw_sample_received_by_ident{host_ident="web01"} 1.0' in lines
    (count,) = [line for line in lines if line.startswith("svc_pushgw_http_request_duration_seconds_count{")]
    assert count.endswith('{code="200",method="POST",path="/rw/v1/write",service="pushgw"} 1.0')
    bounds = re.findall(r'svc_pushgw_http_request_duration_seconds_bucket{.*le="(.*?)"', "\n".join(lines))
    assert bounds == ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf"]
    other = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}).text
    assert "# TYPE svc_pushgw_sample_received_by_ident gauge" in other  # there, a counter needs the suffix


@pytest.mark.parametrize(
    ("body", "headers", "query", "status"),
    [
        (b"not snappy", {}, "", 400),
        (compressed(series(b"up", (1, 1.0))[:-1]), {}, "", 400),
        (zstandard(series(b"up", (1, 1.0)))[:-1], {"Content-Encoding": "zstd"}, "", 400),
        (b"", {}, "", 400),
        (compressed(b""), {"Content-Type": "application/x-protobuf;proto=io.example.Other"}, "", 415),
        (compressed(b""), {"Content-Encoding": "br"}, "", 415),
        (compressed(b""), {}, "?ignore_host=maybe", 400),
        (compressed(series(b"up", (1, 1.0))), VERSION_2, "", 415),
        (
            compressed(b'"\x00' + b'"\xe8\x07' + b"x" * 1000 + (b"*\xcb\x01\x0a\xc8\x01" + b"\x01\x01" * 100) * 900),
            VERSION_2,
            "",
            413,
        ),
    ],
)
def test_what_is_not_remote_write_is_refused(
    client: WsgiClient, body: bytes, headers: dict[str, str], query: str, status: int
) -> None:
    answer = client.request("POST", "/rw/v1/write" + query, body=body, headers=headers)
    assert answer.status == status
    assert answer.text


def test_version_two_is_told_by_its_content_type() -> None:
    v2 = b'"\x00"\x08__name__"\x02up' + b"*\x0f" + b"\x0a\x02\x01\x02" + b"\x12\x09\x09\0\0\0\0\0\0\xf0?"
    kind = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
    decoded = tocsin_ingest_remotewrite.decode(request(compressed(v2), content_type=kind))
    assert b"__name__" in decoded.body
    assert b"up" in decoded.body


def test_version_two_is_told_what_was_taken(client: WsgiClient) -> None:
    symbols = b'"\x00' + b'"\x08__name__' + b'"\x02up' + b'"\x04down'
    sample, histogram, exemplar = b"\x12\x02\x10\x01", b"\x1a\x02\x08\x01", b"\x22\x00"

    def of(name: int, rest: bytes) -> bytes:
        message = b"\x0a\x02\x01" + bytes([name]) + rest
        return b"*" + bytes([len(message)]) + message

    body = symbols + of(2, sample * 3 + exemplar * 2) + of(3, sample + histogram)
    kind = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
    answer = client.request("POST", "/rw/v1/write", body=compressed(body), headers={"Content-Type": kind})
    assert (answer.status, answer.body) == (200, b"")
    written = {name: value for name, value in answer.headers.items() if name.endswith("-written")}
    assert written == {
        "x-prometheus-remote-write-samples-written": "4",
        "x-prometheus-remote-write-exemplars-written": "2",
        "x-prometheus-remote-write-histograms-written": "1",
    }


def test_samples_of_version_two_may_say_since_when_they_count() -> None:
    """The last draft moved the start from the series to its samples and histograms; both are read."""
    symbols = b'"\x00' + b'"\x08__name__' + b'"\x02up' + b'"\x04hist'
    sample = b"\x12\x0d" + b"\x09" + struct.pack("<d", 1.5) + b"\x10\x05" + b"\x18\x07"
    histogram = b"\x1a\x07" + b"\x08\x03" + b"\x78\x05" + b"\x88\x01\x09"

    def of(name: int, rest: bytes) -> bytes:
        message = b"\x0a\x02\x01" + bytes([name]) + rest
        return b"*" + bytes([len(message)]) + message

    body = symbols + of(2, sample) + of(2, sample + b"\x30\x09") + of(3, histogram)
    kind = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
    decoded = tocsin_ingest_remotewrite.decode(request(compressed(body), content_type=kind))
    assert [str(series) for series in decode_chunk(decoded.body)] == [
        '{__name__="up"} 1.5@5',
        '{__name__="up"} 1.5@5',
        '{__name__="hist"}',
    ]
    assert list(decoded.notes.values()) == ["2", "0", "1"]


def test_version_one_is_answered_as_ever(client: WsgiClient) -> None:
    answer = client.request("POST", "/rw/v1/write", body=compressed(series(b"up", (1000, 1.0))))
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("x-prometheus")]


@pytest.mark.parametrize("named", ["snappy", "zstd"])
@pytest.mark.parametrize("compress", [compressed, zstandard])
def test_zstd_of_vmagent_is_taken_whatever_the_header_says(
    client: WsgiClient, compress: Callable[[bytes], bytes], named: str
) -> None:
    """Blocks that it queued before it changed its encoding come under the name of the new one."""
    body = compress(series(b"up", (1000, 1.0)) + series(b"down", (1000, 2.0)))
    answer = client.request("POST", "/rw/v1/write", body=body, headers={"Content-Encoding": named})
    assert (answer.status, answer.body) == (200, b"")
    assert 'svc_pushgw_samples_received_total{channel="prometheus"} 2.0' in client.get("/metrics").text


def test_a_zstd_bomb_is_refused() -> None:
    with pytest.raises(TooLargeError):
        tocsin_ingest_remotewrite.decode(request(zstandard(b"\0" * (2 << 20)), content_encoding="zstd"))


def test_a_vmagent_that_asks_for_zstd_is_told_yes(client: WsgiClient) -> None:
    asked = client.request("POST", "/rw/v1/write?get_vm_proto_version=1", headers={"Content-Encoding": "snappy"})
    assert (asked.status, asked.body) == (200, b"1")
    body = compressed(series(b"up", (1000, 1.0)))
    answer = client.request("POST", "/rw/v1/write?get_vm_proto_version=1", body=body)
    assert (answer.status, answer.body) == (200, b"")
    assert 'svc_pushgw_samples_received_total{channel="prometheus"} 1.0' in client.get("/metrics").text


@pytest.mark.parametrize(
    ("query", "host_label", "register"),
    [({}, False, True), ({"ignore_host": "false"}, True, True), ({"ignore_ident": "1"}, False, False)],
)
def test_options_come_from_the_query(query: dict[str, str], host_label: bool, register: bool) -> None:
    decoded = tocsin_ingest_remotewrite.decode(request(compressed(b""), query=query))
    assert (decoded.host_label, decoded.register_hosts) == (host_label, register)


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    for sent in (body, compressed(body), zstandard(body)):
        for kind in ("", "application/x-protobuf;proto=io.prometheus.write.v2.Request"):
            try:
                result: Any = tocsin_ingest_remotewrite.decode(request(sent, content_type=kind))
            except (DecodeError, ValueError):
                continue
            assert isinstance(result.body, bytes)
