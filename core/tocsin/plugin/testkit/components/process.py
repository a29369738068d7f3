"""Child processes of a test: started, watched, and stopped whatever happens to the test run.

Every process gets its own process group and a guard: a shell that waits on a pipe from the test run and kills the group
when the pipe breaks, so that a test run that is interrupted or killed leaves nothing behind.
"""

import atexit
import contextlib
import os
import pwd
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

# The processes that are running right now: stopped when the interpreter exits, left alone by the leak guard, and
# asked for their output when a test fails.
_running: "set[Process]" = set()


def running_processes() -> "list[Process]":
    """Return the processes started through `Process` that have not been stopped yet, oldest first."""
    return sorted(_running, key=lambda process: process.started_at)


PATIENCE = 120.0
"""Seconds in which what a test waits for must have happened.

That is many times what anything takes, for machines that do much else: only a test that fails waits this long.
"""


def wait_until(check: Callable[[], bool], *, timeout: float = PATIENCE, what: str) -> None:
    """Poll `check` until it returns true; an `OSError` counts as "not yet".

    Raises `TimeoutError` naming `what` after `timeout` seconds, with the last error as its cause.
    """
    deadline = time.monotonic() + timeout
    pause = 0.01
    failure: OSError | None = None
    while True:
        try:
            if check():
                return
            failure = None
        except OSError as error:
            failure = error
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {timeout:g} s") from failure
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)


def _identity(user: str | None) -> tuple[str, int, int] | None:
    """Return name, uid and gid to run as, or None when there is nothing to change (we are not root)."""
    if user is None or os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(user)
    return entry.pw_name, entry.pw_uid, entry.pw_gid


def give_directory(path: Path, user: str | None) -> Path:
    """Create `path` with mode 0700, owned by `user` when the tests run as root, and return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = _identity(user)
    if identity:
        os.chown(path, identity[1], identity[2])
    return path


def _guard(group: int) -> subprocess.Popen[bytes]:
    """Start the shell that kills a process group unless it is told that the group has ended."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r ended || kill -s KILL -- "-$1"', "guard", str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class Process:
    """One program started by a test; its output (both streams) is kept in `log`.

    `argv[0]` is looked up on PATH; `environment` is added to ours; `user` is used only when the tests run as root.
    A stopped process may be started again; its output is appended.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.argv = [str(part) for part in argv]
        self.directory = directory
        self.environment = dict(environment or {})
        self.stop_signal = stop_signal
        self.log = directory / f"{name}.log"
        self.started_at = 0.0
        self._identity = _identity(user)
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._shown = 0

    def start(self) -> Self:
        """Start the program and return at once; `RuntimeError` when it is running already."""
        if self.alive:
            raise RuntimeError(f"{self.name} is running already (pid {self.pid})")
        with self.log.open("ab") as output:
            self._child = self._spawn(output)
        self._guard = _guard(self.pid)
        self.started_at = time.monotonic()
        _running.add(self)
        return self

    def _spawn(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        name, uid, gid = self._identity or (None, None, None)
        return subprocess.Popen(
            self.argv,
            cwd=self.directory,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=uid,
            group=gid,
            extra_groups=os.getgrouplist(name, gid) if name is not None and gid is not None else None,
        )

    @property
    def pid(self) -> int:
        """The process id; `RuntimeError` before the first start."""
        if self._child is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._child.pid

    @property
    def pids(self) -> set[int]:
        """The process ids of the program and its guard, as far as they were started."""
        return {child.pid for child in (self._child, self._guard) if child}

    @property
    def alive(self) -> bool:
        """Whether the program runs (its children do not count)."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs or before the first start."""
        return None if self._child is None else self._child.poll()

    def wait_ready(self, check: Callable[[], bool], *, timeout: float = PATIENCE) -> Self:
        """Wait until `check` is true; `RuntimeError` with the output when the program ends or `timeout` s pass."""

        def ready() -> bool:
            if not self.alive:
                raise RuntimeError(f"{self.name} ended with exit code {self.exit_code}:\n{self.output_tail()}")
            return check()

        try:
            wait_until(ready, timeout=timeout, what=f"{self.name} ready")
        except TimeoutError as error:
            self.stop()
            raise RuntimeError(f"{error}:\n{self.output_tail()}") from error
        except RuntimeError:
            self.stop()
            raise
        return self

    def wait(self, timeout: float) -> int:
        """Wait until the program ends by itself and return its exit code; `TimeoutError` after `timeout` s."""
        if self._child is None:
            raise RuntimeError(f"{self.name} was never started")
        try:
            code = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} still runs after {timeout:g} s:\n{self.output_tail()}") from None
        self._forget()
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program alone, not to its children."""
        if self.alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the whole process group with SIGKILL, as a power cut would, and reap it."""
        if self._child is None:
            return
        self._kill_group()
        self._child.wait()
        self._forget()

    def stop(self, *, grace: float = 10.0) -> int | None:
        """Ask the program to stop, wait `grace` s, kill what is left of its group; return its exit code."""
        if self._child is None:
            return None
        self.signal(self.stop_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(grace)
        self.kill()
        return self.exit_code

    def _forget(self) -> None:
        """Let the guard go: there is nothing left to kill."""
        if self._guard is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.communicate(b"ended\n")
            self._guard = None
        _running.discard(self)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def output(self) -> str:
        """Return everything the program has printed so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def output_tail(self, limit: int = 4000) -> str:
        """Return the last `limit` bytes of the output."""
        return self._read(max(0, self._size() - limit))

    def mark_output(self) -> None:
        """Remember where the output ends now, for `new_output`."""
        self._shown = self._size()

    def new_output(self, limit: int = 8000) -> str:
        """Return the output since `mark_output`, at most its last `limit` bytes."""
        return self._read(max(self._shown, self._size() - limit))

    def _size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _read(self, start: int) -> str:
        if not self.log.exists():
            return ""
        with self.log.open("rb") as stream:
            stream.seek(start)
            return stream.read().decode(errors="replace")

    def __enter__(self) -> Self:
        return self if self.alive else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Program(Process, ABC):
    """A process that knows how to tell when it is ready."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether the program does its work; an `OSError` means "not yet"."""


@atexit.register
def _stop_all() -> None:
    """Last resort for an interpreter that exits without running fixture finalizers."""
    for process in running_processes():
        process.kill()
