"""A bound on the threads of a worker that wait for something slow, so that samples find one that is free."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 1.0
"""How long a thread waits to be let in; what takes longer than that inside is slow."""


class CrowdedError(Exception):
    """Everybody whom the gate lets in at once is inside, and waiting."""


class Gate:
    """Lets a number of threads in at once.

    The others wait, but only as long as those inside get on: once one of them was slow, whoever finds no room is turned
    away at once, until somebody was quick again.
    """

    def __init__(self, room: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._room, self._monotonic = threading.BoundedSemaphore(room), monotonic
        self._slow = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside during the block; raise :class:`CrowdedError` without room."""
        if not self._room.acquire(timeout=0 if self._slow else PATIENCE_SECONDS):
            self._slow = True
            raise CrowdedError("too many are waiting already")
        started = self._monotonic()
        try:
            yield
        finally:
            self._slow = self._monotonic() - started > PATIENCE_SECONDS
            self._room.release()
