"""A number in a file that every process of a machine maps: it is another one after each change of the configuration.

Reading it costs a memory access, so those who must notice a change at the next request need not ask the database each time.
"""

from __future__ import annotations

import mmap
import os
import random
from pathlib import Path

SIZE = 8


class Stamp:
    """The number; processes that name the same file share it."""

    def __init__(self, file: Path) -> None:
        """Open or make the file."""
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)  # less the umask, like the database itself
        try:
            if os.fstat(handle).st_size < SIZE:
                # Written, so that it has its place: filling a hole of a mapped file ends the process on a full disk.
                os.pwrite(handle, bytes(SIZE), 0)
            self._cell = memoryview(mmap.mmap(handle, SIZE)).cast("Q")
        finally:
            os.close(handle)
        # Drawn, not counted up: of two processes that count at once one would get lost.
        self._draw = random.SystemRandom().getrandbits

    def read(self) -> int:
        """Return the number."""
        return self._cell[0]

    def renew(self) -> None:
        """Say that something has changed."""
        self._cell[0] = self._draw(64)
