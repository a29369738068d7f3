"""Reaching the store's process: HTTP over its unix socket, with connections kept open."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LONGEST_SOCKET_PATH = 100
"""A little below what the kernel takes for the address of a unix socket."""
POLL_SECONDS = 0.25


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
        self._idle: list[_UnixConnection] = []

    def request(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        client_left: Callable[[], bool] | None = None,
    ) -> Reply:
        """Send a request and return the answer. Raises StoreUnreachable, ClientLeft."""
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread was faster
                connection = self._idle.pop()
                # The store may have been restarted since; a request that got no answer at all is sent again.
                with contextlib.suppress(http.client.RemoteDisconnected, ConnectionError):
                    return self._exchange(connection, method, target, body, headers, client_left)
        try:
            return self._exchange(self._connect(), method, target, body, headers, client_left)
        except (OSError, http.client.HTTPException) as error:
            raise StoreUnreachable(f"the embedded store does not answer: {error}") from error

    def _connect(self) -> _UnixConnection:
        return _UnixConnection(self._path, self._timeout)

    def _exchange(
        self,
        connection: _UnixConnection,
        method: str,
        target: str,
        body: bytes,
        headers: Mapping[str, str] | None,
        client_left: Callable[[], bool] | None,
    ) -> Reply:
        try:
            connection.request(method, target, body or None, dict(headers or {}))
            if client_left is not None:
                connection.await_answer(client_left)
            response = connection.getresponse()
            reply = Reply(response.status, response.getheader("Content-Type", ""), response.read())
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return reply

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        with socket_address(self._path) as address:
            self.sock.connect(address)

    def await_answer(self, client_left: Callable[[], bool]) -> None:
        """Wait until the answer begins; raises ClientLeft when nobody waits for it any more, TimeoutError after the timeout."""
        waited = 0.0
        answers = select.poll()
        answers.register(self.sock, select.POLLIN)
        while not answers.poll(POLL_SECONDS * 1000):
            waited += POLL_SECONDS
            if client_left():
                raise ClientLeft
            if self.timeout is not None and waited > self.timeout:
                raise TimeoutError("timed out")


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
