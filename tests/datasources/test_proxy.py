"""Requests passed through to a datasource: what goes there, what comes back, what does not."""

from __future__ import annotations

import gzip
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tocsin.datasources.catalog import Catalog
from tocsin.datasources.pool import DatasourcePool
from tocsin.plugin import HttpError
from tocsin.plugin.testkit import AppFactory, TestApp, dat, err
from tocsin.plugin.testkit.components import PATIENCE, Answer, Hang, HttpSink, Redirect, Request, Reset, Trickle
from tocsin.plugin.testkit.components.sink import Behaviour


@pytest.fixture
def proxied(app: TestApp, save: Callable[..., int], http_sink: HttpSink) -> str:
    """The proxy path of a datasource at the sink, with credentials of its own."""
    saved = save(
        url="",
        http={"url": f"{http_sink.url}/base/?tenant=1", "timeout": 1000, "headers": {"X-Scope": "theirs"}},
        auth={"basic_auth_user": "reader", "basic_auth_password": "pw"},
    )
    return f"/api/svc/proxy/{saved}"


def test_a_request_arrives_with_path_query_and_body(app: TestApp, proxied: str, http_sink: HttpSink) -> None:
    http_sink.then(Answer(201, b'{"x":1}', {"Content-Type": "application/json", "X-Theirs": "kept"}))
    answer = app.root.request(
        "POST", f"{proxied}/api/v1/query?query=a%2Bb&__token=abc", body=b"query=up",
        headers={"Content-Type": "application/x-www-form-urlencoded", "X-Custom": "kept"},
    )  # fmt: skip
    assert (answer.status, answer.body) == (201, b'{"x":1}')
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-theirs"] == "kept"
    [got] = http_sink.requests
    assert (got.method, got.path) == ("POST", "/base/api/v1/query")
    assert got.query == {"tenant": ["1"], "query": ["a+b"]}
    assert got.body == b"query=up"
    assert got.headers["content-type"] == "application/x-www-form-urlencoded"
    assert got.headers["x-custom"] == "kept"
    assert got.headers["x-forwarded-for"] == "127.0.0.1"


@pytest.mark.parametrize("tail", ["", "/"])
def test_the_root_of_a_datasource_is_a_path_too(app: TestApp, proxied: str, http_sink: HttpSink, tail: str) -> None:
    assert app.root.get(f"{proxied}{tail}").status == 200
    assert http_sink.requests[0].path == "/base/"


def test_an_answer_outlives_the_datasource_it_comes_from(
    app: TestApp, proxied: str, http_sink: HttpSink, journal: Any
) -> None:
    started, released = threading.Event(), threading.Event()

    def slow(request: Request) -> Behaviour:
        started.set()
        released.wait(PATIENCE)
        return Answer(200, b"whole")

    http_sink.default = slow
    answers: list[bytes] = []
    client = threading.Thread(target=lambda: answers.append(app.root.get(f"{proxied}/x").body))
    client.start()
    assert started.wait(PATIENCE)
    journal.closed.clear()
    app.core.get(Catalog).delete([int(proxied.rpartition("/")[2])])
    assert app.root.get(f"{proxied}/x").text == "no such datasource"
    assert journal.closed == []
    released.set()
    client.join(PATIENCE)
    assert answers == [b"whole"]
    assert len(journal.closed) == 1


def test_our_credentials_stay_here_and_theirs_are_added(app: TestApp, proxied: str, http_sink: HttpSink) -> None:
    ours = {"X-User-Token": "our-token", "X-User-Name": "root", "Cookie": "session=ours", "X-Scope": "ours"}
    assert app.root.get(f"{proxied}/x", headers=ours).status == 200
    [got] = http_sink.requests
    assert got.headers["authorization"] == "Basic cmVhZGVyOnB3"
    assert got.headers["x-scope"] == "theirs"
    sent = str(got.headers)
    for secret in ("our-token", "session=ours", "Bearer", "x-user-name"):
        assert secret not in sent


def test_without_credentials_of_its_own_a_datasource_gets_none(
    app: TestApp, save: Callable[..., int], http_sink: HttpSink
) -> None:
    saved = save(url=http_sink.url)
    assert app.root.get(f"/api/svc/proxy/{saved}/x").status == 200
    assert "authorization" not in http_sink.requests[0].headers


def test_hop_by_hop_headers_end_here(app: TestApp, proxied: str, http_sink: HttpSink) -> None:
    http_sink.then(Answer(200, b"x", {"Keep-Alive": "timeout=5", "Set-Cookie": "a=b", "Proxy-Authenticate": "Basic"}))
    asked = {"Connection": "close, X-Private", "X-Private": "1", "TE": "trailers", "Upgrade": "websocket"}
    answer = app.root.get(f"{proxied}/x", headers=asked)
    got = http_sink.requests[0].headers
    assert not {"x-private", "te", "upgrade"} & set(got)
    assert not {"keep-alive", "set-cookie", "proxy-authenticate"} & set(answer.headers)


def test_answers_cannot_run_as_pages_of_ours(app: TestApp, proxied: str, http_sink: HttpSink) -> None:
    http_sink.then(Answer(200, b"<script>alert(1)</script>", {"Content-Type": "text/html"}))
    answer = app.root.get(f"{proxied}/x")
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_every_method_passes(app: TestApp, proxied: str, http_sink: HttpSink, method: str) -> None:
    http_sink.then(Answer(200, b"body"))
    answer = app.root.request(method, f"{proxied}/x")
    assert answer.status == 200
    assert http_sink.requests[0].method == method
    assert answer.body == (b"" if method == "HEAD" else b"body")


