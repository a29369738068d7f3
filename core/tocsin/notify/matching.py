"""Whether an event matches a route of a notification rule: time, severity, tags, fields.

Routes are compiled once per change of their rule; matching makes no copies.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import re2

Json = Mapping[str, Any]
Test = Callable[[str], bool]
TARGET_GROUP = "target_group"
OPERATORS = frozenset(("==", "!=", "in", "not in", "=~", "!~"))


class FilterError(ValueError):
    """A condition that cannot be understood."""


@dataclass(frozen=True)
class Filter:
    """One compiled condition; ``test`` gets the text of a value that is present."""

    key: str
    operator: str
    test: Test
    wanted: frozenset[str] = frozenset()


def compile_filter(given: Json) -> Filter:
    """Return a condition ready for use; raise :class:`FilterError` for one that cannot be understood."""
    key, operator = str(given.get("key", "")), given.get("func") or given.get("op") or ""
    value = given.get("value")
    if not key:
        raise FilterError("tag key cannot be empty")
    match operator:
        case "==" | "!=":
            wanted, same = plain_text(value).strip(), operator == "=="
            return Filter(key, operator, lambda found: (found.strip() == wanted) is same, frozenset((wanted,)))
        case "in" | "not in":
            members = frozenset(value.split() if isinstance(value, str) else map(plain_text, _list(key, value)))
            return Filter(key, operator, lambda found: (found in members) is (operator == "in"), members)
        case "=~" | "!~":
            search = _pattern(key, value).search
            return Filter(key, operator, lambda found: (search(found) is not None) is (operator == "=~"))
        case _:
            raise FilterError(f"invalid operation: {key}: got {operator!r}, expected one of {sorted(OPERATORS)}")


def _list(key: str, value: Any) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    raise FilterError(f"{key}: got {type(value).__name__}, expected a list or words separated by spaces")


def _pattern(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        raise FilterError(f"{key}: got {type(value).__name__}, expected a regular expression")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(value, options)
    except re2.error:
        raise FilterError(f"{key}: {value!r} is no regular expression") from None


def plain_text(value: Any) -> str:
    """Return a JSON value as text: texts as they are, everything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


@dataclass(frozen=True)
class TimeRange:
    """Minutes of the day from ``start`` to before ``end`` on weekdays (0 is Sunday)."""

    start: int
    end: int
    week: frozenset[int]

    def covers(self, minute: int, weekday: int) -> bool:
        """Return whether a minute of a weekday is in the range; equal ends cover the day, end before start midnight."""
        if weekday not in self.week:
            return False
        if self.start == self.end:
            return True
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


LAST_MINUTE = 23 * 60 + 59


def compile_range(given: Json) -> TimeRange:
    """Return a time range ready for use; raise :class:`FilterError` for one that cannot be understood."""
    start, end = _minute("start", given.get("start")), _minute("end", given.get("end"))
    week = given.get("week") or []
    if not all(day in range(7) for day in week):
        raise FilterError(f"time_ranges.week: got {week}, expected days from 0 (Sunday) to 6")
    if start < end == LAST_MINUTE:
        end += 1
    return TimeRange(start, end, frozenset(week))


def _minute(name: str, value: Any) -> int:
    hours, colon, minutes = str(value or "").partition(":")
    if colon and hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60:
        return int(hours) * 60 + int(minutes)
    raise FilterError(f"time_ranges.{name}: got {value!r}, expected a time of day like 08:30")


@dataclass(frozen=True)
class Conditions:
    """When a route applies; empty members apply always."""

    severities: frozenset[int] = frozenset()
    times: tuple[TimeRange, ...] = ()
    tags: tuple[Filter, ...] = ()
    fields: tuple[Filter, ...] = ()

    def mismatch(self, event: Json, zone: dt.tzinfo) -> str:
        """Return why the event does not match, an empty text when it does."""
        if self.times and not self._in_time(event["trigger_time"], zone):
            return "event time not match time filter"
        if self.severities and event["severity"] not in self.severities:
            return "event severity not match severity filter"
        tags = event["tags_map"] or {}
        if not all(item.key in tags and item.test(tags[item.key]) for item in self.tags):
            return "event tag not match tag filter"
        if not all(_field_matches(item, event) for item in self.fields):
            return "event attributes not match attributes filter"
        return ""

    def _in_time(self, seconds: int, zone: dt.tzinfo) -> bool:
        local = dt.datetime.fromtimestamp(seconds, zone)
        minute, weekday = local.hour * 60 + local.minute, local.isoweekday() % 7
        return any(item.covers(minute, weekday) for item in self.times)


def compile_conditions(config: Json) -> Conditions:
    """Return a route's conditions ready for use; raise :class:`FilterError` for one that cannot be understood."""
    return Conditions(
        frozenset(config.get("severities") or ()),
        tuple(compile_range(item) for item in config.get("time_ranges") or ()),
        tuple(compile_filter(item) for item in config.get("label_keys") or ()),
        tuple(compile_filter(item) for item in config.get("attributes") or ()),
    )


def _field_matches(item: Filter, event: Json) -> bool:
    if item.key == TARGET_GROUP:
        return _target_matches(item, event.get("target"))
    if item.key not in event:
        return False
    return item.test(plain_text(event[item.key]))


def _target_matches(item: Filter, target: Any) -> bool:
    """Match the business groups of the event's host: by id for lists, by name for patterns."""
    if not isinstance(target, Mapping):
        return False
    if item.operator in ("in", "not in"):
        held = {str(group) for group in target.get("group_ids") or ()}
        return bool(held & item.wanted) is (item.operator == "in")
    names = target.get("group_names") or ()
    if item.operator == "=~":
        return any(item.test(name) for name in names)
    return item.operator == "!~" and all(item.test(name) for name in names)
