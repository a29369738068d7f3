"""Bounded concurrency: requests beyond the limit wait, and stop waiting when their client leaves or their time is up."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

POLL_SECONDS = 0.25


class SlotCanceled(Exception):
    """The client left while the request waited."""


class SlotTimeout(Exception):
    """The request waited longer than it may."""


class Slots:
    """A counted limit. `running` and `waiting` are for metrics."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.waiting = 0
        self._free = threading.Condition()

    @contextlib.contextmanager
    def slot(self, cancelled: Callable[[], bool], timeout: float) -> Iterator[float]:
        """Hold a slot; yields the seconds waited. Raises SlotCanceled, SlotTimeout."""
        started = time.monotonic()
        self._acquire(cancelled, started + timeout)
        try:
            yield time.monotonic() - started
        finally:
            with self._free:
                self.running -= 1
                self._free.notify()

    def _acquire(self, cancelled: Callable[[], bool], deadline: float) -> None:
        with self._free:
            self.waiting += 1
            try:
                while self.running >= self.limit:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise SlotTimeout
                    if cancelled():
                        raise SlotCanceled
                    self._free.wait(min(left, POLL_SECONDS))
                self.running += 1
            finally:
                self.waiting -= 1
