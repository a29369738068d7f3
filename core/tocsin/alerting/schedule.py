"""When a rule is evaluated: ``@every 30s``, ``@hourly`` and the like, or six-field cron with seconds."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from croniter import croniter

from tocsin.alerting.windows import zone_of
from tocsin.plugin import ApiError

MOST_COUNTED = 1000
UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
DESCRIPTORS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


class ScheduleError(ValueError):
    """A pattern that cannot be understood; the text says why."""


class Schedule(Protocol):
    """A series of points in time."""

    def after(self, time: float) -> float:
        """Return the first point later than ``time``, in seconds since the epoch."""

    def interval(self, at: float) -> int:
        """Return the seconds from the point ``at`` to the next."""

    def between(self, start: float, end: float) -> int:
        """Return how many points lie in ``(start, end]``."""

    def latest(self, point: float, now: float) -> float:
        """Return the last point that is not later than ``now``, given an earlier one."""


@dataclass(frozen=True)
class Every:
    """Points on the grid of multiples of ``seconds`` since the epoch, so that equal intervals meet."""

    seconds: float

    def after(self, time: float) -> float:
        """Return the next multiple."""
        return (math.floor(time / self.seconds) + 1) * self.seconds

    def interval(self, at: float) -> int:
        """Return the period in whole seconds, at least 1."""
        return max(1, round(self.seconds))

    def between(self, start: float, end: float) -> int:
        """Return how many multiples lie in ``(start, end]``."""
        return math.floor(end / self.seconds) - math.floor(start / self.seconds)

    def latest(self, point: float, now: float) -> float:
        """Return the last multiple that is not later than ``now``."""
        return math.floor(now / self.seconds) * self.seconds


@dataclass(frozen=True)
class Cron:
    """A six-field cron expression in a time zone (``None`` is the server's)."""

    expression: str
    zone: dt.tzinfo | None

    def after(self, time: float) -> float:
        """Return the next matching second."""
        start = dt.datetime.fromtimestamp(time, self.zone)
        if start.tzinfo is None:
            start = start.astimezone()
        found: dt.datetime = croniter(self.expression, start, second_at_beginning=True).get_next(dt.datetime)
        return found.timestamp()

    def interval(self, at: float) -> int:
        """Return the seconds to the next point."""
        return max(1, round(self.after(at) - at))

    def between(self, start: float, end: float) -> int:
        """Return how many points lie in ``(start, end]``, counting at most a thousand."""
        count, time = 0, self.after(start)
        while time <= end and count < MOST_COUNTED:
            count, time = count + 1, self.after(time)
        return count

    def latest(self, point: float, now: float) -> float:
        """Return the last matching second that is not later than ``now``."""
        start = dt.datetime.fromtimestamp(now + 0.001, self.zone)
        if start.tzinfo is None:
            start = start.astimezone()
        found: dt.datetime = croniter(self.expression, start, second_at_beginning=True).get_prev(dt.datetime)
        return max(point, found.timestamp())


def parse_duration(text: str) -> float:
    """Return a duration like ``1h30m`` in seconds; raise :class:`ScheduleError`."""
    parts = PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ScheduleError(f"invalid duration {text!r}, expected something like 30s or 1h30m")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


@lru_cache(maxsize=4096)
def parse_schedule(pattern: str) -> Schedule:
    """Return the schedule of a pattern; raise :class:`ScheduleError`.  Equal patterns give one object."""
    text, zone = pattern.strip(), None
    if text.startswith(("CRON_TZ=", "TZ=")):
        name, _, text = text.partition(" ")
        try:
            zone = zone_of(name.partition("=")[2])
        except ApiError as error:
            raise ScheduleError(error.message) from None
        text = text.strip()
    if text.startswith("@every "):
        # Cron runners have whole seconds; anything shorter would only load the datasources.
        return Every(float(max(1, math.floor(parse_duration(text[7:].strip())))))
    if text.startswith("@"):
        if text not in DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = DESCRIPTORS[text]
    if len(text.split()) != 6:
        raise ScheduleError(f"expected exactly 6 fields, found {len(text.split())}: {text}")
    if not croniter.is_valid(text, second_at_beginning=True):
        raise ScheduleError(f"not a cron expression: {text}")
    return Cron(text, zone)


def effective_pattern(cron_pattern: str, interval: int) -> str:
    """Return the pattern in force: the rule's own, or its evaluation interval."""
    return cron_pattern.strip() or f"@every {interval}s"
