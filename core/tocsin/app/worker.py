"""gunicorn's threaded worker, with a shorter way for senders that do not pause and an end for those that never finish.

gunicorn hands a connection back to its main thread after every request and takes it up again when it becomes readable: two
changes of thread, a future and a poller registration each time. A gateway's busiest clients send the next request as
soon as they have the answer, so the thread that has answered looks once whether it is there already.

A sender that falls silent in the middle of a request, because it was switched off or means harm, would keep its thread for
good: gunicorn reads without a time limit, and a few dozen such connections are all that it serves.

The requests of one sender are alike, so what gunicorn made of a head serves for the next ones too (`heads`).
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from typing import Any

from gunicorn.http import wsgi
from gunicorn.workers.gthread import ThreadWorker

from tocsin.app.heads import Heads, Known, Parser

PATIENCE_MS = 5
"""Milliseconds that a thread waits for the next request of the connection it has just answered."""
IN_A_ROW = 100
"""Requests of one connection after which it has to queue again like the others."""
OF_ONE_REQUEST = frozenset(
    (
        *("wsgi.input", "gunicorn.socket", "CONTENT_LENGTH", "REMOTE_PORT"),
        *("wsgi.early_hints", "wsgi.file_wrapper"),  # offers to the application that no handler takes
    )
)
"""What an environment does not share with that of the next request with the same head."""


class Worker(ThreadWorker):
    """Serves a connection for as long as requests follow on each other and nobody else waits for a thread."""

    nr_conns: int
    read_timeout = 0
    """Seconds in which a request must have come in whole; 0 means no limit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._begun: dict[Any, float] = {}  # connections on a thread, and since when they have been with this request
        self.heads = Heads()

    def handle(self, conn: Any) -> Any:
        """Serve a request, and those that follow at once."""
        result = self._serve(conn)
        for _ in range(IN_A_ROW):
            if result is not True or not self.alive or not self.tpool._work_queue.empty() or not _follows(conn):
                break
            result = self._serve(conn)
        return result

    def _serve(self, conn: Any) -> Any:
        if conn.parser is None and not self.cfg.is_ssl and isinstance(conn.client, tuple):
            conn.parser = Parser(self.cfg, conn.sock, conn.client, self.heads)
        self._begun[conn] = time.monotonic()
        try:
            result = super().handle(conn)
        finally:
            del self._begun[conn]
        return False if getattr(conn, "cut_off", False) else result

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Take a connection back from its thread; one that is gone is counted once.

        gunicorn counts one twice that it has closed already, as after an answer that broke off or TLS that ended
        abruptly. A stopping worker would think that nobody is left, and cut off as many of those that it still serves.
        """
        before = self.nr_conns
        super().finish_request(conn, fs)
        self.nr_conns = max(self.nr_conns, before - 1)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close connections that were idle for too long, and end the reading of requests that take too long to come in.

        For a request that came in whole, and takes long to answer, that only means that its connection is not kept.
        """
        super().murder_keepalived(force)
        if self.read_timeout > 0:
            latest = time.monotonic() - self.read_timeout
            for conn, begun in list(self._begun.items()):
                if begun < latest:
                    conn.cut_off = True  # the rest of a body may still come, and must not pass for another request
                    with contextlib.suppress(OSError):
                        # Not an SSLSocket's own, which ends TLS in both directions.
                        socket.socket.shutdown(conn.sock, socket.SHUT_RD)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer a request; return whether the connection stays."""
        known: Known | None = getattr(req, "known", None)
        if known is None or not self.alive:
            return super().handle_request(req, conn)
        if not known.environ:
            _, environ = wsgi.create(req, conn.sock, conn.client, conn.server, self.cfg)
            shared = {name: value for name, value in environ.items() if name not in OF_ONE_REQUEST}
            known.environ = {**shared, "wsgi.multithread": True}
        environ = {
            **known.environ,
            "wsgi.input": req.body,
            "gunicorn.socket": conn.sock,
            "CONTENT_LENGTH": req.length,
            "REMOTE_PORT": str(conn.client[1]),
        }
        response = wsgi.Response(req, conn.sock, self.cfg)
        if not self.cfg.keepalive or len(self.keepalived_conns) >= self.max_keepalived:
            response.force_close()
        self._write(response, self.wsgi(environ, response.start_response))
        return not response.should_close()

    def _write(self, response: Any, body: Any) -> None:
        """Send an answer; one that breaks off ends the connection, as nothing can be said in it any more."""
        try:
            for item in body:
                response.write(item)
            response.close()
        except Exception as error:
            if isinstance(error, OSError) or not response.headers_sent:
                raise
            self.log.exception("an answer broke off")
            raise StopIteration from None
        finally:
            if hasattr(body, "close"):
                body.close()

    def is_parent_alive(self) -> bool:
        """Tell whether the parent lives; without one the worker says goodbye to its clients, as it does when it is told."""
        parent_alive: bool = super().is_parent_alive()
        if not parent_alive:
            self.alive = False
        return parent_alive

    def _cap_keepalive(self, deadline: float) -> None:
        """Give kept-alive connections a last moment at a stop, and likewise those that have never sent anything."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)


def _follows(conn: Any) -> bool:
    """Whether another request begins to arrive; only the poller knows for connections with TLS or read-ahead."""
    if isinstance(conn.sock, ssl.SSLSocket) or conn.is_http2 or conn.parser.unreader.buf.tell():
        return False
    poll = select.poll()
    poll.register(conn.sock, select.POLLIN)
    return bool(poll.poll(PATIENCE_MS))
