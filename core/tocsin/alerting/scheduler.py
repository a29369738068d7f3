"""What is due when: one heap over all schedules; rules with equal schedules share an entry."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tocsin.alerting.schedule import Schedule

Key = tuple[int, int]
"""A rule on a datasource: ``(rule id, datasource id)``."""


@dataclass(frozen=True)
class Tick:
    """Rules that are due, and the point in time they are due at."""

    at: float
    schedule: Schedule
    keys: tuple[Key, ...]
    missed: int
    """Points before this one that nobody looked at in time."""


class Scheduler:
    """Keeps the next point of every schedule.

    Points stay on their grid: a late look gives the latest point that has passed, and the earlier ones count as missed.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Schedule]] = []
        self._members: dict[Schedule, dict[Key, None]] = {}
        self._serial = 0
        self._now = 0.0

    def replace(self, wanted: Mapping[Key, Schedule], now: float) -> None:
        """Make ``wanted`` the set of scheduled rules; schedules that stay keep their next point."""
        members: dict[Schedule, dict[Key, None]] = {}
        for key, schedule in wanted.items():
            members.setdefault(schedule, {})[key] = None
        self._heap = [entry for entry in self._heap if entry[2] in members]
        for schedule in members:
            if schedule not in self._members:
                self._serial += 1
                self._heap.append((schedule.after(now), self._serial, schedule))
        heapq.heapify(self._heap)
        self._members = members

    def due(self, now: float) -> Iterable[Tick]:
        """Return the ticks that are due at ``now`` and move their schedules on."""
        if now < self._now:
            # The clock was set back: waiting for the old points would leave everything unevaluated until then.
            self._heap = [(schedule.after(now), serial, schedule) for _, serial, schedule in self._heap]
            heapq.heapify(self._heap)
        self._now = now
        found = []
        while self._heap and self._heap[0][0] <= now:
            point, serial, schedule = self._heap[0]
            missed = schedule.between(point, now)
            latest = schedule.latest(point, now) if missed else point
            heapq.heapreplace(self._heap, (schedule.after(now), serial, schedule))
            found.append(Tick(latest, schedule, tuple(self._members[schedule]), missed))
        return found

    def next_point(self) -> float | None:
        """Return when something is due next, ``None`` when nothing ever is."""
        return self._heap[0][0] if self._heap else None
