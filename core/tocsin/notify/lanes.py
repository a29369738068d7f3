"""One lane of work for each channel, so that a slow channel delays nobody else.

A lane runs a bounded number of sends at once.  Sends of one chain (one alert through one route) leave in order: what
comes later waits while an earlier one is being tried again, so that a recovery never overtakes its alert.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)
Work = Callable[[int], float | None]
"""Works on the send with an id; returns the seconds after which to do it again, ``None`` when it is finished."""
FAULT_PAUSE = 5.0
"""Seconds after which a send is tried again that failed for reasons of our own, like the database being away."""


class _Lane:
    """The state of one channel; guarded by the lock of :class:`Lanes`."""

    def __init__(self) -> None:
        self.ready: deque[tuple[int, str]] = deque()
        self.busy: set[str] = set()
        self.behind: dict[str, deque[int]] = {}
        self.size = 0
        self.workers = 0
        self.limit = 1


class Lanes:
    """Runs ``work`` for ids in the lane of their channel.

    Threads come with work and go when there is none.  ``changed`` is told the number of ids in a lane; ``release`` is
    called by each thread when it pauses.
    """

    def __init__(
        self,
        work: Work,
        *,
        changed: Callable[[int, int], None] = lambda channel, size: None,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._work = work
        self._changed = changed
        self._release = release
        self._lanes: dict[int, _Lane] = {}
        self._known: set[int] = set()
        self._later: list[tuple[float, int, int, int, str]] = []
        self._order = itertools.count()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._timer_wakes = threading.Condition(self._lock)
        self._timer: threading.Thread | None = None
        self._stopping = False
        self._failing = False

    def add(self, channel: int, number: int, chain: str, *, concurrency: int, delay: float = 0.0) -> None:
        """Queue a send; one that is known already is not queued twice.

        ``concurrency`` is how many sends of the channel may be under way at once, from now on.
        """
        with self._lock:
            if self._stopping or number in self._known:
                return
            self._known.add(number)
            lane = self._lanes.setdefault(channel, _Lane())
            lane.size += 1
            lane.limit = concurrency
            if chain in lane.busy:
                lane.behind.setdefault(chain, deque()).append(number)
            else:
                lane.busy.add(chain)
                if delay > 0:
                    self._postpone(channel, number, chain, delay)
                else:
                    lane.ready.append((number, chain))
            self._changed(channel, lane.size)
        self._staff(channel)

    def size(self, channel: int) -> int:
        """Return how many sends wait or are under way in a channel's lane."""
        with self._lock:
            lane = self._lanes.get(channel)
            return lane.size if lane else 0

    def known(self) -> frozenset[int]:
        """Return the ids that wait or are under way."""
        with self._lock:
            return frozenset(self._known)

    def stop(self, timeout: float) -> None:
        """Start nothing more and wait for what is under way; the rest stays in the database for the next start."""
        with self._lock:
            self._stopping = True
            self._timer_wakes.notify()
            timer = self._timer
            self._idle.wait_for(lambda: not any(lane.workers for lane in self._lanes.values()), timeout)
        if timer is not None:
            timer.join(timeout)

    def _staff(self, channel: int) -> None:
        """Give a lane another thread when it has work for one."""
        with self._lock:
            lane = self._lanes.get(channel)
            if lane is None or self._stopping or not lane.ready or lane.workers >= lane.limit:
                return
            lane.workers += 1
        threading.Thread(target=self._run, args=(channel, lane), name=f"notify-{channel}", daemon=True).start()

    def _run(self, channel: int, lane: _Lane) -> None:
        while True:
            with self._lock:
                if self._stopping or not lane.ready:
                    lane.workers -= 1
                    self._settle(channel, lane)
                    break
                number, chain = lane.ready.popleft()
            delay = self._guarded(number)
            with self._lock:
                if delay is not None:
                    self._postpone(channel, number, chain, delay)
                else:
                    self._finish(channel, lane, number, chain)

    def _guarded(self, number: int) -> float | None:
        try:
            delay = self._work(number)
        except Exception:
            if not self._failing:
                self._failing = True
                log.exception(
                    "a notification could not be worked on; it is kept and tried again, silently until it works"
                )
            return FAULT_PAUSE
        finally:
            self._release()
        self._failing = False
        return delay

    def _finish(self, channel: int, lane: _Lane, number: int, chain: str) -> None:
        self._known.discard(number)
        lane.size -= 1
        waiting = lane.behind.get(chain)
        if waiting:
            lane.ready.append((waiting.popleft(), chain))
            if not waiting:
                del lane.behind[chain]
        else:
            lane.busy.discard(chain)
        self._changed(channel, lane.size)

    def _settle(self, channel: int, lane: _Lane) -> None:
        """Forget an empty lane, so that deleted channels leave nothing behind."""
        if not lane.size and not lane.workers:
            self._lanes.pop(channel, None)
        if not lane.workers:
            self._idle.notify_all()

    def _postpone(self, channel: int, number: int, chain: str, delay: float) -> None:
        heapq.heappush(self._later, (time.monotonic() + delay, next(self._order), channel, number, chain))
        if self._timer is None and not self._stopping:
            self._timer = threading.Thread(target=self._time, name="notify-timer", daemon=True)
            self._timer.start()
        self._timer_wakes.notify()

    def _time(self) -> None:
        """Move postponed sends back into their lanes when their time has come."""
        while True:
            with self._lock:
                while not self._stopping:
                    left = self._later[0][0] - time.monotonic() if self._later else None
                    if left is not None and left <= 0:
                        break
                    self._timer_wakes.wait(left)
                if self._stopping:
                    return
                _, _, channel, number, chain = heapq.heappop(self._later)
                lane = self._lanes.setdefault(channel, _Lane())
                lane.ready.append((number, chain))
            self._staff(channel)
