"""Reaching the store's process: HTTP over its unix socket, with connections kept open."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LONGEST_SOCKET_PATH = 100
"""A little below what the kernel takes for the address of a unix socket."""
POLL_SECONDS = 0.25
_ONE_SEND = 1 << 15
_LONGEST_LINE = 1 << 16


class StoreUnreachable(Exception):
    """The store's process does not answer; a retry may help."""


class ClientLeft(Exception):
    """The client that the answer is for has closed its connection."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the store."""

    status: int
    content_type: str
    body: bytes


class StoreClient:
    """Sends requests to the store. Any number of threads may share it."""

    def __init__(self, path: Path, timeout: float) -> None:
        """`timeout` is the longest silence of the store that is waited for, in seconds."""
        self._path = path
        self._timeout = timeout
        self._idle: list[_Connection] = []

    def request(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        client_left: Callable[[], bool] | None = None,
    ) -> Reply:
        """Send a request and return the answer. Raises StoreUnreachable, ClientLeft."""
        message = _message(method, target, body, headers or {})
        try:
            while self._idle:
                with contextlib.suppress(IndexError):  # another thread was faster
                    connection = self._idle.pop()
                    # The store may have been restarted since; a request that got no answer at all is sent again.
                    with contextlib.suppress(_NoAnswer):
                        return self._exchange(connection, message, client_left)
            return self._exchange(_Connection(self._path, self._timeout), message, client_left)
        except (OSError, ValueError) as error:
            raise StoreUnreachable(f"the embedded store does not answer: {error}") from error

    def _exchange(
        self, connection: _Connection, message: tuple[bytes, bytes], client_left: Callable[[], bool] | None
    ) -> Reply:
        try:
            connection.send(*message)
            if client_left is not None:
                connection.await_answer(client_left)
            reply, stays = connection.receive()
        except BaseException:
            connection.close()
            raise
        if stays:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()


class _NoAnswer(ConnectionError):
    """The store closed the connection instead of answering."""


def _message(method: str, target: str, body: bytes, headers: Mapping[str, str]) -> tuple[bytes, bytes]:
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    if body or method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a line break in a request's target or header")
    return "\r\n".join([*lines, "", ""]).encode("latin-1"), body


class _Connection:
    """A connection to the store. Its server is our own, which always says how long an answer is (see `httpserver`)."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._timeout = timeout
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(timeout)
            with socket_address(path) as address:
                self._socket.connect(address)
        except BaseException:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rb", 1 << 16)
        self._answers = select.poll()
        self._answers.register(self._socket, select.POLLIN)

    def send(self, head: bytes, body: bytes) -> None:
        """Send a request. Raises _NoAnswer when the store has closed the connection already."""
        try:
            if len(body) < _ONE_SEND:
                self._socket.sendall(head + body)
            else:
                self._socket.sendall(head)
                self._socket.sendall(body)
        except ConnectionError as error:
            raise _NoAnswer(str(error)) from error

    def await_answer(self, client_left: Callable[[], bool]) -> None:
        """Wait until the answer begins; raises ClientLeft when nobody waits for it any more, TimeoutError after the timeout."""
        waited = 0.0
        while not self._answers.poll(POLL_SECONDS * 1000):
            waited += POLL_SECONDS
            if client_left():
                raise ClientLeft
            if waited > self._timeout:
                raise TimeoutError("timed out")

    def receive(self) -> tuple[Reply, bool]:
        """Read an answer; returns it, and whether the connection stays. Raises _NoAnswer, OSError, ValueError."""
        try:
            first = self._file.readline(_LONGEST_LINE)
        except ConnectionError as error:
            raise _NoAnswer(str(error)) from error
        if not first:
            raise _NoAnswer("the connection was closed without an answer")
        version, status, *_ = first.split(b" ", 2)
        if not version.startswith(b"HTTP/1."):
            raise ValueError(f"not an HTTP answer: {first[:50]!r}")
        headers = {}
        while (line := self._file.readline(_LONGEST_LINE)) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip()
        length = int(headers.get(b"content-length", b"0"))
        body = self._file.read(length)
        if len(body) < length:
            raise OSError(f"the answer ended after {len(body)} of {length} bytes")
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        return Reply(int(status), content_type, body), headers.get(b"connection", b"").lower() != b"close"

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Give an address for a unix socket, also where its path is longer than the kernel takes."""
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
