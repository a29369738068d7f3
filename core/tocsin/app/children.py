"""Child processes of the launcher: forked, watched, restarted with back-off."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from prometheus_client.multiprocess import mark_process_dead

log = logging.getLogger(__name__)

FIRST_DELAY = 0.2
LONGEST_DELAY = 30.0
STABLE_AFTER = 60.0
"""Seconds a child must have lived for its next crash to be treated as the first."""
PR_SET_PDEATHSIG = 1
CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD)
"""The signals that the processes of an installation act on."""


def fork(work: Callable[[], int], signal_on_parent_death: int = signal.SIGTERM) -> int:
    """Run ``work`` in a child process and return its pid; the child ends with the code that ``work`` returns.

    The child gets ``signal_on_parent_death`` when its parent dies, so that nothing is left behind by a ``kill -9``.
    Raises :class:`OSError` when the system cannot have another process.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    # Until the child has put away what it inherited, a signal to it would run its parent's handlers.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, CAUGHT)
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return pid
    code = 1
    try:
        _begin(signal_on_parent_death)
        code = work() if os.getppid() == parent else 1
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        log.exception("process %d failed", os.getpid())
    finally:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _begin(signal_on_parent_death: int) -> None:
    for number in CAUGHT:
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    prctl(PR_SET_PDEATHSIG, signal_on_parent_death)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    gc.freeze()  # a collector that looks at what was inherited writes to it, and its pages are shared no more


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; see prctl(2)."""
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def dead_children() -> Iterator[tuple[int, int]]:
    """Yield pid and status of every child process that has ended and was not yielded before.

    Adopted ones are among them, whose own parent is gone: what their gauges said goes with them too.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]
        yield pid, status


@dataclass
class Child:
    """One supervised process: what it runs, and when it may be started again after a crash."""

    name: str
    work: Callable[[], int]
    pid: int = 0
    started: float = 0.0
    delay: float = 0.0
    due: float = 0.0
    stopping: bool = False
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def start(self, now: float) -> None:
        """Fork the process; when the system has none left, it is due again later."""
        try:
            self.pid = fork(self.work)
        except OSError as error:
            self._postpone(now)
            log.error("%s cannot be started: %s; trying again in %.1f s", self.name, error, self.delay)
            return
        self.started = now
        log.info("%s started as process %d", self.name, self.pid)

    def ended(self, status: int, now: float) -> None:
        """Note that the process ended, and, unless it was stopped, when it is due to start again."""
        if not self.stopping:
            self._postpone(now)
            reason = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"code {os.WEXITSTATUS(status)}"
            log.error(
                "%s (process %d) ended with %s, starting again in %.1f s", self.name, self.pid, reason, self.delay
            )
        self.pid = 0

    def stop(self) -> None:
        """Ask the process to drain and end; it is not due to start again."""
        self.stopping = True
        self.signal(self.stop_signal)

    def signal(self, number: int) -> None:
        """Send a signal to the process if it runs."""
        if self.pid:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                log.debug("%s (process %d) is already gone", self.name, self.pid)

    def _postpone(self, now: float) -> None:
        self.delay = back_off(self.delay, now - self.started)
        self.due = now + self.delay


class Announced(Child):
    """A process that says when it is ready: by a byte to ``writer``, which closes at the latest with its end.

    Others depend on it, so it has a signal of its own: one that a service manager or a terminal sends to all processes at
    once does not end it before them.
    """

    stop_signal = signal.SIGUSR1
    reader: int = -1
    """Where the announcement of the running process is read; -1 when it is known whether one came."""
    writer: int = -1

    def start(self, now: float) -> None:
        """Fork the process with a new pipe."""
        self.decided()
        self.reader, self.writer = os.pipe()
        super().start(now)
        os.close(self.writer)

    def decided(self) -> bool:
        """Close the reading end and return whether the process has announced itself."""
        if self.reader < 0:
            return False
        os.set_blocking(self.reader, False)
        try:
            return bool(os.read(self.reader, 1))
        except BlockingIOError:
            return False
        finally:
            os.close(self.reader)
            self.reader = -1


def back_off(delay: float, lived: float) -> float:
    """Return the seconds to wait before a process is started again, from the last such wait and how long it lived."""
    return FIRST_DELAY if lived > STABLE_AFTER else min(LONGEST_DELAY, delay * 2 or FIRST_DELAY)
