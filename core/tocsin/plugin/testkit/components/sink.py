"""A loopback HTTP server that records what it is sent and misbehaves on demand."""

import contextlib
import http.server
import socket
import socketserver
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tocsin.plugin.testkit.components.process import PATIENCE


@dataclass(frozen=True)
class Request:
    """One received request; header names are lower case, `at` is `time.monotonic()` when its body was complete."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    at: float


@dataclass(frozen=True)
class Answer:
    """A well-behaved response; the body is sent as it is, with its length."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds before the response begins."""


@dataclass(frozen=True)
class Redirect:
    """A redirect to `location`."""

    location: str
    status: int = 307


@dataclass(frozen=True)
class Hang:
    """Read the request and say nothing until the client gives up or the sink stops."""


@dataclass(frozen=True)
class Trickle:
    """Promise `body` and send it `piece` bytes at a time, `interval` seconds apart."""

    body: bytes = b"x" * 1000
    interval: float = 0.05
    piece: int = 1
    status: int = 200


@dataclass(frozen=True)
class Reset:
    """Reset the connection: at once, or after the headers and `after` bytes of a longer body."""

    after: int | None = None
    status: int = 200


@dataclass(frozen=True)
class Huge:
    """Answer `size` bytes, without saying so beforehand, in a body that ends with the connection."""

    size: int
    status: int = 200
    filler: bytes = b" "


Behaviour = Answer | Redirect | Hang | Trickle | Reset | Huge
Choose = Callable[[Request], Behaviour]

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close sends RST instead of FIN


class HttpSink:
    """A threaded HTTP server on an ephemeral loopback port, used as a context manager.

    Requests are answered by the behaviours queued with `then`, one each, and by `default` once the queue is empty.
    `default` may be a function from request to behaviour. With `tls` the sink speaks HTTPS.
    """

    def __init__(self, default: Behaviour | Choose | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.default: Behaviour | Choose = default if default is not None else Answer()
        self._queue: deque[Behaviour] = deque()
        self._requests: list[Request] = []
        self._arrived = threading.Condition()
        self._server = _Server(self, tls)
        scheme = "https" if tls else "http"
        self.port: int = self._server.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name=f"http-sink-{self.port}"
        )
        self._started = False

    def start(self) -> Self:
        """Start answering; until then connections wait in the listen queue."""
        self._started = True
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop listening, cut every open connection and wait for all threads; afterwards the port refuses."""
        self.stopping.set()
        if self._started:
            self._server.shutdown()
            self._thread.join()
            self._started = False
        self._server.cut_connections()
        self._server.server_close()

    def then(self, *behaviours: Behaviour) -> Self:
        """Queue one behaviour per coming request."""
        with self._arrived:
            self._queue.extend(behaviours)
        return self

    @property
    def requests(self) -> list[Request]:
        """The requests received so far, in the order in which their bodies were complete."""
        with self._arrived:
            return list(self._requests)

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return self._server.open_connections()

    def clear(self) -> None:
        """Forget the requests received so far and the behaviours that are still queued."""
        with self._arrived:
            self._requests.clear()
            self._queue.clear()

    def wait_for(self, count: int, timeout: float = PATIENCE) -> list[Request]:
        """Wait until at least `count` requests have come and return all; `TimeoutError` tells how many came."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self._requests) >= count, timeout):
                raise TimeoutError(f"expected {count} requests within {timeout:g} s, got {len(self._requests)}")
            return list(self._requests)

    def wait_until(self, check: Callable[[list[Request]], bool], timeout: float = PATIENCE) -> list[Request]:
        """Wait until `check` holds for the requests received so far and return them."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: check(self._requests), timeout):
                raise TimeoutError(f"condition not met within {timeout:g} s by {len(self._requests)} requests")
            return list(self._requests)

    def record(self, request: Request) -> Behaviour:
        """Keep a request and return how to answer it (called by the server's threads)."""
        with self._arrived:
            self._requests.append(request)
            self._arrived.notify_all()
            if self._queue:
                return self._queue.popleft()
        return self.default(request) if callable(self.default) else self.default

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Server(socketserver.ThreadingTCPServer):
    """Accepts connections and remembers them, so that a hanging one can be cut."""

    allow_reuse_address = True
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, sink: HttpSink, tls: ssl.SSLContext | None) -> None:
        self.sink = sink
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection; the TLS handshake happens here, in the connection's own thread."""
        connection = request
        if self._tls is not None:
            connection = self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with self._guard:
            if self.sink.stopping.is_set():
                connection.close()
                return
            self._open.add(connection)
        try:
            if self._tls is not None:
                connection.do_handshake()
            super().finish_request(connection, client_address)
        finally:
            with self._guard:
                self._open.discard(connection)
            connection.close()

    def shutdown_request(self, request: Any) -> None:
        """Close without the polite shutdown first: it would turn a reset into an ordinary end."""
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that break off, and connections we cut, are the point of the exercise: say nothing."""

    def open_connections(self) -> int:
        """Return the number of connections being served."""
        with self._guard:
            return len(self._open)

    def cut_connections(self) -> None:
        """Wake every thread that waits for a client."""
        with self._guard:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Reads requests of any method and plays the behaviour that the sink chooses."""

    protocol_version = "HTTP/1.1"
    server: _Server
    connection: socket.socket

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are kept, not printed."""

    def _serve(self) -> None:
        target = urlsplit(self.path)
        request = Request(
            method=self.command,
            path=target.path,
            query=parse_qs(target.query, keep_blank_values=True),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self._body(),
            at=time.monotonic(),
        )
        self._play(self.server.sink.record(request))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def _play(self, behaviour: Behaviour) -> None:
        match behaviour:
            case Answer():
                self.server.sink.stopping.wait(behaviour.delay)
                self._respond(behaviour.status, behaviour.headers, behaviour.body)
            case Redirect():
                self._respond(behaviour.status, {"Location": behaviour.location}, b"")
            case Hang():
                self._wait_for_client()
            case Trickle():
                self._trickle(behaviour)
            case Reset():
                self._reset(behaviour)
            case Huge():
                self._huge(behaviour)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        bodiless = status in (204, 304) or status < 200
        length = {} if bodiless or "Content-Length" in headers else {"Content-Length": str(len(body))}
        self._head(status, {**headers, **length})
        if not bodiless and self.command != "HEAD":
            self.wfile.write(body)

    def _wait_for_client(self) -> None:
        self.close_connection = True
        self.connection.settimeout(None)
        self.rfile.read(1)  # returns when the client closes, or when `stop` cuts the connection

    def _trickle(self, behaviour: Trickle) -> None:
        self.close_connection = True
        self._head(behaviour.status, {"Content-Length": str(len(behaviour.body))})
        for start in range(0, len(behaviour.body), behaviour.piece):
            self.wfile.write(behaviour.body[start : start + behaviour.piece])
            if self.server.sink.stopping.wait(behaviour.interval):
                return

    def _reset(self, behaviour: Reset) -> None:
        self.close_connection = True
        if behaviour.after is not None:
            self._head(behaviour.status, {"Content-Length": str(behaviour.after + 1000)})
            self.wfile.write(b"x" * behaviour.after)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _huge(self, behaviour: Huge) -> None:
        self.close_connection = True
        self._head(behaviour.status, {"Connection": "close"})
        block = behaviour.filler * (65536 // len(behaviour.filler))
        left = behaviour.size
        while left > 0 and not self.server.sink.stopping.is_set():
            self.wfile.write(block[: min(left, len(block))])
            left -= len(block)
