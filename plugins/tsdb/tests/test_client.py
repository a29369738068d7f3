"""The way to the store's process: answers of any size, answers that break off, and connections that are kept."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tocsin.plugin.testkit.components import PATIENCE
from tocsin_tsdb.client import StoreClient, StoreUnreachable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"


class Peer:
    """Listens on a unix socket and answers with what it is told; remembers what it got."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests: list[bytes] = []
        self.connections = 0
        self._answers: list[list[bytes]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._run)

    def answers(self, *connections: list[bytes]) -> StoreClient:
        """Serve so many connections, each with its answers, one for each request; returns a client."""
        self._answers = list(connections)
        self._thread.start()
        return StoreClient(self.path, PATIENCE)

    def _run(self) -> None:
        for answers in self._answers:
            connection, _ = self._listener.accept()
            self.connections += 1
            with connection:
                for answer in answers:
                    self.requests.append(self._request(connection))
                    connection.sendall(answer)

    @staticmethod
    def _request(connection: socket.socket) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            got += connection.recv(1 << 16)
        head, _, body = got.partition(b"\r\n\r\n")
        sizes = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")]
        while len(body) < sum(sizes):
            body += connection.recv(1 << 16)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self._listener.close()
        self._thread.join(PATIENCE)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = Peer(tmp_path / "s.sock")
    yield peer
    peer.close()


def test_a_connection_is_used_again(peer: Peer) -> None:
    long = b"x" * (1 << 22)
    client = peer.answers([OK, b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(long) + long, OK])
    assert client.request("GET", "/a?b=c", headers={"X-A": "1"}).body == b"ok"
    assert client.request("POST", "/d", long).body == long
    reply = client.request("POST", "/e")
    assert (reply.status, reply.content_type, reply.body) == (200, "text/plain", b"ok")
    client.close()
    assert peer.connections == 1
    assert peer.requests == [
        b"GET /a?b=c HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\n\r\n",
        b"POST /d HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(long) + long,
        b"POST /e HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    ]


def test_an_answer_may_have_no_body_and_may_end_the_connection(peer: Peer) -> None:
    client = peer.answers([b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"], [OK])
    reply = client.request("POST", "/write", b"abc")
    assert (reply.status, reply.body) == (204, b"")
    assert client.request("GET", "/").status == 200
    client.close()
    assert peer.connections == 2


def test_a_request_without_an_answer_is_sent_again(peer: Peer) -> None:
    client = peer.answers([OK, b""], [OK])
    assert client.request("GET", "/one").status == 200
    assert client.request("GET", "/two").status == 200
    client.close()
    assert [request.split(b" ")[1] for request in peer.requests] == [b"/one", b"/two", b"/two"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "closed without an answer"),
        (b"what?\r\n\r\n", "not enough values|not an HTTP answer"),
        (b"FTP/1.1 200 OK\r\n\r\n", "not an HTTP answer"),
        (OK[:-1], "the answer ended after 1 of 2 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "invalid literal"),
    ],
)
@pytest.mark.parametrize("used_before", [False, True])
def test_a_broken_answer_is_an_unreachable_store(peer: Peer, answer: bytes, text: str, used_before: bool) -> None:
    client = peer.answers([OK, answer], [answer]) if used_before else peer.answers([answer])
    if used_before:
        assert client.request("GET", "/").status == 200
    with pytest.raises(StoreUnreachable, match=text):
        client.request("GET", "/")
    if used_before and answer:  # the second connection was not needed: a part of an answer is not asked for again
        with pytest.raises(StoreUnreachable):
            client.request("GET", "/")
    client.close()


@pytest.mark.parametrize(
    "send", [lambda c: c.request("GET", "/a\r\nX: y"), lambda c: c.request("GET", "/", headers={"a": "b\nc"})]
)
def test_nothing_can_be_slipped_into_a_request(tmp_path: Path, send: Callable[[StoreClient], object]) -> None:
    with pytest.raises(ValueError, match="line break"):
        send(StoreClient(tmp_path / "s.sock", PATIENCE))
