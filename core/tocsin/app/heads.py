"""Request heads that gunicorn has parsed before: a sender's requests differ in their length and nothing else.

The first request of a sender is read by gunicorn with all its checks. Its head, without the digits of its length, is then a key
to what gunicorn made of it, so that the same bytes are not taken apart, checked and put into an environment again. Only
heads whose meaning hangs on nothing but their bytes and the peer's address are remembered: those of a POST over HTTP/1.1
with a length, which neither expects an interim answer nor ends the connection.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from typing import Any

from gunicorn.http.body import Body, LengthReader
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser

LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,15})\r\n", re.IGNORECASE)
LONGEST = 2048
"""Bytes of a head that is remembered."""
READ_AHEAD = 16384
"""Bytes asked for at the beginning of a request; what is more than its head is the beginning of its body."""
CAPACITY = 1024
"""Heads remembered by a worker; each is some kilobytes."""

Key = tuple[str, bytes, bytes]


@dataclass(slots=True)
class Known:
    """What gunicorn made of a head."""

    facts: dict[str, Any]
    """The attributes of its request, but for those that belong to one connection."""
    environ: dict[str, Any] = field(default_factory=dict)
    """The WSGI environment without what belongs to one request; made by the first that is answered."""


class Heads:
    """The memory of a worker: two generations, of which the older goes when the younger is full."""

    def __init__(self, lookups: Any = None, capacity: int = CAPACITY) -> None:
        """Remember so many heads.

        :param lookups: counter with one label, for ``hit`` and ``miss``.
        """
        self._half = capacity // 2
        self._hit, self._miss = (lookups.labels(name).inc if lookups else _nothing for name in ("hit", "miss"))
        self._young: dict[Key, Known] = {}
        self._old: dict[Key, Known] = {}

    def get(self, key: Key) -> Known | None:
        """Return what is known of a head."""
        known = self._young.get(key)
        if known is None and (known := self._old.get(key)) is not None:
            self._put(key, known)
        (self._miss if known is None else self._hit)()
        return known

    def learn(self, key: Key, request: Request) -> None:
        """Remember what a head means, if that is the same each time."""
        if (
            request.method == "POST"
            and request.version == (1, 1)
            and isinstance(request.body.reader, LengthReader)
            and not request._expected_100_continue
            and not request.should_close()
        ):
            facts = {name: value for name, value in vars(request).items() if name not in ("unreader", "body")}
            self._put(key, Known(facts))

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def _put(self, key: Key, known: Known) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = known


def _nothing() -> None:
    """Count nothing."""


class WholeBody(Body):
    """A body of known length, which is nearly always read as a whole: with one system call and without a copy."""

    def __init__(self, unreader: Any, length: int) -> None:
        super().__init__(LengthReader(unreader, length))

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left."""
        return self.reader.length == 0 and not self.buf.tell()

    def read(self, size: int | None = None) -> bytes:
        """Return up to so many bytes, all that are left by default."""
        left: int = self.reader.length
        whole = size is None or size < 0 or size >= left
        if not whole or left == 0 or self.buf.tell():
            return super().read(size)  # type: ignore[no-any-return]
        unreader = self.reader.unreader
        held: bytes = unreader.take_buffered()
        if len(held) > left:
            unreader.unread(held[left:])  # the next request
            held = held[:left]
        self.reader.length = 0
        left -= len(held)
        pieces = [held] if held else []
        self.failed = left > 0  # until the last byte of it is here: what comes later must not pass for another request
        while left:
            # Less comes than was asked for when the socket has a time limit, or at a signal.
            piece: bytes = unreader.sock.recv(left, socket.MSG_WAITALL)
            if not piece:
                break
            left -= len(piece)
            pieces.append(piece)
            self.failed = left > 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Parser(RequestParser):
    """gunicorn's parser of a connection, which does not parse a head that is known."""

    mesg: Any
    """The latest request."""

    def __init__(self, cfg: Any, sock: socket.socket, client: tuple[Any, ...], heads: Heads) -> None:
        super().__init__(cfg, sock, client)
        self._heads, self._peer = heads, client[0]

    def __next__(self) -> Request:
        """Return the next request."""
        if self.mesg is not None and (self.mesg.should_close() or not self.finish_body()):
            raise StopIteration
        data: bytes = self.unreader.read(None, read_ahead=READ_AHEAD)
        end = data.find(b"\r\n\r\n", 0, LONGEST) + 4
        length = LENGTH.search(data, 0, end) if end >= 4 else None
        if length is None:
            self.unreader.unread(data)
            return super().__next__()
        key = self._peer, data[: length.start(1)], data[length.end(1) : end]
        known = self._heads.get(key)
        if known is None:
            self.unreader.unread(data)
            request = super().__next__()
            self._heads.learn(key, request)
            return request
        self.unreader.unread(data[end:])
        self.req_count += 1
        self.mesg = self._again(known, length[1])
        return self.mesg

    def finish_body(self, deadline: float | None = None, max_bytes: int | None = None) -> bool:
        """Read what is left of a body; return whether that is done."""
        body = getattr(self.mesg, "body", None)
        if isinstance(body, WholeBody) and body.ended and not body.failed:
            return True
        return bool(super().finish_body(deadline, max_bytes)) and not getattr(body, "failed", False)

    def _again(self, known: Known, length: bytes) -> Request:
        """Return a request like a known one with a length and a body of its own."""
        request = Request.__new__(Request)
        request.__dict__.update(known.facts)
        request.unreader, request.req_number, request.known = self.unreader, self.req_count, known
        request.peer_addr = request.remote_addr = self.source_addr
        request.body = WholeBody(self.unreader, int(length))
        request.length = length.decode()
        own = ("CONTENT-LENGTH", request.length)
        request.headers = [own if pair[0] == "CONTENT-LENGTH" else pair for pair in request.headers]
        request.trailers = []
        return request
