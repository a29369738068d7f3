"""Runs a process kind: opens the port, starts the HTTP workers, the alert engine and the sidecars, and keeps them alive.

Signals are only queued; one loop acts on them.  SIGTERM and SIGINT drain and end, SIGHUP reads the configuration again
and replaces the children one by one while the port stays open.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin import __version__
from tocsin.app.bootstrap import configure_logging, open_core, prepare
from tocsin.app.children import Child, fork
from tocsin.app.jobs import JobRunner
from tocsin.plugin import Sidecar

if TYPE_CHECKING:
    from tocsin.app.core import Core

log = logging.getLogger(__name__)

WITH_ENGINE = frozenset(("center", "alert"))
READY_SECONDS = 60.0
"""How long a sidecar may take to serve before the HTTP workers are started without it."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD)


class Launcher:
    """Supervises the processes of one installation."""

    def __init__(self, process: str, directory: Path, listener: socket.socket, core: Core) -> None:
        self._process = process
        self._directory = directory
        self._listener = listener
        self._core = core
        self._children: dict[str, Child] = {}
        self._retired: set[int] = set()
        self._wake, self._woken = socket.socketpair()

    def run(self) -> int:
        """Start everything and supervise until a signal ends it; return the exit code."""
        self._catch_signals()
        self._core.close()
        self._start_all()
        while True:
            for number in self._queued_signals():
                if number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                    self._shut_down()
                    return 0
                if number == signal.SIGHUP:
                    self._reload()
            self._reap()
            self._revive()

    def _catch_signals(self) -> None:
        for end in (self._wake, self._woken):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)

    def _queued_signals(self) -> bytes:
        """Wait for signals until the next restart is due, and return their numbers."""
        waiting = [child.due for child in self._children.values() if not child.pid]
        timeout = max(0.0, min(waiting) - time.monotonic()) if waiting else None
        if select.select([self._woken], [], [], timeout)[0]:
            return self._woken.recv(4096)
        return b""

    def _start_all(self) -> None:
        sidecars = self._core.plugins.of(Sidecar).values() if self._process == "center" else ()
        for sidecar in sidecars:
            if sidecar.enabled(self._core):
                self._add_sidecar(sidecar)
        self._add(Child("http", lambda core=self._core: serve_http(core, self._listener)))  # type: ignore[misc]
        if self._process in WITH_ENGINE:
            self._add(Child("engine", lambda core=self._core: run_engine(core)))  # type: ignore[misc]

    def _add(self, child: Child) -> None:
        self._children[child.name] = child
        child.start(time.monotonic())

    def _add_sidecar(self, sidecar: Sidecar) -> None:
        reader, writer = os.pipe()
        core = self._core
        self._add(Child(f"sidecar {sidecar.name}", lambda: run_sidecar(core, sidecar, writer)))
        os.set_blocking(reader, False)
        ready, _, _ = select.select([reader], [], [], READY_SECONDS)
        if not ready:
            log.warning("sidecar %s is not ready after %.0f s, going on without it", sidecar.name, READY_SECONDS)
        os.close(reader)
        # The write end stays open for restarted sidecars: their readiness is not waited for, writing must not fail.

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._retired.discard(pid)
            for child in self._children.values():
                if child.pid == pid:
                    child.ended(status, time.monotonic())

    def _revive(self) -> None:
        now = time.monotonic()
        for child in self._children.values():
            if not child.pid and child.due <= now:
                child.start(now)

    def _reload(self) -> None:
        try:
            core = open_core(self._process, self._directory)
            prepare(core)
        except Exception:
            log.exception("the new configuration cannot be used, the service goes on with the one it has")
            return
        core.close()
        self._core = core
        old = list(self._children.values())
        for child in old:
            if child.name.startswith("sidecar"):
                self._stop([child])
        self._children = {}
        self._start_all()
        for child in old:
            if child.pid:
                self._retired.add(child.pid)
                child.signal(signal.SIGTERM)
        log.info("configuration read again")

    def _shut_down(self) -> None:
        """Drain in order: HTTP and engine first, then the sidecars they depend on."""
        log.info("stopping")
        sidecars = [c for c in self._children.values() if c.name.startswith("sidecar")]
        self._stop([c for c in self._children.values() if c not in sidecars])
        self._stop(sidecars)

    def _stop(self, children: list[Child]) -> None:
        for child in children:
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + self._core.http.shutdown_timeout + 5
        while any(child.pid for child in children):
            left = deadline - time.monotonic()
            if left <= 0:
                for child in children:
                    if child.pid:
                        log.error("%s did not stop in time and is killed", child.name)
                    child.signal(signal.SIGKILL)
                deadline = time.monotonic() + 5
            if select.select([self._woken], [], [], min(max(left, 0.05), 1.0))[0]:
                self._woken.recv(4096)
            self._collect(children)

    def _collect(self, children: list[Child]) -> None:
        for child in children:
            if child.pid:
                try:
                    pid, _ = os.waitpid(child.pid, os.WNOHANG)
                except ChildProcessError:
                    pid = child.pid
                if pid:
                    child.pid = 0


