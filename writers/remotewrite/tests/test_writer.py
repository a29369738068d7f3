"""Remote write to one backend: its addresses, its options, its answers."""

from __future__ import annotations

import datetime
import email.utils
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.plugin import Batch, SettingsError, WriteError, Writer, WriteResult
from tocsin.plugin.testkit.components import (
    PATIENCE,
    Answer,
    Hang,
    HttpSink,
    Prometheus,
    Redirect,
    Reset,
    Trickle,
    VictoriaMetrics,
    free_port,
    wait_until,
)
from tocsin_writer_remotewrite import tocsin_writers
from tocsin_writer_remotewrite.settings import RemoteWriteSettings
from tocsin_writer_remotewrite.writer import LONGEST_WAIT, retry_after

[KIND] = tocsin_writers()
BATCH = Batch(b"\x0a\x02\x0a\x00", 1, 0)


@pytest.fixture
def writer() -> Iterator[Callable[..., Writer]]:
    """Build writers from the attributes of their settings."""
    made: list[Writer] = []

    def build(url: str, **settings: Any) -> Writer:
        made.append(KIND.build(RemoteWriteSettings(url=url, **{"timeout": int(PATIENCE * 1000), **settings}), None))  # type: ignore[arg-type]
        return made[-1]

    yield build
    for one in made:
        one.close()


def entry(labels: Mapping[str, str], value: float, at: float) -> bytes:
    """Encode one series of a write request."""
    encoded = b"".join(field(1, field(1, k.encode()) + field(2, v.encode())) for k, v in sorted(labels.items()))
    sample = b"\x09" + struct.pack("<d", value) + b"\x10" + varint(int(at * 1000))
    return field(1, encoded + field(2, sample))


def field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_a_request_is_remote_write(writer: Callable[..., Writer], http_sink: HttpSink) -> None:
    one = writer(
        f"{http_sink.url}/api/v1/write?tenant=1",
        user="u",
        password="p",
        headers=["X-Scope", "a", "Host", "example.org"],
    )
    assert one.write(BATCH) == WriteResult()
    [got] = http_sink.requests
    assert (got.method, got.path, got.query) == ("POST", "/api/v1/write", {"tenant": ["1"]})
    assert bytes(cramjam.snappy.decompress_raw(got.body)) == BATCH.body
    headers = {
        name: got.headers[name] for name in ("content-type", "content-encoding", "user-agent", "x-scope", "host")
    }
    assert headers == {
        "content-type": "application/x-protobuf",
        "content-encoding": "snappy",
        "user-agent": "svc",
        "x-scope": "a",
        "host": "example.org",
    }
    assert got.headers["x-prometheus-remote-write-version"] == "0.1.0"
    assert got.headers["authorization"] == "Basic dTpw"
    assert "transfer-encoding" not in got.headers


@given(st.binary(max_size=5000))
def test_any_body_survives_compression(body: bytes) -> None:
    with HttpSink() as sink:
        one = KIND.build(RemoteWriteSettings(url=sink.url), None)  # type: ignore[arg-type]
        one.write(Batch(body, 1, 1))
        one.close()
        assert bytes(cramjam.snappy.decompress_raw(sink.requests[0].body)) == body


@pytest.mark.parametrize("start", ["start_prometheus", "start_victoria_metrics"])
def test_real_backends_take_it(writer: Callable[..., Writer], request: pytest.FixtureRequest, start: str) -> None:
    server: Prometheus | VictoriaMetrics = request.getfixturevalue(start)()
    one = writer(f"{server.url}/api/v1/write")
    now = time.time()
    body = b"".join(entry({"__name__": "written", "n": str(n)}, float(n), now) for n in range(1000))
    assert one.write(Batch(body, 1000, 1000)) == WriteResult()
    wait_until(lambda: len(server.query("written")) == 1000, what="what was written")
    found = {item["metric"]["n"]: item["value"][1] for item in server.query("written")}
    assert found == {str(n): str(n) for n in range(1000)}
    if start == "start_prometheus":
        late = one.write(Batch(entry({"__name__": "written", "n": "1"}, 5.0, now - 7200), 1, 1))
        assert late.refused_with == 400
        assert "out of order" in late.detail or "out of bounds" in late.detail


