"""The HTTP skeleton: health endpoints, envelope, request ids, errors, aliases, limits."""

import gzip
import io
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from marshmallow import Schema, fields

from tocsin.app.core import Core
from tocsin.http.context import NULL
from tocsin.http.routes import RouteClash, RouteTable
from tocsin.plugin import (
    ANONYMOUS,
    LOCAL,
    SERVICE,
    Body,
    Context,
    Feature,
    Raw,
    Route,
    conflict,
    hookimpl,
    page,
    root,
    service,
)
from tocsin.plugin.testkit import AppFactory, WsgiClient, dat, err
from tocsin.plugin.testkit.components import PATIENCE


class ThingSchema(Schema):
    name = fields.String(required=True)
    size = fields.Integer(strict=True)


def echo(context: Context) -> Any:
    return context.body


def crash(context: Context) -> Any:
    raise RuntimeError("SELECT secret FROM somewhere")


def refuse(context: Context) -> Any:
    raise conflict("name: 'x' is taken")


def arguments(context: Context) -> Any:
    return {
        "id": context.param_int("id"),
        "flag": context.query_bool("flag"),
        "ids": context.query_ids("ids"),
        "page": context.page(),
        "word": context.query_required("word"),
    }


class Things(Feature):
    name = "things"

    def routes(self, core: Core) -> Iterable[Route]:
        yield page.post("/thing", echo, ANONYMOUS, body=Body(ThingSchema))
        yield page.post("/things", echo, ANONYMOUS, body=Body(ThingSchema, many=True, name="models.Thing"))
        yield page.post("/small", echo, ANONYMOUS, body=Body(), max_body=100)
        yield page.get("/crash", crash, ANONYMOUS)
        yield page.get("/refuse", refuse, ANONYMOUS)
        yield page.get("/nothing", lambda context: None, ANONYMOUS)
        yield page.get("/null", lambda context: NULL, ANONYMOUS)
        yield page.get("/large", lambda context: ["x" * 100] * 100, ANONYMOUS)
        yield page.get("/thing/:id/arguments", arguments, ANONYMOUS)
        yield page.get("/thing/fixed/arguments", lambda context: "fixed", ANONYMOUS)
        yield root.get("/raw/*rest", lambda context: Raw(context.params["rest"].encode(), "text/plain"), ANONYMOUS)
        yield root.get("/rootcrash", crash, ANONYMOUS)
        yield root.get("/local", lambda context: Raw(b"here"), LOCAL)
        yield service.get("/whoami", lambda context: context.operator, SERVICE)


class ThingsPlugin:
    @staticmethod
    @hookimpl
    def tocsin_features() -> list[Feature]:
        return [Things()]


@pytest.fixture
def client(make_app: AppFactory) -> WsgiClient:
    http = {
        "PathAliases": {"/api/acme": "/api/svc"},
        "APIForService": {"Enable": True, "BasicAuth": {"ann": "pw"}},
        "MaxContentLength": 1000,
    }
    return make_app(plugins=[ThingsPlugin()], settings={"HTTP": http}).client


@pytest.mark.parametrize(("path", "text"), [("/ping", "pong"), ("/api/svc/version", "v0.1.0"), ("/addr", "127.0.0.1:")])
def test_health_endpoints_answer_plain_text(client: WsgiClient, path: str, text: str) -> None:
    answer = client.get(path)
    assert (answer.status, answer.text) == (200, text)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_metrics_are_exposed_in_the_text_format(client: WsgiClient) -> None:
    client.get("/ping")
    text = client.get("/metrics").text
    assert 'svc_center_http_request_duration_seconds_count{code="200",method="GET",path="/ping"}' in text
    assert "svc_center_uptime" in text


def test_profiles_are_served(client: WsgiClient) -> None:
    assert client.get("/api/debug/pprof/").status == 200
    heap = client.get("/api/debug/pprof/heap")
    assert heap.body[:2] == b"\x1f\x8b"
    assert client.get("/api/debug/pprof/nonsense").status == 404


def test_the_envelope_has_dat_err_and_request_id(client: WsgiClient) -> None:
    answer = client.post("/api/svc/thing", {"name": "a"}, headers={"X-Trace-Id": "my-id"})
    assert answer.json() == {"dat": {"name": "a"}, "err": "", "request_id": "my-id"}
    assert answer.headers["x-trace-id"] == "my-id"
    assert set(client.get("/api/svc/nothing").json()) == {"err", "request_id"}
    assert client.get("/api/svc/null", headers={"X-Trace-Id": "x"}).json() == {
        "dat": None,
        "err": "",
        "request_id": "x",
    }


