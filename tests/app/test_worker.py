"""The HTTP worker's shorter way: a thread stays with a connection whose requests follow at once."""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.workers.gthread import TConn, ThreadWorker

from tocsin.app import worker as module
from tocsin.app.worker import Worker


class Connection:
    """What the worker looks at of a connection, nothing read ahead."""

    is_http2 = False
    parser = SimpleNamespace(unreader=SimpleNamespace(buf=SimpleNamespace(tell=lambda: 0)))

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace gunicorn's handling of a request: it takes one byte, and answers that the connection stays."""
    seen: list[Any] = []

    def handle(self: Any, conn: Any) -> Any:
        seen.append(conn.sock.recv(1))
        return seen[-1] != b"q"

    monkeypatch.setattr(ThreadWorker, "handle", handle)
    monkeypatch.setattr(module, "PATIENCE_MS", 20)
    return seen


@pytest.fixture
def worker() -> Any:
    worker = Worker.__new__(Worker)
    worker.alive = True
    worker._begun, worker.keepalived_conns = {}, deque()
    worker.tpool = SimpleNamespace(_work_queue=queue.SimpleQueue())
    return worker


@pytest.fixture
def ends() -> Iterator[tuple[Any, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield Connection(ours), theirs
    ours.close()
    theirs.close()


def test_requests_that_follow_at_once_stay_on_the_thread(worker: Any, served: list[Any], ends: Any) -> None:
    conn, client = ends
    client.sendall(b"abc")
    assert worker.handle(conn) is True
    assert served == [b"a", b"b", b"c"]


def test_a_connection_that_closes_is_left(worker: Any, served: list[Any], ends: Any) -> None:
    conn, client = ends
    client.sendall(b"aqb")
    assert worker.handle(conn) is False
    assert served == [b"a", b"q"]


def test_others_that_wait_come_first(worker: Any, served: list[Any], ends: Any) -> None:
    conn, client = ends
    client.sendall(b"abc")
    worker.tpool._work_queue.put("another connection")
    worker.handle(conn)
    assert served == [b"a"]


def test_a_stopping_worker_takes_no_more(worker: Any, served: list[Any], ends: Any) -> None:
    conn, client = ends
    client.sendall(b"ab")
    worker.alive = False
    worker.handle(conn)
    assert served == [b"a"]


def test_a_busy_connection_queues_again(worker: Any, served: list[Any], ends: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "IN_A_ROW", 2)
    conn, client = ends
    client.sendall(b"abcdef")
    worker.handle(conn)
    assert served == [b"a", b"b", b"c"]


def test_a_worker_without_a_parent_keeps_no_connection(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.ppid, worker.log = os.getppid(), SimpleNamespace(info=lambda *_: None)
    assert worker.is_parent_alive()
    assert worker.alive
    monkeypatch.setattr(os, "getppid", lambda: worker.ppid + 1)
    assert not worker.is_parent_alive()
    assert not worker.alive


@pytest.mark.parametrize("closed", [False, True])
def test_a_connection_that_is_gone_is_counted_once(worker: Any, closed: bool) -> None:
    worker.nr_conns = 3
    ours, theirs = socket.socketpair()
    conn = TConn(Config(), ours, ("127.0.0.1", 4711), ("127.0.0.1", 80))
    theirs.close()
    if closed:
        ours.close()
    answered: Future[bool] = Future()
    answered.set_result(False)
    worker.finish_request(conn, answered)
    assert (worker.nr_conns, ours.fileno()) == (2, -1)


def test_a_request_that_never_ends_gives_its_thread_back(worker: Any, served: list[Any], ends: Any) -> None:
    conn, _ = ends
    worker.read_timeout = 60
    thread = threading.Thread(target=worker.handle, args=(conn,))
    thread.start()
    while conn not in worker._begun:
        thread.join(0.01)
    worker.murder_keepalived()
    assert not served
    worker._begun[conn] -= 61  # as if it had begun a minute ago
    worker.murder_keepalived()
    thread.join()
    assert served[0] == b""
    assert not worker._begun


def test_without_a_limit_requests_may_take_for_ever(worker: Any, served: list[Any], ends: Any) -> None:
    conn, client = ends
    worker._begun[conn] = 0.0
    worker.murder_keepalived()
    client.sendall(b"q")
    assert worker.handle(conn) is False
    assert served == [b"q"]
