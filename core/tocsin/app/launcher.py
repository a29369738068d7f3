"""Runs a process kind: opens the port, starts the HTTP workers, the alert engine and the sidecars, and keeps them alive.

Signals are only queued; one loop acts on them.  SIGTERM and SIGINT drain and end, SIGHUP reads the configuration again
and replaces the children one by one while the port stays open.
"""

from __future__ import annotations

import logging
import os
import queue
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin import __version__
from tocsin.app.bootstrap import configure_logging, open_core, prepare
from tocsin.app.children import CAUGHT, Announced, Child, dead_children
from tocsin.app.guard import Guard, stand_by
from tocsin.app.jobs import JobRunner
from tocsin.app.settings import SettingsError
from tocsin.plugin import Sidecar

if TYPE_CHECKING:
    from tocsin.app.core import Core

log = logging.getLogger(__name__)

STAND_IN = "stand-in of the guard"
WITH_ENGINE = frozenset(("center", "alert"))
READY_SECONDS = 60.0
"""How long a sidecar may take to serve before the HTTP workers are started without it."""


class Launcher:
    """Supervises the processes of one installation."""

    def __init__(self, process: str, directory: Path, listener: socket.socket, core: Core) -> None:
        self._process = process
        self._directory = directory
        self._listener = listener
        self._core = core
        self._children: dict[str, Child] = {}
        self._retired: list[Child] = []
        self._workers_due: float | None = None
        self._wake, self._woken = socket.socketpair()
        self._unhandled = b""
        self._guard = os.getppid()

    def run(self) -> int:
        """Start everything and supervise until a signal ends it; return the exit code."""
        self._catch_signals()
        self._core.close()
        self._start_sidecars()
        while True:
            self._start_workers()
            for number in self._queued_signals():
                if number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                    self._shut_down()
                    return 0
                if number == signal.SIGHUP:
                    self._reload()
            self._reap()
            self._revive()
            self._replace_guard()

    def _replace_guard(self) -> None:
        """When the guard is gone, keep a process that becomes one should this launcher die too."""
        if os.getppid() != self._guard and STAND_IN not in self._children:
            log.warning("the guard is gone, another one stands by")
            launcher, where = os.getpid(), (self._process, self._directory, self._listener)
            self._add(Child(STAND_IN, lambda: stand_by(launcher, lambda: supervise(*where))))

    def _catch_signals(self) -> None:
        for end in (self._wake, self._woken):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in CAUGHT:
            signal.signal(number, lambda *_: None)

    def _queued_signals(self) -> bytes:
        """Wait until something is to be done, and return the numbers of the signals that came."""
        dues = [child.due for child in self._children.values() if not child.pid]
        if self._workers_due is not None:
            dues.append(self._workers_due)
        if not self._unhandled:
            self._wait(max(0.0, min(dues) - time.monotonic()) if dues else None)
        numbers, self._unhandled = self._unhandled, b""
        return numbers

    def _wait(self, seconds: float | None) -> None:
        """Wait for a signal or a sidecar's announcement, and keep the numbers of the signals."""
        awaited = {child.reader: child for child in self._sidecars() if child.reader >= 0}
        woken = self._woken.fileno()
        for found in select.select([woken, *awaited], [], [], seconds)[0]:
            if found == woken:
                self._unhandled += self._woken.recv(4096)
            else:
                awaited[found].decided()

    def _sidecars(self) -> list[Announced]:
        return [child for child in self._children.values() if isinstance(child, Announced)]

    def _start_sidecars(self) -> None:
        """Start what the workers depend on; they are due when every sidecar is ready, dead or too late."""
        core = self._core
        for sidecar in core.plugins.of(Sidecar).values() if self._process == "center" else ():
            if sidecar.enabled(core):
                self._add(sidecar_child(core, sidecar))
        self._workers_due = time.monotonic() + READY_SECONDS

    def _start_workers(self) -> None:
        """Start HTTP and engine once they are due; those of the configuration before retire."""
        if self._workers_due is None:
            return
        unready = [child for child in self._sidecars() if child.reader >= 0]
        if unready and time.monotonic() < self._workers_due:
            return
        for child in unready:
            log.warning("%s is not ready after %.0f s, going on without it", child.name, READY_SECONDS)
            child.decided()
        self._workers_due = None
        core, listener = self._core, self._listener
        self._add(Child("http", lambda: serve_http(core, listener)))
        if self._process in WITH_ENGINE:
            self._add(Child("engine", lambda: run_engine(core)))

    def _add(self, child: Child) -> None:
        """Start a child; the one of that name before it drains and ends."""
        before = self._children.get(child.name)
        self._children[child.name] = child
        child.start(time.monotonic())
        if before and before.pid:
            before.stop()
            self._retired.append(before)

    def _reap(self) -> None:
        now = time.monotonic()
        for pid, status in dead_children():
            for child in (*self._children.values(), *self._retired):
                if child.pid == pid:
                    child.ended(status, now)
        self._retired = [child for child in self._retired if child.pid]

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
        sidecars = self._sidecars()
        self._stop(sidecars)
        for child in sidecars:
            child.decided()
            del self._children[child.name]
        self._start_sidecars()
        log.info("configuration read again")

    def _shut_down(self) -> None:
        """Drain in order: HTTP and engine first, then the sidecars they depend on."""
        log.info("stopping")
        sidecars = self._sidecars()
        self._stop([*(child for child in self._children.values() if child not in sidecars), *self._retired])
        self._stop(sidecars)

    def _stop(self, children: Sequence[Child]) -> None:
        """Ask children to end and wait until they have; those that take too long are killed."""
        for child in children:
            child.stop()
        deadline = time.monotonic() + self._core.http.shutdown_timeout + 5
        self._reap()
        while running := [child for child in children if child.pid]:
            left = deadline - time.monotonic()
            if left <= 0:
                for child in running:
                    log.error("%s did not stop in time and is killed", child.name)
                    child.signal(signal.SIGKILL)
                deadline = time.monotonic() + 5
            self._wait(max(left, 0.05))
            self._reap()


def sidecar_child(core: Core, sidecar: Sidecar) -> Announced:
    """Return the child that runs a sidecar."""
    child = Announced(f"sidecar {sidecar.name}", lambda: run_sidecar(core, sidecar, child.writer))
    return child


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
    stopping = last_stop_event(os.getppid())

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
    return _event_of((signal.SIGTERM, signal.SIGINT), lambda _: True)


def last_stop_event(launcher: int) -> threading.Event:
    """Return an event for a process that ends after others: set by its launcher's own signal, or by any when that is gone."""
    own = Announced.stop_signal
    return _event_of(
        (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, own), lambda number: number == own or os.getppid() != launcher
    )


def _event_of(signals: Iterable[int], counts: Callable[[int], bool]) -> threading.Event:
    """Return an event that those signals set that count.

    A handler may run while the interrupted thread holds the lock of the event, so it only passes the number on.
    """
    stopping = threading.Event()
    received: queue.SimpleQueue[int] = queue.SimpleQueue()

    def follow() -> None:
        while not counts(received.get()):
            pass
        stopping.set()

    for number in signals:
        signal.signal(number, lambda number, _: received.put(number))
    threading.Thread(target=follow, name="stop signals", daemon=True).start()
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
    return Guard(lambda: supervise(process, directory, listener, next(cores, None))).run()


def supervise(process: str, directory: Path, listener: socket.socket, core: Core | None = None) -> int:
    """Body of the launcher's process; the first one has its ``core`` already."""
    try:
        return Launcher(process, directory, listener, core or open_core(process, directory)).run()
    except SettingsError as error:
        log.error("%s", error)
        return 1


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
