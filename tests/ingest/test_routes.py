"""The ingest endpoints over HTTP, with a protocol and a writer made for the test."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tocsin.app.settings import SettingsError
from tocsin.ingest.decode import decode_chunk
from tocsin.ingest.gateway import Gateway
from tocsin.plugin import (
    Decoded,
    DecodeError,
    IngestProtocol,
    IngestRoute,
    LabelSets,
    WriteError,
    WriterType,
    hookimpl,
    key,
    section,
    snappy,
    text,
)
from tocsin.plugin.testkit import WsgiClient


def decode(request):
    """Take a raw body; headers steer the rest."""
    mode = request.headers.get("x-mode", "")
    if mode == "snappy":
        return Decoded(snappy(request.body, request.max_decoded))
    if mode == "teapot":
        raise DecodeError("not that", status=415)
    failed = int(request.headers.get("x-failed", 0))
    return Decoded(request.body, failed, host_label=request.query.get("ignore_host") == "false")


def reply(request, decoded, accepted):
    return text(f"{request.path} {accepted} {decoded.failed}")


class Protocol(IngestProtocol):
    name = "test"
    sets = LabelSets()

    def label_sets(self):
        return self.sets

    def routes(self):
        return [
            IngestRoute("/test/write", reply, decode, admission=True),
            IngestRoute("/test/keyed", reply, decode, auth="api_key"),
            IngestRoute("/test/token", reply, decode, auth="api_key", key_of=lambda r: r.headers.get("x-token", "")),
            IngestRoute("/test/companion", reply, auth="none", method="GET"),
        ]


@section("")
class Options:
    url: str = key("Url", "", "where to")
    raw: bool = key("Raw", True, "takes raw bodies")


@pytest.fixture
def make(make_app, make_writer):
    """Return a function that starts an application over fake writers, and the writers by address."""
    writers = {}

    class Raw(make_writer):  # type: ignore[valid-type, misc]
        def __init__(self, url):
            super().__init__(url)
            self.raw = []
            self.fault = None

        def forward_raw(self, body, headers, query=""):
            if self.fault:
                raise self.fault
            self.raw.append((body, headers, query))

    class Kind(WriterType):
        name = "fake"
        config_key = "Fakes"
        settings = Options

        def build(self, settings, context):
            writer = (Raw if settings.raw else make_writer)(settings.url)
            writers[settings.url] = writer
            return writer

    plugin = SimpleNamespace(
        __name__="test_plugin",
        tocsin_ingest_protocols=hookimpl(lambda: [Protocol()]),
        tocsin_writers=hookimpl(lambda: [Kind()]),
    )
    for name in ("tocsin_ingest_protocols", "tocsin_writers"):
        hook = getattr(plugin, name)
        hook.__name__ = name

    def start(pushgw=None, fakes=({"Url": "http://a"},), process="pushgw", **settings):
        document = {"Pushgw": {"Fakes": list(fakes), "WriterOpt": {"BatchLinger": 0}, **(pushgw or {})}, **settings}
        app = make_app(plugins=[plugin], settings=document, process=process, start="http")
        return SimpleNamespace(app=app, client=app.client, writers=writers, gateway=app.core.get(Gateway))

    return start


@pytest.fixture
def body(make_series, make_body):
    return make_body(make_series(__name__="up", host="h"), make_series(__name__="down"))


def labels(writer):
    return [dict(series.labels) for batch in writer.batches for series in decode_chunk(batch.body)]


@pytest.mark.parametrize("process", ["center", "edge", "pushgw"])
def test_write(make, body, process):
    service = make(process=process)
    answer = service.client.request("POST", "/test/write", body=body)
    assert (answer.status, answer.text) == (200, "/test/write 2 0")
    service.writers["http://a"].wait(2)
    assert labels(service.writers["http://a"]) == [{"__name__": "up", "host": "h"}, {"__name__": "down"}]


def test_query_reaches_the_decoder(make, body):
    service = make()
    service.client.request("POST", "/test/write?ignore_host=false", body=body)
    service.writers["http://a"].wait(2)
    assert labels(service.writers["http://a"])[0] == {"__name__": "up", "ident": "h"}


@pytest.mark.parametrize(
    ("mode", "sent", "status", "message"),
    [
        ("", b"\x0a\x7f", 400, "the body ends inside a value at byte 2"),
        ("", b"\x22\x00\x2a\x00", 415, "another remote-write version"),
        ("teapot", b"", 415, "not that"),
        ("snappy", b"\xff\xff", 400, "snappy: corrupt input"),
        ("snappy", b"\x80\x80\x80\x80\x04" + b"x" * 100, 413, "snappy: 1073741824 bytes decompressed, limit 67108864"),
    ],
)
def test_bad_bodies(make, mode, sent, status, message):
    service = make()
    answer = service.client.request("POST", "/test/write", body=sent, headers={"X-Mode": mode})
    assert answer.status == status
    assert message in answer.text
    service.gateway.show()
    metrics = service.client.get("/metrics").text
    assert 'svc_pushgw_request_errors_total{channel="test"' in metrics


def test_refused_items_are_counted(make, body):
    service = make()
    assert service.client.request("POST", "/test/write", body=body, headers={"X-Failed": "3"}).text == "/test/write 2 3"
    assert 'svc_pushgw_items_failed_total{channel="test"} 3.0' in service.client.get("/metrics").text


def test_what_a_protocol_remembers_is_counted(make, monkeypatch):
    monkeypatch.setattr(Protocol, "sets", LabelSets())
    service = make()
    Protocol.sets.put("a", b"x")
    assert [Protocol.sets.get(key) for key in ("a", "a", "b")] == [b"x", b"x", None]
    service.gateway.show()
    metrics = service.client.get("/metrics").text
    for outcome, count in {"hit": 2.0, "miss": 1.0, "eviction": 0.0}.items():
        assert f'svc_pushgw_label_cache_total{{cache="protocol test",outcome="{outcome}"}} {count}' in metrics


@pytest.mark.parametrize(
    ("token", "status"), [("secret", 200), ("agent:secret", 200), ("agent:", 401), ("other:secret", 401), ("", 401)]
)
def test_a_route_says_where_its_key_is(make, body, token, status):
    service = make(HTTP={"APIForAgent": {"BasicAuth": {"agent": "secret", "other": "word"}}})
    assert service.client.request("POST", "/test/token", body=body, headers={"X-Token": token}).status == status


def test_oversized_body(make):
    service = make(HTTP={"MaxContentLength": 10})
    assert service.client.request("POST", "/test/write", body=b"x" * 11).status == 413


def test_a_body_that_ends_early(make, body):
    service = make()
    client = WsgiClient(service.client.application, environ={"CONTENT_LENGTH": str(len(body) + 1)})
    answer = client.request("POST", "/test/write", body=body)
    assert (answer.status, answer.text) == (408, f"body ended after {len(body)} of {len(body) + 1} bytes")
    assert 'request_errors_total{channel="test",reason="invalid"} 1.0' in service.client.get("/metrics").text


def test_over_the_water_mark(make, body):
    service = make({"WriterOpt": {"QueueMaxSize": 10, "QueueNumber": 1, "OverLimitStatusCode": 429}})
    service.gateway.board.put(0, 2)
    answer = service.client.request("POST", "/test/write", body=body)
    assert (answer.status, answer.text) == (429, "write queue full, metric count over limit: 2")
    assert service.client.request("POST", "/test/keyed", body=body).status == 200


def test_companion_reads_no_body(make):
    assert make().client.get("/test/companion").text == "/test/companion 0 0"


def test_basic_auth(make, body):
    service = make(HTTP={"APIForAgent": {"BasicAuth": {"agent": "pw"}}})
    assert service.client.request("POST", "/test/write", body=body).status == 401
    good = service.client.with_headers(Authorization="Basic YWdlbnQ6cHc=")
    assert good.request("POST", "/test/write", body=body).status == 200
    assert service.client.request("POST", "/proxy/v1/write", body=body).status == 401


def test_api_key(make, body):
    service = make(HTTP={"APIForAgent": {"BasicAuth": {"agent": "pw"}}})
    refused = service.client.request("POST", "/test/keyed?api_key=no", body=body)
    assert (refused.status, refused.text) == (401, "unauthorized")
    assert service.client.request("POST", "/test/keyed?api_key=pw", body=body).status == 200
    assert make().client.request("POST", "/test/keyed", body=body).status == 200


def test_ingest_can_be_switched_off(make, body):
    service = make(HTTP={"APIForAgent": {"Enable": False}})
    assert service.client.request("POST", "/test/write", body=body).status == 404


def test_stopping(make, body):
    service = make()
    service.gateway.stop(1)
    assert service.client.request("POST", "/test/write", body=body).status == 503


# --- configuration --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pushgw", "message"),
    [
        ({"Nobody": [{"Url": "x"}]}, "Pushgw.Nobody: no installed writer plugin"),
        ({"Fakes": "x"}, r"Pushgw.Fakes: got 'x', expected an array of tables"),
        ({"Fakes": [{"Url": 1}]}, r"Pushgw.Fakes\[0\].Url: got 1, expected text"),
        ({"Fakes": [{"AsyncWrite": "yes"}]}, r"Pushgw.Fakes\[0\].AsyncWrite: got 'yes'"),
        ({"Fakes": [{}, {"WriteRelabels": [{"Regex": "("}]}]}, r"Pushgw.Fakes\[1\].WriteRelabels\[0\].Regex"),
        ({"Fakes": [{"WriteRelabels": {"Regex": "x"}}]}, r"Pushgw.Fakes\[0\].WriteRelabels: got"),
    ],
)
def test_configuration_that_stops_the_start(make, pushgw, message):
    with pytest.raises(SettingsError, match=message):
        make(pushgw)


def test_unknown_keys_are_named(make, caplog):
    make({"Fakes": [{"Url": "http://a", "Nope": 1}], "Typo": 1})
    assert "Pushgw.Fakes[0].Nope is unknown" in caplog.text
    assert "Pushgw.Typo is unknown" in caplog.text


def test_one_outlet_per_address_and_async(make):
    fakes = [{"Url": "http://a"}, {"Url": "http://a", "AsyncWrite": True}, {"Url": "http://b"}]
    outlets = make(fakes=fakes).gateway.outlets
    assert [(outlet.url, outlet.options.critical) for outlet in outlets] == [("http://a", False), ("http://b", True)]


# --- pass-through ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrent", [False, True])
def test_proxy(make, concurrent):
    fakes = [{"Url": "http://a"}, {"Url": "http://b"}, {"Url": "http://c", "Raw": False}]
    service = make({"ProxyConcurrentForward": concurrent}, fakes)
    service.writers["http://a"].fault = WriteError("HTTP 500", status=500)
    answer = service.client.request("POST", "/proxy/v1/write?x=1", body=b"anything", headers={"User-Agent": "me"})
    assert (answer.status, answer.body) == (200, b"")
    [(sent, headers, query)] = service.writers["http://b"].raw
    assert (sent, headers["user-agent"], query) == (b"anything", "me", "x=1")
    metrics = service.client.get("/metrics").text
    assert 'svc_pushgw_proxy_forward_error_total{reason="status_4xx_5xx",url="http://a"} 1.0' in metrics
    assert 'svc_pushgw_proxy_forward_total{url="http://b"} 1.0' in metrics
    assert "svc_pushgw_proxy_remote_write_total 1.0" in metrics
    assert 'proxy_forward_total{url="http://c"}' not in metrics


@pytest.mark.parametrize(
    ("fault", "reason"), [(WriteError("down"), "do_request"), (ValueError("bad"), "build_request")]
)
def test_proxy_failures_by_reason(make, fault, reason):
    service = make()
    service.writers["http://a"].fault = fault
    assert service.client.request("POST", "/proxy/v1/write", body=b"x").status == 200
    assert f'reason="{reason}"' in service.client.get("/metrics").text


def test_proxy_names_every_backend_that_fails(make, caplog):
    """In the metrics without the query of its address, and each in a line of its own in the log."""
    service = make(fakes=[{"Url": "http://a/w?x=1,http://b?y"}, {"Url": "http://c"}])
    for writer in service.writers.values():
        writer.fault = WriteError("down")
    assert service.client.request("POST", "/proxy/v1/write", body=b"x").status == 200
    metrics = service.client.get("/metrics").text
    for name in ('forward_total{url="{}"}', 'forward_error_total{reason="do_request",url="{}"}'):
        for url in ("http://a/w,http://b", "http://c"):
            assert f"svc_pushgw_proxy_{name.replace('{}', url)} 1.0" in metrics
    assert [
        record.getMessage().partition(": ")[0] for record in caplog.records if "pass-through" in record.message
    ] == [
        "http://a/w?x=1,http://b?y",
        "http://c",
    ]


def test_proxy_body_limit(make):
    service = make({"ProxyMaxBodyBytes": 10})
    assert service.client.request("POST", "/proxy/v1/write", body=b"x" * 10).status == 200
    answer = service.client.request("POST", "/proxy/v1/write", body=b"x" * 11)
    assert (answer.status, answer.text) == (413, "proxy remote write body too large: > 10 bytes")
    assert "svc_pushgw_proxy_remote_write_body_too_large_total 1.0" in service.client.get("/metrics").text


def test_proxy_in_flight_limit(make):
    service = make({"ProxyInflightMax": 2, "WriterOpt": {"QueueNumber": 1}})
    service.gateway.board.put(1, 2)
    answer = service.client.request("POST", "/proxy/v1/write", body=b"x")
    assert (answer.status, answer.text) == (429, "proxy remote write inflight over limit: 2")
    service.gateway.board.put(1, 1)
    assert service.client.request("POST", "/proxy/v1/write", body=b"x").status == 200
    assert service.gateway.board.sum(1) == 1