@pytest.mark.parametrize("path", ["/ping", "/api/svc/nothing", "/metrics"])
def test_head_is_get_without_a_body(client: WsgiClient, path: str) -> None:
    head, got = client.request("HEAD", path), client.get(path)
    assert (head.status, head.headers["content-type"]) == (200, got.headers["content-type"])
    assert head.body == b""


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/svc/nobody/knows", 200),
        ("GET", "/alert-rules", 200),
        ("GET", "/logo.png", 404),
        ("POST", "/rw/v1/writ", 404),
        ("POST", "/ping", 404),
        ("GET", "/v1/svc/nobody/knows", 404),
    ],
)
def test_programs_do_not_get_a_page_for_a_wrong_address(
    client: WsgiClient, method: str, path: str, status: int
) -> None:
    answer = client.request(method, path, body=b"x")
    assert answer.status == status
    assert answer.headers["content-type"] == f"text/{'html' if status == 200 else 'plain'}; charset=utf-8"


@pytest.mark.parametrize("number", ["1_0", "%201", "%D9%A3", "1.0", "0x1", "1" * 5000])
def test_numbers_are_written_in_plain_digits(client: WsgiClient, number: str) -> None:
    assert "to int64" in err(client.get(f"/api/svc/thing/{number}/arguments?word=x"))
    assert "to int64" in err(client.get(f"/api/svc/thing/1/arguments?word=x&limit={number}"))


def test_a_bad_trace_id_is_replaced(client: WsgiClient) -> None:
    assert len(client.get("/api/svc/nothing", headers={"X-Trace-Id": "a b"}).json()["request_id"]) == 36


class SlowBody(io.RawIOBase):
    """A body that arrives when the test wants it to."""

    def __init__(self) -> None:
        self.asked, self.arrived = threading.Event(), threading.Event()

    def read(self, size: int = -1) -> bytes:
        self.asked.set()
        assert self.arrived.wait(PATIENCE)
        return b'{"name": "slow"}'


class BrokenBody(io.RawIOBase):
    """A body whose sender goes away, as the server's own exceptions tell."""

    def read(self, size: int = -1) -> bytes:
        raise RuntimeError("invalid chunk size")


@pytest.mark.parametrize("length", [{"CONTENT_LENGTH": "16"}, {}])
def test_a_body_that_breaks_off_is_the_senders_fault(client: WsgiClient, caplog: Any, length: dict[str, str]) -> None:
    sender = WsgiClient(client.application, environ={"CONTENT_LENGTH": "", "wsgi.input": BrokenBody(), **length})
    assert err(sender.post("/api/svc/thing", body=b"")) == "body cannot be read: invalid chunk size"
    assert not caplog.records


def test_a_slow_sender_holds_up_nobody_else(client: WsgiClient) -> None:
    slow = SlowBody()
    sender = WsgiClient(client.application, environ={"wsgi.input": slow, "CONTENT_LENGTH": "16"})
    with ThreadPoolExecutor() as pool:
        late = pool.submit(sender.post, "/api/svc/thing", {"name": "slow"})
        assert slow.asked.wait(PATIENCE)
        try:
            quick = pool.submit(client.post, "/api/svc/thing", {"name": "quick"})
            assert dat(quick.result(PATIENCE)) == {"name": "quick"}
        finally:
            slow.arrived.set()
        assert dat(late.result(PATIENCE)) == {"name": "slow"}


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/thing", b"", "json body invalid: EOF"),
        ("/thing", b"{", "json body invalid: "),
        ("/thing", b"[]", "cannot unmarshal array into Go value of type object"),
        ("/things", b"{}", "json: cannot unmarshal object into Go value of type []models.Thing"),
        ("/thing", b"{}", "name: Missing data for required field."),
        ("/thing", b'{"name": "a", "size": "big"}', "size: got a text, expected an integer"),
        ("/things", b'[{"name": "a"}, {"name": 3}]', "1.name: got 3, expected a text"),
        ("/small", b"{" + b" " * 200 + b"}", "body of 202 bytes is over the limit of 100"),
        ("/thing", b" " * 2000, "over the limit of 1000"),
    ],
)
def test_bad_bodies_name_what_is_wrong(client: WsgiClient, path: str, body: bytes, text: str) -> None:
    answer = client.request("POST", "/api/svc" + path, body=body)
    assert answer.headers["x-error-code"] == ("limit" if "limit" in text else "invalid")
    assert text in err(answer)


def test_errors_carry_a_machine_readable_reason(client: WsgiClient) -> None:
    answer = client.get("/api/svc/refuse")
    assert err(answer) == "name: 'x' is taken"
    assert answer.headers["x-error-code"] == "conflict"


def test_a_crash_tells_the_client_nothing_internal(client: WsgiClient) -> None:
    answer = client.get("/api/svc/crash")
    assert err(answer) == "internal error"
    assert answer.headers["x-error-code"] == "internal"
    outside = client.get("/rootcrash")
    assert (outside.status, outside.text) == (500, "internal error")


