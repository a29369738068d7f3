"""A WSGI server on a unix socket: every connection has a thread that reads a request, answers it and waits for the next.

Its clients are few and known: the service's own workers, which keep their connections. With an event loop in front of the
threads every request would change threads twice, which costs more than most queries, and a long answer would be copied into
the loop's buffers. The protocol is read by httptools, the parser of Node.js.
"""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import httptools

log = logging.getLogger(__name__)

CLIENT_LEFT = "tsdb.client_left"
"""Key of the WSGI environment: a function that tells whether the client has closed its connection."""
SILENCE_SECONDS = 60
"""How long a client may pause within a request or an answer."""
MAX_HEAD = 1 << 18
_RECEIVE = 1 << 16
_ONE_SEND = 1 << 15
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Request:
    """One request, filled in by the parser."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body: list[bytes] = []
        self.head_size = self.body_size = 0
        self.method = self.version = ""
        self.keep_alive = False


class _Refused(Exception):
    """The bytes are no request that is served; the status says why."""


class _Reader:
    """Makes requests of the bytes of one connection. The methods whose names begin with `on_` are called by the parser."""

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._parser = httptools.HttpRequestParser(self)
        self._request = _Request()
        self._pending_head = 0
        self._refusal: HTTPStatus | None = None
        self._expects_continue = False
        self.complete: deque[_Request] = deque()
        self.started = False

    def feed(self, data: bytes) -> bool:
        """Take bytes; returns whether the client now waits to be told to go on. Raises _Refused with a status."""
        self._pending_head += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise _Refused(HTTPStatus.NOT_IMPLEMENTED) from None
        except httptools.HttpParserError:
            raise _Refused(HTTPStatus.BAD_REQUEST) from None
        if self._pending_head > MAX_HEAD:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        if self._refusal is not None:
            raise _Refused(self._refusal)
        waits, self._expects_continue = self._expects_continue, False
        return waits and self.started and not self._request.body

    def on_message_begin(self) -> None:
        self._request = _Request()
        self.started = True

    def on_url(self, url: bytes) -> None:
        self._request.url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers.append((name, value))
        self._count_head(len(name) + len(value))
        if name.lower() == b"expect":
            self._expects_continue = value.lower() == b"100-continue"

    def _count_head(self, size: int) -> None:
        self._request.head_size += size
        if self._request.head_size > MAX_HEAD:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE

    def on_headers_complete(self) -> None:
        request = self._request
        request.method = self._parser.get_method().decode()
        request.version = self._parser.get_http_version()
        request.keep_alive = self._parser.should_keep_alive()
        self._pending_head = 0

    def on_body(self, body: bytes) -> None:
        request = self._request
        request.body.append(body)
        request.body_size += len(body)
        self._pending_head = 0
        if request.body_size > self._max_body:
            self._refusal = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

    def on_message_complete(self) -> None:
        self.complete.append(self._request)
        self.started = False
        self._pending_head = 0


class _Connection:
    """A client's connection, served by one thread."""

    def __init__(self, server: UnixServer, connection: socket.socket) -> None:
        self._server = server
        self._socket = connection
        self._reader = _Reader(server.max_body)
        pause = struct.pack("ll", SILENCE_SECONDS, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, pause)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pause)

    def run(self) -> None:
        """Serve until the client or the server has had enough."""
        try:
            try:
                while (request := self._next()) is not None and self._serve(request):
                    pass
            except _Refused as refusal:
                self._refuse(refusal.args[0])
        except OSError:  # the client is gone, or silent for too long
            pass
        except Exception:
            log.exception("a connection to the store failed")
        finally:
            self._socket.close()
            self._server.forget(self)

    def _next(self) -> _Request | None:
        """Wait for a request; None when there is none any more."""
        reader = self._reader
        while not reader.complete:
            if self._server.stopping and not reader.started:
                return None
            try:
                data = self._socket.recv(_RECEIVE)
            except BlockingIOError:  # nothing for SILENCE_SECONDS
                if reader.started:
                    raise
                continue
            if not data:
                return None
            if reader.feed(data):
                self._socket.sendall(_CONTINUE)
        return reader.complete.popleft()

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer with a status, and read what the client still sends: closing too early would take the answer from it."""
        self._send(status, [], b"", keep_alive=False)
        self._socket.shutdown(socket.SHUT_WR)
        rest = self._server.max_body
        while rest > 0 and (data := self._socket.recv(_RECEIVE)):
            rest -= len(data)

    def interrupt(self) -> None:
        """Make the thread notice that the server stops, when it waits for a request."""
        if not self._reader.started:
            with contextlib.suppress(OSError):  # closed already
                self._socket.shutdown(socket.SHUT_RD)

    def _left(self) -> bool:
        if self._server.stopping:  # what `interrupt` did looks the same
            return False
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _serve(self, request: _Request) -> bool:
        """Answer a request; returns whether the connection stays."""
        answer: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            answer[:] = [status, headers]

        try:
            parts = self._server.app(self._environment(request), start_response)
            try:
                body = b"".join(parts) if not isinstance(parts, list) or len(parts) != 1 else parts[0]
            finally:
                close = getattr(parts, "close", None)
                if close is not None:
                    close()
            status, headers = answer
        except Exception:
            log.exception("%s %r failed", request.method, request.url[:200])
            status, headers, body, request.keep_alive = HTTPStatus.INTERNAL_SERVER_ERROR, [], b"", False
        keep_alive = request.keep_alive and not self._server.stopping
        self._send(status, headers, body, keep_alive=keep_alive, bodyless=request.method == "HEAD")
        return keep_alive

    def _send(
        self,
        status: str | HTTPStatus,
        headers: list[tuple[str, str]],
        body: bytes,
        *,
        keep_alive: bool,
        bodyless: bool = False,
    ) -> None:
        line = f"{status.value} {status.phrase}" if isinstance(status, HTTPStatus) else status
        lines = [f"HTTP/1.1 {line}", *(f"{name}: {value}" for name, value in headers)]
        if not any(name.lower() == "content-length" for name, _ in headers) and not line.startswith(
            ("1", "204", "304")
        ):
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"Date: {formatdate(usegmt=True)}", f"Connection: {'keep-alive' if keep_alive else 'close'}", "", ""]
        head = "\r\n".join(lines).encode("latin-1")
        if bodyless:
            body = b""
        if len(body) <= _ONE_SEND:
            self._socket.sendall(head + body)
        else:
            self._socket.sendall(head)
            self._socket.sendall(body)

    def _environment(self, request: _Request) -> dict[str, Any]:
        path, _, query = request.url.partition(b"?")
        environment: dict[str, Any] = {
            "REQUEST_METHOD": request.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query.decode("latin-1"),
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "",
            "SERVER_PROTOCOL": f"HTTP/{request.version}",
            "REMOTE_ADDR": "",
            "CONTENT_LENGTH": str(request.body_size),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(request.body[0] if len(request.body) == 1 else b"".join(request.body)),
            "wsgi.input_terminated": True,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            CLIENT_LEFT: self._left,
        }
        for raw_name, raw_value in request.headers:
            name, value = raw_name.decode("latin-1").upper().replace("-", "_"), raw_value.decode("latin-1")
            if name == "CONTENT_TYPE":
                environment[name] = value
            elif name != "CONTENT_LENGTH":
                key = f"HTTP_{name}"
                environment[key] = f"{environment[key]},{value}" if key in environment else value
        return environment


class UnixServer:
    """Serves a WSGI application on a listening socket.

    most_connections: each has a thread; further ones wait until one leaves. max_body: bytes of a request's body.
    """

    def __init__(self, app: WsgiApp, listener: socket.socket, *, most_connections: int, max_body: int) -> None:
        self.app = app
        self.max_body = max_body
        self.stopping = False
        self._listener = listener
        self._room = threading.BoundedSemaphore(most_connections)
        self._connections: set[_Connection] = set()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._accept, name="tsdb-http", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def _accept(self) -> None:
        while True:
            self._room.acquire()
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                if self.stopping:
                    return
                self._room.release()
                log.exception("the store cannot accept connections")
                time.sleep(1)  # out of file descriptors, most likely: others have to be closed first
                continue
            connection = _Connection(self, accepted)
            with self._changed:
                self._connections.add(connection)
            threading.Thread(target=connection.run, name="tsdb-connection", daemon=True).start()

    def forget(self, connection: _Connection) -> None:
        """Take note that a connection is closed."""
        with self._changed:
            self._connections.discard(connection)
            self._changed.notify_all()
        self._room.release()

    def stop(self, seconds: float) -> None:
        """Accept nothing any more, and wait so long for requests that are being answered."""
        self.stopping = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._changed:
            for connection in self._connections:
                connection.interrupt()
            self._changed.wait_for(lambda: not self._connections, seconds)
