"""Request heads that are not parsed again: what comes out is what gunicorn makes of the same bytes, each time."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.app.heads import LONGEST, Heads, Parser, WholeBody
from tocsin.app.worker import Worker

CONFIG = Config()
CLIENT = ("127.0.0.1", 4711)
HEAD = b"POST /rw/v1/write?x=%s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nUser-Agent: sender\r\n%s\r\n"


def post(body: bytes, more: bytes = b"", query: bytes = b"1") -> bytes:
    return HEAD % (query, len(body), more) + body


class Connection:
    """A connection with our parser at one end."""

    def __init__(self, heads: Heads, client: tuple[str, int] = CLIENT) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.theirs.settimeout(10)
        self.parser = Parser(CONFIG, self.ours, client, heads)

    def send(self, data: bytes) -> None:
        self.theirs.sendall(data)

    def next(self) -> tuple[bool, Any, bytes]:
        """Return whether the next request's head was known, the request and its body."""
        request: Any = next(self.parser)
        return hasattr(request, "known"), request, request.body.read()

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def heads() -> Heads:
    return Heads()


@pytest.fixture
def connection(heads: Heads) -> Iterator[Connection]:
    connection = Connection(heads)
    yield connection
    connection.close()


def facts(request: Any) -> dict[str, Any]:
    """Return all of a request but what belongs to one."""
    own = ("unreader", "body", "headers", "req_number", "known", "trailers", "length")
    found = {name: value for name, value in vars(request).items() if name not in own}
    return {**found, "headers": [pair for pair in request.headers if pair[0] != "CONTENT-LENGTH"]}


@pytest.mark.parametrize("cut", [1, 30, len(HEAD), 150, 60_000])
def test_the_second_request_of_a_kind_is_known_and_is_like_the_first(connection: Connection, cut: int) -> None:
    connection.send(post(b"first"))
    known, request, body = connection.next()
    assert (known, body, request.req_number) == (False, b"first", 1)
    first = facts(request)
    for number, body in enumerate((b"the second", b"", b"x" * 100_000), 2):
        whole = post(body)
        connection.send(whole[:cut])
        rest = threading.Thread(target=connection.send, args=(whole[cut:],))
        rest.start()
        known, request, read = connection.next()
        rest.join()
        assert (read, request.req_number, facts(request)) == (body, number, first)
        assert ("CONTENT-LENGTH", str(len(body))) in request.headers
        assert known or cut < len(HEAD) + 20  # a head that comes in pieces is left to gunicorn


def test_requests_behind_each_other_keep_their_bodies(connection: Connection) -> None:
    connection.send(post(b"one") + post(b"two!") + post(b"three") + post(b"other", query=b"2"))
    found = [connection.next() for _ in range(4)]
    assert [body for _, _, body in found] == [b"one", b"two!", b"three", b"other"]
    assert [known for known, _, _ in found] == [False, True, True, False]
    assert [request.query for _, request, _ in found] == ["x=1", "x=1", "x=1", "x=2"]


def test_a_body_that_was_not_read_is_skipped(connection: Connection) -> None:
    connection.send(post(b"one") + post(b"never read") + post(b"half read") + post(b"last"))
    connection.next()
    next(connection.parser)
    assert next(connection.parser).body.read(4) == b"half"
    assert connection.next()[2] == b"last"


def test_a_known_body_can_be_read_in_every_way(connection: Connection) -> None:
    text = b"a line\nanother\nlast"
    connection.send(post(text) * 5)
    next(connection.parser)
    assert next(connection.parser).body.readline() == b"a line\n"
    assert next(connection.parser).body.readlines() == [b"a line\n", b"another\n", b"last"]
    pieces = next(connection.parser).body
    assert isinstance(pieces, WholeBody)
    assert [pieces.read(8), pieces.read(0), pieces.read(8), pieces.read(8), pieces.read(8)] == [
        *(b"a line\na", b"", b"nother\nl", b"ast", b""),
    ]
    assert pieces.ended
    assert next(connection.parser).body.read(10_000) == text


def test_a_body_that_breaks_off_is_short_and_ends_the_connection(connection: Connection) -> None:
    connection.send(post(b"one") + post(b"broken off")[:-4])
    connection.theirs.shutdown(socket.SHUT_WR)
    connection.next()
    assert connection.next()[::2] == (True, b"broken")
    with pytest.raises(StopIteration):
        next(connection.parser)


