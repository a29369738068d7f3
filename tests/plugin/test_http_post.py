"""The fast way of posting: connections are kept, replaced and given up as HTTP/1.1 wants it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tocsin.plugin import HttpClient, HttpError, HttpOptions


class Scripted:
    """A server that answers each request with the next of its scripts; None closes the connection instead."""

    def __init__(self) -> None:
        self.scripts: list[bytes | None] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/write"
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            with contextlib.suppress(ConnectionError):  # a client may leave before it has read everything
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            while head := self._head(file):
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.requests.append(head + file.read(size))
                script = self.scripts.pop(0) if self.scripts else b"HTTP/1.1 204 No Content\r\n\r\n"
                if script is None:
                    return
                connection.sendall(script)
                if b"connection: close" in script.lower():
                    return

    @staticmethod
    def _head(file: object) -> bytes:
        lines = b""
        while line := file.readline():  # type: ignore[attr-defined]
            lines += line
            if line == b"\r\n":
                return lines
        return b""

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Scripted]:
    server = Scripted()
    yield server
    server.stop()


@pytest.fixture
def client(server: Scripted) -> Iterator[HttpClient]:
    client = HttpClient(HttpOptions(urls=(server.url,), timeout=5, username="u", password="secret"))
    yield client
    client.close()


def test_connection_is_kept(server: Scripted, client: HttpClient) -> None:
    for _ in range(3):
        assert client.post(b"body", headers={"X-A": "b"}, query="q=1").status == 204
    assert server.connections == 1
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /write?q=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nX-A: b\r\n" in head
    assert b"\r\nAuthorization: Basic " in head
    assert body == b"body"


def test_large_bodies(server: Scripted, client: HttpClient) -> None:
    body = bytes(range(256)) * 4000
    assert client.post(memoryview(body)).status == 204
    assert server.requests[0].endswith(body)


@pytest.mark.parametrize(
    ("script", "status", "text", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 400\r\nContent-Length: 3\r\n\r\nbad", 400, b"bad", True),
        (b"HTTP/1.1 500 No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad", 500, b"bad", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Close\r\n\r\nok", 200, b"ok", False),
        (b"HTTP/1.1 503 No\r\nConnection: close\r\n\r\nuntil the end", 503, b"until the end", False),
        (
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n",
            200, b"abcde", False,
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200, b"abcde", True),
        (b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: b\r\n\r\n", 503, b"", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n-1\r\n", 200, b"abc", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 500 No\r\n\r\n", 200, b"", False),
        (
            b"HTTP/1.1 400 No\r\nConnection: close\r\nContent-Length: 9\r\n\r\nabc",
            400, b"abc (the answer broke off)", False,
        ),
    ],
)  # fmt: skip
def test_answers(server: Scripted, client: HttpClient, script: bytes, status: int, text: bytes, kept: bool) -> None:
    server.scripts = [script]
    answer = client.post(b"x")
    assert (answer.status, answer.body) == (status, text)
    client.post(b"x")
    assert server.connections == (1 if kept else 2)


def test_long_answers_are_cut(server: Scripted, client: HttpClient) -> None:
    server.scripts = [b"HTTP/1.1 400 No\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n" + b"x" * 99]
    assert client.post(b"x", max_bytes=10).body == b"x" * 10
    assert client.post(b"x").status == 204
    assert server.connections == 2


def test_closed_kept_connection_is_replaced(server: Scripted, client: HttpClient) -> None:
    client.post(b"1")
    server.scripts = [None]
    assert client.post(b"2").status == 204
    assert [request[-1:] for request in server.requests] == [b"1", b"2", b"2"]


def test_fresh_connection_is_not_tried_again(server: Scripted, client: HttpClient) -> None:
    server.scripts = [None]
    with pytest.raises(HttpError, match="closed before an answer came") as caught:
        client.post(b"x")
    assert caught.value.kind == "broken"
    assert len(server.requests) == 1


@pytest.mark.parametrize("script", [b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000])
def test_what_is_not_http(server: Scripted, client: HttpClient, script: bytes) -> None:
    server.scripts = [script]
    with pytest.raises(HttpError) as caught:
        client.post(b"x")
    assert caught.value.kind == "broken"


def test_header_lines_cannot_be_smuggled(client: HttpClient) -> None:
    with pytest.raises(HttpError) as caught:
        client.post(b"x", headers={"X-A": "b\r\nX-B: c"})
    assert caught.value.kind == "build"


def test_no_answer_in_time(server: Scripted) -> None:
    server.scripts = [b"HTTP/1.1 2"]
    client = HttpClient(HttpOptions(urls=(server.url,), timeout=0.05))
    with pytest.raises(HttpError) as caught:
        client.post(b"x")
    assert caught.value.kind == "timeout"
    client.close()


def test_a_proxy_takes_the_ordinary_way(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = server.url.removesuffix("/write")
    monkeypatch.setenv("http_proxy", proxy)
    client = HttpClient(HttpOptions(urls=("http://backend.invalid/write",), timeout=5))
    assert client.post(b"x").status == 204
    assert server.requests[0].startswith(b"POST http://backend.invalid/write HTTP/1.1\r\n")
    client.close()
