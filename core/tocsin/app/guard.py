"""The outermost process: holds the port and keeps the launcher alive, so that not even its death ends the service.

It does so little that nothing can go wrong in it: it waits for signals, passes them on, and starts the launcher again.
Processes that lose their parent become its children, whichever way the parent died; a new launcher is started, and
the guard itself ends, only when they are gone.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tocsin.app.children import CAUGHT, STABLE_AFTER, back_off, dead_children, fork, prctl

log = logging.getLogger(__name__)

PR_SET_CHILD_SUBREAPER = 36
STOPPING = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGQUIT))
DRAIN_SECONDS = 10.0
"""How long the processes of a dead launcher may take to end before they are killed; connections are queued meanwhile."""
KILL_SECONDS = 5.0


class Guard:
    """Runs ``work`` in a child process, again when it dies, until it is told to stop.

    Work that gives up by itself before it ``has_served`` is not tried again.
    """

    def __init__(self, work: Callable[[], int], *, has_served: bool = False) -> None:
        self._work = work
        self._has_served = has_served
        self._child = 0
        self._status = 0
        self._asked_to_stop = False

    def run(self) -> int:
        """Guard until told to stop, or until the first launcher gives up at the start; return the exit code."""
        # Blocked and fetched one by one: no signal can come between starting a process and knowing its number.
        signal.pthread_sigmask(signal.SIG_BLOCK, CAUGHT)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        delay = 0.0
        while True:
            lived = self._run_launcher()
            killed = os.WIFSIGNALED(self._status)
            self._has_served = self._has_served or killed or lived > STABLE_AFTER
            self._bury()
            if self._asked_to_stop or (not killed and (self._exit_code() == 0 or not self._has_served)):
                return self._exit_code()
            delay = back_off(delay, lived)
            how = f"was killed by signal {os.WTERMSIG(self._status)}" if killed else f"failed with {self._exit_code()}"
            log.error("the launcher %s, starting it again", how)
            if self._told_to_stop_within(delay):
                return 0

    def _exit_code(self) -> int:
        """Return our exit code for the launcher's end; one that was told to stop before it could listen has stopped."""
        code = os.waitstatus_to_exitcode(self._status)
        return code if code >= 0 else int(-code not in STOPPING)

    def _run_launcher(self) -> float:
        """Run the launcher to its end and return how many seconds it lived."""
        started = time.monotonic()
        # A launcher whose guard dies goes on serving; the signal lets it notice.
        self._child = fork(self._work, signal_on_parent_death=signal.SIGCHLD)
        log.info("launcher started as process %d", self._child)
        while self._child:
            self._wait(None)
            self._reap()
        return time.monotonic() - started

    def _wait(self, seconds: float | None) -> None:
        """Wait for a signal, at most so long, and pass it on."""
        found = signal.sigwaitinfo(CAUGHT) if seconds is None else signal.sigtimedwait(CAUGHT, max(seconds, 0.0))
        if found is None or found.si_signo == signal.SIGCHLD:
            return
        self._asked_to_stop = self._asked_to_stop or found.si_signo in STOPPING
        if self._child:
            os.kill(self._child, found.si_signo)

    def _told_to_stop_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self._asked_to_stop and (left := until - time.monotonic()) > 0:
            self._wait(left)
        return self._asked_to_stop

    def _reap(self) -> None:
        for pid, status in dead_children():
            if pid == self._child:
                self._child, self._status = 0, status

    def _bury(self) -> None:
        """Wait until the processes that a launcher has left behind are gone, as it would have done."""
        told: set[int] = set()
        deadline = time.monotonic() + DRAIN_SECONDS
        self._reap()
        while pids := children_of(os.getpid()):
            left = deadline - time.monotonic()
            if left < -KILL_SECONDS:
                log.error("processes %s cannot be killed", ", ".join(map(str, pids)))
                return
            for pid in pids:
                if left <= 0:
                    os.kill(pid, signal.SIGKILL)
                elif pid not in told:
                    os.kill(pid, signal.SIGTERM)
            told.update(pids)
            self._wait(left if left > 0 else 0.1)
            self._reap()


def stand_by(launcher: int, work: Callable[[], int]) -> int:
    """Wait until the launcher tells this process to end, or dies: then be the guard of another one that runs ``work``."""
    signal.pthread_sigmask(signal.SIG_BLOCK, CAUGHT)
    while os.getppid() == launcher:
        found = signal.sigwaitinfo(CAUGHT).si_signo
        if found in STOPPING and os.getppid() == launcher:
            return 0
    log.error("the launcher died after its guard, starting another one")
    return Guard(work, has_served=True).run()


def children_of(parent: int) -> list[int]:
    """Return the processes whose parent is ``parent``, ended ones that nobody has reaped included."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may contain anything; the parent is the second field after it.
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found
