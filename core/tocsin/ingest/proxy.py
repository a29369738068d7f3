"""The pass-through endpoint: a remote-write body goes to every writer as it came."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from tocsin.http.context import Context, Raw
from tocsin.http.errors import ApiError
from tocsin.http.metrics import Metrics
from tocsin.ingest.board import Board
from tocsin.ingest.metrics import DURATIONS
from tocsin.ingest.settings import PushgwSettings
from tocsin.ingest.throttle import Throttle
from tocsin.plugin import WriteError, Writer

log = logging.getLogger(__name__)


class Proxy:
    """Forwards bodies: best effort, no retry, and the client is told that all went well."""

    def __init__(self, settings: PushgwSettings, writers: Sequence[Writer], board: Board, metrics: Metrics) -> None:
        """Forward to those of `writers` that can pass on a raw body.

        :param board: its last column counts the requests in flight over all workers.
        """
        self._settings, self._board = settings, board
        self._column = settings.writer_options.effective().queue_number
        self._writers = [writer for writer in writers if type(writer).forward_raw is not Writer.forward_raw]
        self._lock = threading.Lock()
        self._warnings = Throttle(log)
        name = "svc_pushgw_proxy_"
        self._total = metrics.counter(name + "remote_write_total", "Pass-through requests.")
        self._inflight = metrics.gauge(name + "remote_write_inflight", "Pass-through requests being served.")
        self._over_limit = metrics.counter(name + "remote_write_over_limit_total", "Refused by ProxyInflightMax.")
        self._too_large = metrics.counter(name + "remote_write_body_too_large_total", "Refused by ProxyMaxBodyBytes.")
        self._forwarded = metrics.counter(name + "forward_total", "Bodies sent, by backend.", ("url",))
        self._errors = metrics.counter(name + "forward_error_total", "Bodies not taken, by backend.", ("url", "reason"))
        self._seconds = metrics.histogram(name + "forward_duration_seconds", "Time to send.", ("url",), DURATIONS)

    def handle(self, context: Context) -> Raw:
        """Serve one request."""
        self._total.inc()
        with self._lock:
            full = self._board.sum(self._column) >= self._settings.proxy_inflight
            if not full:
                self._board.add(self._column, 1)
        if full:
            self._over_limit.inc()
            limit = self._settings.proxy_inflight
            raise ApiError(f"proxy remote write inflight over limit: {limit}", "limit", status=429)
        self._inflight.inc()
        try:
            self._forward(self._body(context), context)
        finally:
            self._inflight.dec()
            with self._lock:
                self._board.add(self._column, -1)
        return Raw(b"", "text/plain; charset=utf-8")

    def _body(self, context: Context) -> bytes:
        try:
            return context.raw_body
        except ApiError as error:
            if error.code != "too_large":
                raise
            self._too_large.inc()
            limit = self._settings.proxy_max_body
            raise ApiError(f"proxy remote write body too large: > {limit} bytes", "too_large") from None

    def _forward(self, body: bytes, context: Context) -> None:
        headers = {name.lower(): value for name, value in context.request.headers.items()}
        query = context.request.query_string
        if self._settings.proxy_concurrent and len(self._writers) > 1:
            with ThreadPoolExecutor(len(self._writers), thread_name_prefix="proxy") as pool:
                list(pool.map(lambda writer: self._send(writer, body, headers, query), self._writers))
            return
        for writer in self._writers:
            self._send(writer, body, headers, query)

    def _send(self, writer: Writer, body: bytes, headers: Mapping[str, str], query: str) -> None:
        self._forwarded.labels(label_of(writer.url)).inc()
        started = time.perf_counter()
        try:
            writer.forward_raw(body, headers, query)
        except WriteError as error:
            self._failed(writer, "status_4xx_5xx" if error.status else "do_request", error)
        except Exception as error:
            self._failed(writer, "build_request", error)
        finally:
            self._seconds.labels(label_of(writer.url)).observe(time.perf_counter() - started)

    def _failed(self, writer: Writer, reason: str, error: Exception) -> None:
        self._errors.labels(label_of(writer.url), reason).inc()
        self._warnings.warning(lambda: f"{writer.url}: pass-through failed ({reason}): {error}", writer.url)


def label_of(url: str) -> str:
    """Return how these metrics call a backend: its addresses without their queries."""
    return ",".join(address.partition("?")[0] for address in url.split(","))