def test_messages_are_translated(client: WsgiClient) -> None:
    assert err(client.get("/api/svc/crash", headers={"X-Language": "zh"})) == "系统内部错误"


def test_an_alias_uses_http_statuses(client: WsgiClient) -> None:
    answer = client.get("/api/acme/refuse")
    assert (answer.status, answer.text) == (409, "name: 'x' is taken")
    assert dat(client.post("/api/acme/thing", {"name": "a"})) == {"name": "a"}


def test_unknown_paths_and_methods_get_the_single_page(client: WsgiClient) -> None:
    for answer in (client.get("/api/svc/no-such-thing"), client.put("/api/svc/thing", {}), client.get("/")):
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/html")
    assert client.get("/app.js").status == 404


def test_other_processes_answer_404_for_unknown_paths(make_app: AppFactory) -> None:
    gateway = make_app(process="pushgw").client
    assert gateway.get("/ping").text == "pong"
    assert gateway.get("/nothing-here").status == 404


def test_parameters_are_typed(client: WsgiClient) -> None:
    good = client.get("/api/svc/thing/5/arguments?flag=on&ids=1,,2&p=3&limit=10&word=w")
    assert dat(good) == {"id": 5, "flag": True, "ids": [1, 2], "page": [10, 20], "word": "w"}
    assert dat(client.get("/api/svc/thing/fixed/arguments")) == "fixed"
    for query, text in [
        ("five/arguments?word=w", "cannot convert five to int64"),
        (f"{1 << 63}/arguments?word=w", "to int64"),
        ("5/arguments?word=w&flag=maybe", "unknown arg[flag] value: maybe"),
        ("5/arguments?word=w&ids=1,x", "cannot convert x to int64"),
        ("5/arguments?word=w&limit=x", "cannot convert [x] to int64"),
        ("5/arguments?word=w&limit=0", "limit: got 0, expected at least 1"),
        ("5/arguments", "query param[word] is necessary"),
    ]:
        assert text in err(client.get(f"/api/svc/thing/{query}"))


def test_the_rest_of_a_path_is_one_parameter(client: WsgiClient) -> None:
    assert client.get("/raw/a/b/c").text == "a/b/c"


def test_large_answers_are_compressed_on_request(client: WsgiClient) -> None:
    answer = client.get("/api/svc/large", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert len(gzip.decompress(answer.body)) > 10000
    assert "content-encoding" not in client.get("/api/svc/large").headers


def test_local_routes_refuse_other_hosts_whatever_their_headers_say(make_app: AppFactory) -> None:
    app = make_app(plugins=[ThingsPlugin()])
    assert app.client.get("/local").text == "here"
    stranger = WsgiClient(app.core.application or pytest.fail("no application"), remote="192.0.2.1")
    assert stranger.get("/local").status == 403
    assert stranger.get("/dumper/sync", headers={"X-Forwarded-For": "127.0.0.1"}).status == 403


@pytest.mark.parametrize("given", ["", "Basic !!!", "Basic \xe9", "Basic YW5uOndyb25n", "Bearer YW5uOnB3"])
def test_service_routes_want_basic_auth(client: WsgiClient, given: str) -> None:
    answer = client.get("/v1/svc/whoami", headers={"Authorization": given} if given else {})
    assert (answer.status, answer.body) == (401, b"")
    assert answer.headers["www-authenticate"] == 'Basic realm="Authorization Required"'


def test_service_routes_know_their_operator(client: WsgiClient) -> None:
    assert dat(client.get("/v1/svc/whoami", headers={"Authorization": "Basic YW5uOnB3"})) == "ann"


def test_two_features_cannot_claim_one_route() -> None:
    table = RouteTable()
    table.add("one", [page.get("/a/:id", echo, ANONYMOUS)])
    table.add("one", [page.get("/a/:id/b", echo, ANONYMOUS)])
    with pytest.raises(RouteClash, match="GET /api/svc/a/:name is claimed by both 'one' and 'two'"):
        table.add("two", [page.get("/a/:name", echo, ANONYMOUS)])


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        ("/raw/a%0Ab?api_key=s3cret&p=s3cret&x=1", "/raw/a%0Ab?api_key=***&p=***&x=1"),
        ("/api/svc/nothing?p=2&__token=s3cret", "/api/svc/nothing?p=2&__token=***"),
        ("/ping", "/ping"),
    ],
)
def test_the_access_log_keeps_secrets_and_lines(
    make_app: AppFactory, caplog: pytest.LogCaptureFixture, path: str, logged: str
) -> None:
    app = make_app(plugins=[ThingsPlugin()], settings={"HTTP": {"PrintAccessLog": True}})
    caplog.set_level("INFO", "tocsin.access")
    app.client.get(path.replace("%0A", "\n"))
    assert caplog.messages[-1].endswith(f" GET {logged}")
