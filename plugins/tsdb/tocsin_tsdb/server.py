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

from prometheus_client import CollectorRegistry, disable_created_metrics

from tocsin_tsdb.api.app import create_app
from tocsin_tsdb.api.options import MAX_BODY, ApiOptions
from tocsin_tsdb.client import socket_address
from tocsin_tsdb.httpserver import UnixServer
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.storage.maintenance import Maintenance
from tocsin_tsdb.storage.options import StoreOptions
from tocsin_tsdb.storage.store import Store

log = logging.getLogger(__name__)

CONNECTIONS = 512
"""Connections served at once, each by a thread. The service's workers keep one for every request that they ever had under way at
the same time: this leaves room for many workers, whose requests then wait for the slots of queries and writes."""
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
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
    http = UnixServer(app, _listen(socket_path), most_connections=CONNECTIONS, max_body=MAX_BODY)
    maintenance.start()
    http.start()
    log.info("the embedded store serves %s", store_options.directory)
    ready()
    try:
        stopping.wait()
    finally:
        http.stop(DRAIN_SECONDS)
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