def serve_http(core: Core, listener: socket.socket) -> int:
    """Body of the process that runs the HTTP workers."""
    from tocsin.app.server import HttpServer

    HttpServer(core, listener.fileno()).run()
    return 0


def run_engine(core: Core) -> int:
    """Body of the process that evaluates rules, sends notifications and runs scheduled jobs."""
    stopping = stop_event()
    core.start("engine")
    jobs = JobRunner(core)
    jobs.start()
    stopping.wait()
    jobs.stop(core.http.shutdown_timeout / 2)
    core.stop("engine")
    core.close()
    return 0


def run_sidecar(core: Core, sidecar: Sidecar, ready: int) -> int:
    """Body of a sidecar's process."""
    stopping = stop_event()

    def tell_ready() -> None:
        try:
            os.write(ready, b"1")
        except OSError:
            log.debug("nobody waits for sidecar %s any more", sidecar.name)

    sidecar.run(core, stopping, tell_ready)
    core.close()
    return 0 if stopping.is_set() else 1


def stop_event() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


def launch(process: str, directory: Path) -> int:
    """Run a process kind in the foreground until it is told to stop; return the exit code.

    The calling process keeps the listening socket and only watches the launcher, so that not even the launcher's death
    ends the service: it is started again and connections wait in the socket's queue meanwhile.
    """
    core = open_core(process, directory)
    configure_logging(core.settings)
    listener = listen(core.http.host, core.http.port)  # before rows are made: the first login is shown only once
    prepare(core)
    print(greeting(core), flush=True)
    core.close()
    cores = iter([core])

    def work() -> int:
        return Launcher(process, directory, listener, next(cores, None) or open_core(process, directory)).run()

    return guard(work)


def guard(work: Callable[[], int]) -> int:
    """Run ``work`` in a child and start it again when it is killed; pass on the signals that stop or reload it."""
    child = 0
    asked_to_stop = False

    def pass_on(number: int, _frame: object) -> None:
        nonlocal asked_to_stop
        asked_to_stop = asked_to_stop or number != signal.SIGHUP
        if child:
            os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, pass_on)
    while True:
        started = time.monotonic()
        # A launcher whose guard dies goes on serving: signal 0 on the parent's death means none.
        child = fork(work, signal_on_parent_death=0)
        _, status = os.waitpid(child, 0)
        child = 0
        if asked_to_stop or not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status) if not os.WIFSIGNALED(status) else 1
        log.error("the launcher was killed by signal %d, starting it again", os.WTERMSIG(status))
        time.sleep(max(0.0, 1.0 - (time.monotonic() - started)))


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise :class:`OSError` naming the address when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise OSError(f"HTTP.Host, HTTP.Port: cannot listen on {host}:{port}: {error.strerror}") from None
    listener.listen(2048)
    listener.set_inheritable(True)
    return listener


def greeting(core: Core) -> str:
    """Return what is printed when the service is about to serve: version, address, and the first login once."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(core.http.host, core.http.host)  # noqa: S104
    scheme = "https" if core.http.cert_file and core.http.key_file else "http"
    lines = [f"Tocsin v{__version__} {core.process} at {scheme}://{host}:{core.http.port}"]
    for feature in core.features:
        lines += feature.greeting(core)
    return "\n".join(lines)