class Pieces:
    """A socket that gives what it has in pieces, however much is asked for, as one with a time limit does."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def recv(self, size: int, flags: int = 0) -> bytes:
        piece = self._pieces.pop(0) if self._pieces else b""
        if len(piece) > size:
            self._pieces.insert(0, piece[size:])
        return piece[:size]


SMUGGLED = post(b"smuggled", query=b"evil")


@pytest.mark.parametrize("skipped", [False, True])
def test_a_known_body_that_comes_in_pieces_is_taken_to_its_end(heads: Heads, skipped: bool) -> None:
    body = b"y" * 100 + SMUGGLED
    whole = post(body)
    pieces: Any = Pieces(post(b"one"), whole[:-150], whole[-150:-80], whole[-80:], post(b"3"))
    parser = Parser(CONFIG, pieces, CLIENT, heads)
    next(parser)
    request: Any = next(parser)
    assert request.known
    assert skipped or request.body.read() == body
    assert parser.finish_body(deadline=time.monotonic() + 60)
    assert next(parser).body.read() == b"3"


@pytest.mark.parametrize("skipped", [False, True])
def test_nothing_follows_a_known_body_that_broke_off(heads: Heads, skipped: bool) -> None:
    pieces: Any = Pieces(post(b"one"), post(SMUGGLED)[: -len(SMUGGLED)], b"", SMUGGLED)
    parser = Parser(CONFIG, pieces, CLIENT, heads)
    next(parser)
    request: Any = next(parser)
    assert request.known
    assert skipped or request.body.read() == b""
    assert not parser.finish_body(deadline=time.monotonic() + 60)
    with pytest.raises(StopIteration):
        next(parser)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(post(b"x", b"Expect: 100-continue\r\n"), id="an interim answer is expected"),
        pytest.param(post(b"x").replace(b"POST", b"PUT"), id="another method"),
        pytest.param(post(b"x", b"X-Long: " + b"y" * LONGEST + b"\r\n"), id="a long head"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", id="chunked"
        ),
    ],
)
def test_other_heads_are_left_to_gunicorn(connection: Connection, heads: Heads, request_: bytes) -> None:
    connection.send(request_ * 2)
    assert [connection.next()[::2], connection.next()[::2]] == [(False, b"x")] * 2
    assert len(heads) == 0


@pytest.mark.parametrize(
    "more", [b"Connection: close\r\n", b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"]
)
def test_what_must_not_be_followed_never_is(heads: Heads, more: bytes) -> None:
    for _ in range(2):
        connection = Connection(heads)
        connection.send(post(b"body", more) + post(b"smuggled"))
        found, end = outcome(connection.parser)
        connection.close()
        assert len(found) == (1 if b"close" in more else 0)
        assert end in ("StopIteration", "InvalidHeader")
    assert len(heads) == 0


def test_one_peers_head_means_nothing_for_another(heads: Heads) -> None:
    for client, expected in ((CLIENT, False), (("10.0.0.1", 1), False), (("127.0.0.1", 4712), True)):
        connection = Connection(heads, client)
        connection.send(post(b"x"))
        assert connection.next()[0] is expected
        connection.close()


def test_the_memory_is_bounded_and_keeps_what_is_used(connection: Connection) -> None:
    heads = connection.parser._heads = Heads(capacity=8)
    for number in range(40):
        connection.send(post(b"busy") + post(b"rare", query=b"%d" % number))
        assert connection.next()[0] is (number > 0)
        assert connection.next()[0] is (number == 1)  # the busy one's own query
        assert len(heads) <= 8


NAMES = st.sampled_from(
    [b"Host", b"content-length", b"Content-Length", b"X-A", b"X_A", b"Content-Type", b"Connection", b"", b"\xe4"]
)
VALUES = st.sampled_from(
    [b"a", b"3", b"03", b" 3 ", b"3\t", b"close", b"keep-alive", b"+3", b"3,3", b"", b"\x01", b"\xff"]
)
SEPARATORS = st.sampled_from([b": ", b":", b" : ", b":\r\n ", b""])
LINES = st.lists(st.tuples(NAMES, SEPARATORS, VALUES), max_size=5)


def outcome(parser: RequestParser) -> Any:
    """Return all requests on a connection with their bodies, and what ended it."""
    found = []
    try:
        while True:
            request = next(parser)
            found.append((facts(request) | {"all": request.headers}, request.body.read(100)))
            assert parser.finish_body()
    except Exception as error:
        return found, type(error).__name__


@settings(max_examples=300, deadline=None)
@given(lines=LINES, bodies=st.lists(st.sampled_from([b"abc", b"GET / HTTP/1.1\r\n\r\n", b""]), min_size=1, max_size=3))
def test_random_heads_mean_what_they_mean_to_gunicorn(lines: list[Any], bodies: list[bytes]) -> None:
    head = b"POST / HTTP/1.1\r\n" + b"".join(name + sep + value + b"\r\n" for name, sep, value in lines) + b"\r\n"
    stream = b"".join(head + body for body in bodies) * 2
    heads, results = Heads(), []
    for _ in range(2):
        ours = Connection(heads)
        theirs = Connection(heads)
        theirs.parser = RequestParser(CONFIG, theirs.ours, CLIENT)
        for connection in (ours, theirs):
            connection.send(stream)
            connection.theirs.shutdown(socket.SHUT_WR)
            results.append(outcome(connection.parser))
            connection.close()
    assert results[0] == results[1] == results[2] == results[3]


@pytest.fixture
def worker() -> Any:
    """Return a worker that answers with what the application is given, without the rest of gunicorn."""
    worker = Worker.__new__(Worker)
    worker.alive, worker.cfg, worker.heads, worker._begun = True, CONFIG, Heads(), {}
    worker.tpool = SimpleNamespace(_work_queue=queue.SimpleQueue())
    worker.nr, worker.max_requests, worker.keepalived_conns, worker.max_keepalived = 0, 1 << 30, deque(), 10
    worker.log = logging.getLogger("test")
    worker.log.access = lambda *_: None
    return worker


class Served:
    """A connection that a worker serves."""

    def __init__(self, worker: Any, application: Any) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.theirs.settimeout(10)
        worker.wsgi = application
        self.conn = TConn(CONFIG, self.ours, CLIENT, ("127.0.0.1", 80))
        self.conn.data_ready = True
        self.worker = worker

    def post(self, body: bytes) -> tuple[Any, bytes]:
        """Return what became of the connection, and the answer."""
        self.theirs.sendall(post(body))
        result = ThreadWorker.handle(self.worker, self.conn) if self.conn.parser else self.worker.handle(self.conn)
        self.ours.setblocking(True)
        return result, self.theirs.recv(100_000)

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


def test_the_application_sees_no_difference(worker: Any) -> None:
    seen: list[dict[str, Any]] = []

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.append({**environ, "read": environ["wsgi.input"].read()})
        start_response("200 OK", [("Content-Length", "2"), ("X-A", "b")])
        return [b"ok"]

    served = Served(worker, application)
    answers = [served.post(body) for body in (b"one", b"three", b"five!!")]
    served.close()
    assert [result for result, _ in answers] == [True] * 3
    assert len({answer for _, answer in answers}) == 1
    assert answers[0][1].startswith(b"HTTP/1.1 200 OK\r\n")
    assert answers[0][1].endswith(b"\r\nConnection: keep-alive\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok")
    own = ("wsgi.input", "wsgi.early_hints", "wsgi.file_wrapper", "CONTENT_LENGTH", "read", "wsgi.errors")
    first, second, third = ({name: value for name, value in one.items() if name not in own} for one in seen)
    assert first == second == third
    assert [one["CONTENT_LENGTH"] for one in seen] == ["3", "5", "6"]
    assert [one["read"] for one in seen] == [b"one", b"three", b"five!!"]


def test_without_keep_alive_a_known_head_keeps_no_connection(worker: Any) -> None:
    def application(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    worker.cfg = Config()
    worker.cfg.set("keepalive", 0)
    for _ in range(2):
        served = Served(worker, application)
        result, answer = served.post(b"body")
        served.close()
        assert (result, b"Connection: close" in answer) == (False, True)
    assert len(worker.heads) == 1


@pytest.mark.parametrize("known", [False, True])
def test_the_rest_of_a_body_that_came_too_late_is_no_request(worker: Any, known: bool) -> None:
    seen: list[bytes] = []
    reading = threading.Event()

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        reading.set()
        seen.append(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    worker.wsgi, worker.read_timeout = application, 60
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), timeout=10)
        ours, peer = listener.accept()
    conn = TConn(CONFIG, ours, peer, ours.getsockname())
    conn.data_ready = True
    results: list[Any] = []
    with client, ours:
        if known:
            client.sendall(post(b""))
            assert worker.handle(conn) is True
            assert client.recv(10_000)
        reading.clear()
        thread = threading.Thread(target=lambda: results.append(worker.handle(conn)))
        client.sendall(post(SMUGGLED)[: -len(SMUGGLED)])
        thread.start()
        assert reading.wait(10)
        worker._begun[conn] -= 61  # as if it had begun a minute ago
        worker.murder_keepalived()
        client.sendall(SMUGGLED)
        thread.join()
    assert results == [False]
    assert len(seen) == 1 + known


def test_a_worker_that_stops_takes_the_length_of_the_request_it_has(worker: Any) -> None:
    seen: list[tuple[str, bytes]] = []

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.append((environ["CONTENT_LENGTH"], environ["wsgi.input"].read()))
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    served = Served(worker, application)
    served.post(b"a long body")
    worker.alive = False
    result, answer = served.post(b"short")
    served.close()
    assert seen == [("11", b"a long body"), ("5", b"short")]
    assert (result, b"Connection: close" in answer) == (False, True)


@pytest.mark.parametrize("broken", ["before", "in"])
def test_an_application_that_fails_ends_the_connection_with_an_answer_if_it_can(worker: Any, broken: str) -> None:
    failing = False

    def application(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        if failing and broken == "before":
            raise RuntimeError("no answer")
        start_response("200 OK", [("Content-Length", "4")])
        yield b"ok"
        if failing:
            raise RuntimeError("half an answer")
        yield b"ok"

    served = Served(worker, application)
    assert served.post(b"one")[1].endswith(b"okok")
    failing = True
    result, answer = served.post(b"two")
    served.close()
    assert result is False
    assert answer.count(b"HTTP/1.1") == 1
    assert (b" 500 " in answer) == (broken == "before")