@pytest.mark.parametrize("status", [204, 304, 400, 403, 404, 422, 500, 503])
def test_statuses_and_bodies_pass_unchanged(app: TestApp, proxied: str, http_sink: HttpSink, status: int) -> None:
    body = b"" if status in (204, 304) else b"their words"
    http_sink.then(Answer(status, body))
    answer = app.root.get(f"{proxied}/x")
    assert (answer.status, answer.body) == (status, body)


def test_a_refused_login_of_ours_is_not_the_clients(app: TestApp, proxied: str, http_sink: HttpSink) -> None:
    http_sink.then(Answer(401, b"who are you", {"WWW-Authenticate": "Basic"}))
    answer = app.root.get(f"{proxied}/x")
    assert (answer.status, answer.body) == (502, b"unauthorized access")
    assert "www-authenticate" not in answer.headers


def test_compressed_answers_pass_as_they_are(app: TestApp, proxied: str, http_sink: HttpSink) -> None:
    packed = gzip.compress(b"x" * 10000)
    http_sink.then(Answer(200, packed, {"Content-Encoding": "gzip"}))
    answer = app.root.get(f"{proxied}/x", headers={"Accept-Encoding": "gzip"})
    assert http_sink.requests[0].headers["accept-encoding"] == "gzip"
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.body == packed


def test_redirects_are_the_clients_business(app: TestApp, proxied: str, http_sink: HttpSink) -> None:
    with HttpSink() as elsewhere:
        http_sink.then(Redirect(elsewhere.url, 302))
        answer = app.root.get(f"{proxied}/x")
        assert answer.status == 302
        assert elsewhere.requests == []


@pytest.mark.parametrize("behaviour", [Hang(), Reset()], ids=["hang", "reset"])
def test_a_datasource_out_of_reach_is_502_in_time(
    app: TestApp, proxied: str, http_sink: HttpSink, behaviour: Any
) -> None:
    http_sink.then(behaviour)
    answer = app.root.get(f"{proxied}/x")
    assert answer.status == 502
    assert answer.headers["content-type"].startswith("text/plain")
    assert f"127.0.0.1:{http_sink.port}" in answer.text
    assert "pw" not in answer.text


def test_an_answer_that_trickles_is_cut_at_the_limit(make_app: AppFactory, plugin: Any, http_sink: HttpSink) -> None:
    app = make_app(plugins=[plugin], settings={"Datasource": {"ProxyTimeout": 1}}, start="http")
    body = {"name": "s", "plugin_type": "store", "http": {"url": http_sink.url}}
    saved = dat(app.root.post("/api/svc/datasource/upsert", body))["id"]
    http_sink.then(Trickle(b"x" * 1000, interval=0.05))
    with pytest.raises(HttpError, match="did not end in time"):
        app.root.get(f"/api/svc/proxy/{saved}/x")
    assert app.root.get(f"/api/svc/proxy/{saved}/x").status == 200


@pytest.mark.parametrize(
    "tail", ["../admin", "a/../../admin", "%2e%2e/admin", "a/%2E%2E/b", "..%2fadmin", "a/..%5cb", "./x"]
)
def test_a_path_cannot_climb_out_of_the_datasources_own(
    app: TestApp, proxied: str, http_sink: HttpSink, tail: str
) -> None:
    answer = app.root.get(f"{proxied}/{tail}")
    assert (answer.status, answer.text) == (400, "invalid url path")
    assert http_sink.requests == []


def test_unknown_datasources_and_those_without_http_are_plain_errors(
    app: TestApp, save: Callable[..., int], plugin: Any
) -> None:
    answer = app.root.get("/api/svc/proxy/77/x")
    assert (answer.status, answer.text) == (400, "no such datasource")
    assert "cannot convert" in err(app.root.get("/api/svc/proxy/seven/x"))
    plugin.type.speaks_http = False
    answer = app.root.get(f"/api/svc/proxy/{save()}/x")
    assert (answer.status, answer.text) == (400, "this datasource is not reached by HTTP")


def test_bodies_over_the_limit_are_refused(make_app: AppFactory, plugin: Any, http_sink: HttpSink) -> None:
    app = make_app(plugins=[plugin], settings={"HTTP": {"MaxContentLength": 1000}}, start="http")
    body = {"name": "s", "plugin_type": "store", "http": {"url": http_sink.url}}
    saved = dat(app.root.post("/api/svc/datasource/upsert", body))["id"]
    path = f"/api/svc/proxy/{saved}/x"
    assert app.root.request("POST", path, body=b"x" * 1001).status == 413
    assert app.root.request("POST", path, body=b"x" * 1000).status == 200
    assert [len(request.body) for request in http_sink.requests] == [1000]


def test_calls_are_in_the_audit_log(
    app: TestApp, proxied: str, http_sink: HttpSink, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tocsin.audit"):
        app.root.get(f"{proxied}/api/v1/query?query={'a' * 5000}")
    [line] = [record.getMessage() for record in caplog.records if record.name == "tocsin.audit"]
    assert "user=root remote=127.0.0.1" in line
    assert "/api/v1/query?query=aaa" in line
    assert len(line) < 2200


def test_the_connection_is_kept_for_the_next_request(app: TestApp, proxied: str, http_sink: HttpSink) -> None:
    http_sink.default = Answer(200, b"x" * 100_000)
    for _ in range(3):
        assert len(app.root.get(f"{proxied}/x").body) == 100_000
    assert len({request.headers["host"] for request in http_sink.requests}) == 1
    assert [entry.users for entry in app.core.get(DatasourcePool)._connected.values()] == [0]
