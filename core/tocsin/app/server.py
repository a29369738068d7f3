"""The HTTP workers: gunicorn run through its application interface on a socket that the launcher holds."""

from __future__ import annotations

import gc
import os
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication
from prometheus_client.multiprocess import mark_process_dead

from tocsin.app.allocator import keep_freed_memory
from tocsin.app.bootstrap import make_application
from tocsin.app.heads import Heads
from tocsin.app.sections import HttpSettings, default_workers

if TYPE_CHECKING:
    from tocsin.app.core import Core
    from tocsin.http.app import Application


SETTLE_SECONDS = 3
"""What a worker gets beyond the shutdown time, to put away what could not be finished; the launcher allows for it."""


class HttpServer(BaseApplication):
    """Serves one core's application with ``[HTTP] Workers`` processes of ``[HTTP] Threads`` threads."""

    def __init__(self, core: Core, listener: int) -> None:
        self._core = core
        self._listener = listener
        super().__init__()

    def load_config(self) -> None:
        """Translate our settings into gunicorn's."""
        for name, value in gunicorn_options(self._core, self._listener).items():
            self.cfg.set(name, value)

    def load(self) -> Application:
        """Return the application; called in the parent, the workers inherit it."""
        return make_application(self._core)


def gunicorn_options(core: Core, listener: int) -> dict[str, Any]:
    """Return gunicorn's settings for a core; ``listener`` is the file descriptor of a listening socket."""
    http: HttpSettings = core.http
    options: dict[str, Any] = {
        "bind": f"fd://{listener}",
        "workers": http.workers or default_workers(),
        "worker_class": "tocsin.app.worker.Worker",
        "threads": http.threads,
        "timeout": max(http.write_timeout, 10),
        "graceful_timeout": http.shutdown_timeout + SETTLE_SECONDS,
        "keepalive": http.idle_timeout,
        "preload_app": True,
        "worker_tmp_dir": "/dev/shm" if os.path.isdir("/dev/shm") else None,  # noqa: S108 - heartbeat files, no data
        "loglevel": "warning",
        "limit_request_line": 8190,
        "post_fork": lambda _arbiter, worker: _begin(core, worker),
        "post_worker_init": lambda _worker: core.start("http"),
        "worker_exit": lambda _arbiter, _worker: core.stop("http"),
        "child_exit": _forget_worker,
    }
    if http.cert_file and http.key_file:
        options |= {"certfile": http.cert_file, "keyfile": http.key_file, "ssl_context": _tls12_or_newer}
    return options


def _begin(core: Core, worker: Any) -> None:
    gc.freeze()  # as in every forked process: pages stay shared
    keep_freed_memory()
    core.close()
    worker.read_timeout = core.http.read_timeout
    worker.heads = Heads(
        core.metrics.counter(
            "svc_http_request_heads_total", "Requests whose head was asked for among those parsed before.", ("outcome",)
        )
    )
    # Requests under way must not use up the time that the features need after them, before the parent kills the worker.
    worker.cfg.set("graceful_timeout", request_share(core.http.shutdown_timeout))


def request_share(shutdown_timeout: int) -> int:
    """Return how many seconds of the shutdown time requests under way may take; the rest is for what they left behind."""
    return max(1, shutdown_timeout // 3)


def _forget_worker(_arbiter: Any, worker: Any) -> None:
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def _tls12_or_newer(_config: Any, default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    context = default()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
