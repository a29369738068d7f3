"""Answers that must be complete at a point in time, however slowly they trickle in."""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any


class TimedReader(io.RawIOBase):
    """Reads from a socket until a deadline (``time.monotonic``); a socket's own timeout starts anew with each byte."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._inner: Any = sock.makefile("rb", buffering=0)
        self.deadline = deadline

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Fill ``buffer`` with what has come; raise ``TimeoutError`` when the time is up."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)
        read: int | None = self._inner.readinto(buffer)
        return read

    def close(self) -> None:
        """Let go of the socket."""
        self._inner.close()
        super().close()


class TimedResponse(http.client.HTTPResponse):
    """An HTTP answer read through a :class:`TimedReader`, head and body."""

    def __init__(self, sock: socket.socket, deadline: float, **options: Any) -> None:
        super().__init__(sock, **options)
        self.fp.close()
        self.reader = TimedReader(sock, deadline)
        self.fp = io.BufferedReader(self.reader)
