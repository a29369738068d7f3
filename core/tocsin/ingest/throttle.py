"""Log lines that may come by the thousand: one now and then, saying how many were left out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable


class Throttle:
    """Lets one line of a kind through per interval."""

    def __init__(
        self, logger: logging.Logger, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._seconds, self._clock = logger, seconds, clock
        self._kinds: dict[str, tuple[float, int]] = {}  # when the next line may come, and how many were left out
        self._lock = threading.Lock()

    def warning(self, make_line: Callable[[], str], kind: str = "") -> None:
        """Log what `make_line` returns, unless a line of that kind was logged within the interval; then it is only counted.

        :param kind: one of a few words; what is frequent does not hide what is of another kind.
        """
        with self._lock:
            now = self._clock()
            due, left_out = self._kinds.get(kind, (now, 0))
            if now < due:
                self._kinds[kind] = due, left_out + 1
                return
            self._kinds[kind] = now + self._seconds, 0
        suffix = f" ({left_out} more like it were left out before)" if left_out else ""
        self._log.warning("%s%s", make_line(), suffix)
