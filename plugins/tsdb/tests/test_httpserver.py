"""The server on the unix socket: requests of any shape, clients that leave, and an end that cuts nothing off."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.plugin.testkit.components import PATIENCE
from tocsin_tsdb.httpserver import CLIENT_LEFT, MAX_HEAD, UnixServer

MAX_BODY = 1 << 16


class App:
    """Echoes what it was asked; some paths behave in their own way."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.leave = threading.Event()
        self.left = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        path = environ["PATH_INFO"]
        if path == "/crash":
            raise RuntimeError("boom")
        if path == "/nothing":
            start_response("204 No Content", [])
            return []
        if path == "/long":
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [b"0123456789" * 1_000_000]
        if path == "/hold":
            self.inside.set()
            assert self.leave.wait(PATIENCE)
        if path == "/watch":
            self.inside.set()
            while not environ[CLIENT_LEFT]():
                self.leave.wait(0.01)
            self.left.set()
        names = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "HTTP_X_A")
        lines = [f"{name}={environ.get(name, '-')}" for name in names]
        start_response("200 OK", [("X-Seen", str(len(body)))])
        return ["\n".join(lines).encode() + b"\n", body]


class Client(http.client.HTTPConnection):
    """HTTP over the unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))

    def get(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> http.client.HTTPResponse:
        self.request(method, path, body, headers, encode_chunked="Transfer-Encoding" in headers)
        return self.getresponse()


def status_of(path: Path, target: str = "/") -> int:
    with contextlib.closing(Client(path)) as client:
        return client.get(target).status


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def path(app: App, tmp_path: Path) -> Iterator[Path]:
    yield from serve(app, tmp_path / "s.sock")


def serve(app: App, path: Path, connections: int = 8) -> Iterator[Path]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    server = UnixServer(app, listener, most_connections=connections, max_body=MAX_BODY)
    server.start()
    yield path
    app.leave.set()
    server.stop(PATIENCE)


def talk(path: Path, *parts: bytes) -> bytes:
    """Send bytes and return everything that comes back until the server closes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(path))
        for part in parts:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_a_connection_serves_one_request_after_the_other(path: Path) -> None:
    client = Client(path)
    answer = client.get("/a%20b?q=%41", **{"X-A": "1"})
    assert answer.read() == b"REQUEST_METHOD=GET\nPATH_INFO=/a b\nQUERY_STRING=q=%41\nCONTENT_TYPE=-\nHTTP_X_A=1\n"
    assert (answer.status, answer.getheader("Connection")) == (200, "keep-alive")
    assert answer.getheader("Date") is not None
    used = client.sock
    assert client.get("/", "POST", b"x" * 1000, **{"Content-Type": "a/b"}).read().endswith(b"\n" + b"x" * 1000)
    assert client.get("/", "POST", iter([b"ab", b"c"]), **{"Transfer-Encoding": "chunked"}).read().endswith(b"\nabc")
    assert client.get("/long").read() == b"0123456789" * 1_000_000
    nothing = client.get("/nothing")
    assert (nothing.status, nothing.read(), nothing.getheader("Content-Length")) == (204, b"", None)
    head = client.get("/", "HEAD")
    assert (head.status, head.read()) == (200, b"")
    assert client.sock is used
    client.close()


def test_repeated_headers_are_joined(path: Path) -> None:
    answer = talk(path, b"GET / HTTP/1.1\r\nHost: x\r\nx-a: 1\r\nX-A: 2\r\nConnection: close\r\n\r\n")
    assert b"HTTP_X_A=1,2\n" in answer
    assert b"\r\nConnection: close\r\n" in answer


ONE = b"POST /one HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
TWO = b"GET /two?a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(cuts=st.lists(st.integers(0, len(ONE + TWO)), max_size=6))
def test_bytes_may_arrive_in_any_pieces(path: Path, cuts: list[int]) -> None:
    text, bounds = ONE + TWO, sorted({0, *cuts, len(ONE + TWO)})
    answer = talk(path, *(text[a:b] for a, b in itertools.pairwise(bounds)))
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert answer.index(b"PATH_INFO=/one") < answer.index(b"\nabc") < answer.index(b"PATH_INFO=/two")


def test_a_client_may_ask_before_it_sends_a_body(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(path))
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"ab")
        assert connection.recv(1 << 16).endswith(b"\nab")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"what is this?\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: " + b"x" * (MAX_HEAD + 1) + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * (MAX_HEAD + 1) + b" HTTP/1.1\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + b"x" * (MAX_BODY + 1), 413),
        (b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", 501),
    ],
)
def test_what_is_no_request_is_refused(path: Path, request_bytes: bytes, status: int) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(path))
        connection.sendall(request_bytes)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 %d " % status)
        assert connection.recv(1) == b""
    assert status_of(path) == 200


def test_half_a_request_is_no_request(path: Path) -> None:
    assert talk(path, ONE[:-1]) == b""
    assert talk(path) == b""


def test_a_crash_closes_only_its_connection(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.closing(Client(path)) as client:
        answer = client.get("/crash")
        assert (answer.status, answer.read(), answer.getheader("Connection")) == (500, b"", "close")
    assert "boom" in caplog.text
    assert status_of(path) == 200


def test_a_client_that_leaves_is_noticed(app: App, path: Path) -> None:
    client = Client(path)
    client.request("GET", "/watch")
    assert app.inside.wait(PATIENCE)
    assert not app.left.is_set()
    client.close()
    assert app.left.wait(PATIENCE)


def test_surplus_connections_wait(app: App, tmp_path: Path) -> None:
    serving = serve(app, tmp_path / "s.sock", connections=1)
    path = next(serving)
    first, second = Client(path), Client(path)
    first.request("GET", "/hold")
    assert app.inside.wait(PATIENCE)
    second.request("GET", "/")
    app.leave.set()
    assert first.getresponse().read()
    first.close()
    assert second.getresponse().status == 200
    second.close()
    next(serving, None)


def test_stopping_finishes_what_is_under_way(app: App, tmp_path: Path) -> None:
    serving = serve(app, tmp_path / "s.sock")
    path = next(serving)
    idle, busy = Client(path), Client(path)
    assert idle.get("/").read()
    busy.request("GET", "/hold")
    assert app.inside.wait(PATIENCE)
    stopping = threading.Thread(target=lambda: next(serving, None))
    stopping.start()
    answer = busy.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (200, "close")
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert idle.sock.recv(1) == b""
    with pytest.raises(OSError):
        status_of(path)
    for client in (idle, busy):
        client.close()