def addresses(writer: Callable[..., Writer], *answers: Any) -> tuple[Writer, list[HttpSink]]:
    """Return a writer with one address for each answer."""
    sinks = [HttpSink(answer).start() for answer in answers]
    return writer(",".join(f"{sink.url}/w" for sink in sinks), timeout=2000), sinks


@pytest.mark.parametrize(
    ("answers", "outcome", "asked"),
    [
        ([Answer(200), Answer(200)], WriteResult(), [1, 0]),
        ([Answer(500), Answer(204)], WriteResult(), [1, 1]),
        ([Reset(), Answer(200)], WriteResult(), [1, 1]),
        ([Hang(), Answer(200)], WriteResult(), [1, 1]),
        ([Answer(404, b"a"), Answer(200)], WriteResult(), [1, 1]),
        ([Answer(404, b"a"), Answer(400, b"b")], WriteResult(400, "HTTP 400: b"), [1, 1]),
        ([Answer(404), Answer(404)], WriteResult(404, "HTTP 404"), [1, 1]),
        ([Redirect("http://127.0.0.1:9/"), Answer(204)], WriteResult(307, "HTTP 307"), [1, 0]),
        ([Answer(500), Answer(304)], WriteResult(304, "HTTP 304"), [1, 1]),
        ([Answer(500), Answer(404)], 500, [1, 1]),
        ([Answer(404), Answer(503)], 503, [1, 1]),
        ([Answer(500), Answer(502)], 502, [1, 1]),
        ([Answer(404), Reset()], 0, [1, 1]),
        ([Answer(429), Answer(429)], WriteResult(429, "HTTP 429"), [1, 1]),
        ([Answer(429, headers={"Retry-After": "3"}), Answer(404)], 429, [1, 1]),
    ],
)
def test_addresses_are_tried_in_order_until_one_takes_the_batch(
    writer: Callable[..., Writer], answers: list[Any], outcome: WriteResult | int, asked: list[int]
) -> None:
    one, sinks = addresses(writer, *answers)
    try:
        if isinstance(outcome, WriteResult):
            assert one.write(BATCH) == outcome
        else:
            with pytest.raises(WriteError) as caught:
                one.write(BATCH)
            assert caught.value.status == outcome
        assert [len(sink.requests) for sink in sinks] == asked
    finally:
        for sink in sinks:
            sink.stop()


@pytest.mark.parametrize("behaviour", [Reset(after=5, status=200), Trickle(b"x" * 1000, interval=0.02, status=200)])
def test_the_status_decides_whatever_becomes_of_the_body(
    writer: Callable[..., Writer], http_sink: HttpSink, behaviour: Any
) -> None:
    http_sink.then(behaviour)
    one = writer(http_sink.url, timeout=1000)
    assert one.write(BATCH) == WriteResult()
    assert one.write(BATCH) == WriteResult()


def test_a_body_that_breaks_off_does_not_hide_a_refusal(writer: Callable[..., Writer], http_sink: HttpSink) -> None:
    http_sink.then(Reset(after=5, status=400))
    result = writer(http_sink.url).write(BATCH)
    assert result.refused_with == 400
    assert "broke off" in result.detail


def test_one_connection_is_kept(writer: Callable[..., Writer], http_sink: HttpSink) -> None:
    http_sink.default = Answer(200, b"some body")
    one = writer(http_sink.url)
    for _ in range(10):
        one.write(BATCH)
    assert http_sink.connections == 1


def test_only_so_many_requests_at_once(writer: Callable[..., Writer], http_sink: HttpSink) -> None:
    one = writer(http_sink.url, max_connections=1, timeout=1000)
    http_sink.default = Hang()
    with pytest.raises(WriteError, match="no answer within"):
        one.write(BATCH)
    http_sink.default = Answer()
    assert one.write(BATCH) == WriteResult()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), (" 0 ", 0.0), ("", None), ("soon", None), ("-1", None), ("1.5", None), ("999999", LONGEST_WAIT)],
)
def test_retry_after_in_seconds(value: str, seconds: float | None) -> None:
    assert retry_after(value, 0.0) == seconds


