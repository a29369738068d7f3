"""Log lines that may come by the thousand: one now and then, saying how many were left out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable


class Throttle:
    """Lets one line through per interval."""

    def __init__(
        self, logger: logging.Logger, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._seconds, self._clock = logger, seconds, clock
        self._next = -float("inf")
        self._left_out = 0
        self._lock = threading.Lock()

    def warning(self, make_line: Callable[[], str]) -> None:
        """Log what `make_line` returns, unless a line was logged within the interval; then it is only counted."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                self._left_out += 1
                return
            self._next, left_out, self._left_out = now + self._seconds, self._left_out, 0
        suffix = f" ({left_out} more like it were left out before)" if left_out else ""
        self._log.warning("%s%s", make_line(), suffix)
