"""The store as a process: open, serve on a unix socket, close."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, disable_created_metrics

from tocsin_tsdb.api.app import create_app
from tocsin_tsdb.api.options import MAX_BODY, ApiOptions
from tocsin_tsdb.client import socket_address
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.storage.maintenance import Maintenance
from tocsin_tsdb.storage.options import StoreOptions
from tocsin_tsdb.storage.store import Store

log = logging.getLogger(__name__)

CONNECTIONS = 1024
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
POLL_SECONDS = 1.0
DRAIN_SECONDS = 20.0
"""How long running requests may take to finish when the process stops."""


def serve(
    socket_path: Path,
    store_options: StoreOptions,
    api_options: ApiOptions,
    *,
    lookback_ms: int,
    max_samples: int,
    stopping: threading.Event,
    ready: Callable[[], None],
    clock: Callable[[], float] = time.time,
) -> None:
    """Serve until `stopping` is set, then finish requests and close the store. Raises StoreUnusable."""
    _return_memory_early()
    disable_created_metrics()  # type: ignore[no-untyped-call] # the standard names are enough
    registry = CollectorRegistry()
    store = Store(store_options, registry, clock)
    maintenance = Maintenance(store)
    engine = Engine(store, lookback_ms=lookback_ms, max_samples=max_samples, timeout=api_options.query_timeout)
    app = create_app(store, maintenance, engine, api_options, registry)
    http = HttpLoop(_make_server(app, socket_path, api_options))
    maintenance.start()
    http.start()
    log.info("the embedded store serves %s", store_options.directory)
    ready()
    try:
        stopping.wait()
    finally:
        http.stop()
        maintenance.stop()
        store.close()
        with contextlib.suppress(FileNotFoundError):
            socket_path.unlink()


def _return_memory_early() -> None:
    """Have the C library give large arrays back at once: they come and go with every query, and fragments of them would stay."""
    with contextlib.suppress(OSError, AttributeError):  # another C library: its own rules
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 1 << 20)
        mallopt(M_ARENA_MAX, 2)


def _make_server(app: Any, socket_path: Path, options: ApiOptions) -> Any:
    from waitress.server import create_server  # type: ignore[import-untyped]

    return create_server(
        app,
        sockets=[_listen(socket_path)],
        threads=2 * options.query_concurrency + 8,
        connection_limit=CONNECTIONS,
        channel_request_lookahead=1,
        recv_bytes=1 << 18,
        inbuf_overflow=MAX_BODY,
        outbuf_overflow=2 * MAX_BODY,
        max_request_body_size=MAX_BODY + 1,
        asyncore_use_poll=True,
        clear_untrusted_proxy_headers=False,
        ident="",
    )


class HttpLoop:
    """Runs a waitress server in a thread and stops it without cutting off requests that are being answered."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tsdb-http", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def _run(self) -> None:
        server = self._server
        while not self._done.is_set():
            server.asyncore.loop(timeout=POLL_SECONDS, map=server._map, use_poll=True, count=1)

    def stop(self) -> None:
        """Finish running requests, then close every connection."""
        self._server.task_dispatcher.shutdown(cancel_pending=False, timeout=DRAIN_SECONDS)
        self._done.set()
        self._server.pull_trigger()
        self._thread.join()
        self._server.asyncore.close_all(self._server._map, ignore_all=True)


def _listen(path: Path) -> socket.socket:
    """Listen on a unix socket that only this user can reach, replacing what an earlier process left."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        with socket_address(path) as address:
            listener.bind(address)
    finally:
        os.umask(mask)
    listener.listen(CONNECTIONS)
    return listener