def test_retry_after_as_a_date() -> None:
    at = datetime.datetime(2026, 5, 5, 12, 0, tzinfo=datetime.UTC)
    header = email.utils.format_datetime(at, usegmt=True)
    assert retry_after(header, at.timestamp() - 30) == 30.0
    assert retry_after(header, at.timestamp() + 30) == 0.0
    assert retry_after(header, at.timestamp() - 1e6) == LONGEST_WAIT


def test_raw_bodies_are_passed_on_with_what_describes_them(writer: Callable[..., Writer], http_sink: HttpSink) -> None:
    one = writer(f"{http_sink.url}/w?a=1", user="u", password="p", headers=["X-Scope", "t"])
    caller = {"user-agent": "vmagent", "authorization": "Bearer theirs", "x-custom": "1"}
    one.forward_raw(b"raw", caller, "b=2")
    one.forward_raw(b"raw", {"content-type": "a/b", "x-prometheus-remote-write-version": "2.0.0"})
    first, second = http_sink.requests
    assert first.body == b"raw"
    assert first.query == {"a": ["1"], "b": ["2"]}
    assert (first.headers["user-agent"], first.headers["content-type"]) == ("vmagent-svc", "application/x-protobuf")
    assert (first.headers["content-encoding"], first.headers["authorization"]) == ("snappy", "Basic dTpw")
    assert "x-custom" not in first.headers
    assert (second.headers["user-agent"], second.headers["content-type"]) == ("svc", "a/b")
    assert second.headers["x-prometheus-remote-write-version"] == "2.0.0"


def test_failures_of_raw_bodies_say_whether_there_was_an_answer(writer: Callable[..., Writer]) -> None:
    with pytest.raises(WriteError) as caught:
        writer(f"http://127.0.0.1:{free_port()}").forward_raw(b"", {})
    assert caught.value.status == 0


def test_the_label_of_the_backend_is_its_url_without_secrets(writer: Callable[..., Writer]) -> None:
    one = writer("http://u:hidden9@h1/w,http://h2/w", user="a", password="hidden8")
    assert one.url == "http://***:***@h1/w,http://h2/w"


def build(**settings: Any) -> Writer:
    return KIND.build(RemoteWriteSettings(**{"url": "http://127.0.0.1:9", **settings}), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": ""}, "Pushgw.Writers: Url is empty"),
        ({"url": " , "}, "Pushgw.Writers: Url is empty"),
        ({"url": "h:9090/write"}, "Pushgw.Writers: Url must start with http or https"),
        ({"url": "http://ok,gopher://x"}, "Pushgw.Writers: Url must start with http or https"),
        ({"url": "http://h:port"}, "Pushgw.Writers: Url: Port could not be cast"),
        ({"headers": ["X Y", "1"]}, "Pushgw.Writers: Headers: 'X Y' is not a header name"),
        ({"headers": ["X", "hidden\n"]}, "Pushgw.Writers: Headers: the value of X cannot be sent"),
        ({"use_tls": True, "tls_ca": "/nowhere/ca.pem"}, "TLSCA: file '/nowhere/ca.pem' cannot be read: No such file"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        build(**settings)
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_tls_files_are_read_only_where_tls_is_used(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nonsense")
    build(tls_ca=str(tmp_path / "ca.pem")).close()
    with pytest.raises(SettingsError, match="TLSCA: expected certificates in PEM"):
        build(use_tls=True, tls_ca=str(tmp_path / "ca.pem"))
    with pytest.raises(SettingsError, match="TLSCert, TLSKey: expected"):
        build(use_tls=True, tls_cert=str(tmp_path / "ca.pem"), tls_key=str(tmp_path / "ca.pem"))
