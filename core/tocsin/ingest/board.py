"""Numbers that all workers of an installation see, without locks on the way.

A shared page holds one row per process; each process writes only its own row, and anybody adds up columns. That is how limits
hold for the sum of the workers: nobody waits for another, and a reader sees values that are at most a request old.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import weakref

ROWS = 64
"""Processes at once: workers, and those of the previous configuration while they drain."""


class Board:
    """Columns of 64-bit counters; made before the workers are forked, so that they share it."""

    def __init__(self, columns: int) -> None:
        self._width = columns + 1  # the first column names the process
        size = ROWS * self._width * 8
        self._file, name = tempfile.mkstemp("-tocsin")
        os.unlink(name)
        os.ftruncate(self._file, size)
        self._cells = memoryview(mmap.mmap(self._file, size)).cast("q")
        weakref.finalize(self, os.close, self._file)
        self._row = 0
        self.slot = 0

    def claim(self) -> None:
        """Take a row of one's own, after a fork: a free one or that of a process that is gone.

        :raises RuntimeError: all rows belong to living processes.
        """
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            for slot in range(ROWS):
                row = slot * self._width
                owner = self._cells[row]
                if owner == 0 or owner == os.getpid() or not alive(owner):
                    self._cells[row] = os.getpid()
                    for column in range(1, self._width):
                        self._cells[row + column] = 0
                    self._row, self.slot = row, slot
                    return
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
        raise RuntimeError(f"more than {ROWS} processes share one gateway")

    def release(self) -> None:
        """Give the row back."""
        for column in range(self._width):
            self._cells[self._row + column] = 0

    def put(self, column: int, value: int) -> None:
        """Set this process's number."""
        self._cells[self._row + 1 + column] = value

    def add(self, column: int, change: int) -> None:
        """Change this process's number; the caller holds whatever lock its threads need."""
        self._cells[self._row + 1 + column] += change

    def sum(self, column: int) -> int:
        """Return the sum over all processes."""
        return sum(self._cells[column + 1 :: self._width].tolist())


def alive(pid: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
