"""Business hours of a rule: on which weekdays and between which times it is in effect."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tocsin.plugin import invalid

START = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
WEEKDAY = re.compile(r"[0-9]{1,3}")
LOCAL_NAMES = ("", "Local")


def zone_of(name: str) -> dt.tzinfo | None:
    """Return the time zone called ``name``, ``None`` for the server's own; raise ``invalid`` for an unknown one."""
    if name in LOCAL_NAMES:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise invalid(f"invalid timezone: {name}") from None


@dataclass(frozen=True)
class Window:
    """One span: weekdays (0 is Sunday) and local times as ``HH:MM``."""

    days: frozenset[int]
    start: str
    end: str

    def covers(self, weekday: int, clock: str) -> bool:
        """Return whether the local time ``clock`` on ``weekday`` lies in the span."""
        if weekday not in self.days:
            return False
        if self.start == self.end:
            return True
        if self.start < self.end:
            return self.start <= clock and (clock < self.end or self.end == "23:59")
        return clock >= self.start or clock < self.end


@dataclass(frozen=True)
class Windows:
    """The spans of a rule; without any it is always in effect."""

    spans: tuple[Window, ...]
    restricted: bool
    zone: dt.tzinfo | None

    def cover(self, at: float) -> bool:
        """Return whether the rule is in effect at ``at`` (seconds since the epoch)."""
        if not self.restricted:
            return True
        local = dt.datetime.fromtimestamp(at, self.zone)
        weekday, clock = (local.weekday() + 1) % 7, local.strftime("%H:%M")
        return any(span.covers(weekday, clock) for span in self.spans)


def windows_of(
    starts: Sequence[str], ends: Sequence[str], days: Sequence[Sequence[str]], zone: dt.tzinfo | None
) -> Windows:
    """Return the windows of three parallel lists; a group of days without both times restricts but never covers."""
    groups = [group for group in days if group]
    spans = tuple(
        Window(frozenset(int(day) % 7 for day in group if WEEKDAY.fullmatch(day)), start, end)
        for group, start, end in zip(groups, starts, ends, strict=False)
    )
    return Windows(spans, bool(groups), zone)


def check_windows(starts: Sequence[str], ends: Sequence[str], days: Sequence[Sequence[str]]) -> None:
    """Raise ``invalid`` when lists differ in length or a time is malformed."""
    groups = [group for group in days if group]
    if not len(starts) == len(ends) == len(groups):
        raise invalid(
            f"invalid effective time span: start times({len(starts)}), end times({len(ends)}) "
            f"and days-of-week groups({len(groups)}) must have the same count"
        )
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        if not START.fullmatch(start):
            raise invalid(f"invalid effective time span {number}: start time({start}) must be in HH:MM format")
        if not START.fullmatch(end) and end != "24:00":
            raise invalid(f"invalid effective time span {number}: end time({end}) must be in HH:MM format")
