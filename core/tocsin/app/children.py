"""Child processes of the launcher: forked, watched, restarted with back-off."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client.multiprocess import mark_process_dead

log = logging.getLogger(__name__)

FIRST_DELAY = 0.2
LONGEST_DELAY = 30.0
STABLE_AFTER = 60.0
"""Seconds a child must have lived for its next crash to be treated as the first."""
PR_SET_PDEATHSIG = 1


def fork(work: Callable[[], int], signal_on_parent_death: int = signal.SIGTERM) -> int:
    """Run ``work`` in a child process and return its pid; the child ends with the code that ``work`` returns.

    The child gets ``signal_on_parent_death`` when its parent dies, so that nothing is left behind by a ``kill -9``.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal_on_parent_death)
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


@dataclass
class Child:
    """One supervised process: what it runs, and when it may be started again after a crash."""

    name: str
    work: Callable[[], int]
    pid: int = 0
    started: float = 0.0
    delay: float = 0.0
    due: float = 0.0
    crashes: int = field(default=0)

    def start(self, now: float) -> None:
        """Fork the process."""
        self.pid = fork(self.work)
        self.started = now
        log.info("%s started as process %d", self.name, self.pid)

    def ended(self, status: int, now: float) -> None:
        """Note that the process ended, and when it is due to start again."""
        reason = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"code {os.WEXITSTATUS(status)}"
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            mark_process_dead(self.pid)  # type: ignore[no-untyped-call]
        self.delay = (
            FIRST_DELAY if now - self.started > STABLE_AFTER else min(LONGEST_DELAY, self.delay * 2 or FIRST_DELAY)
        )
        self.due = now + self.delay
        self.crashes += 1
        log.error("%s (process %d) ended with %s, starting again in %.1f s", self.name, self.pid, reason, self.delay)
        self.pid = 0

    def signal(self, number: int) -> None:
        """Send a signal to the process if it runs."""
        if self.pid:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                log.debug("%s (process %d) is already gone", self.name, self.pid)
