"""Go's ``time.Time`` and ``time.Duration`` as template values, and its reference-time layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, ClassVar

from .errors import CallError
from .values import Function, NamedInt, Record

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FRACTION = r"[.,]0+(?!\d)|[.,]9+(?!\d)"
_LAYOUT = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|-07:00:00|-070000|-07:00|-0700|-07|Z07:00:00|Z070000|Z07:00|Z0700|Z07"
    r"|002|__2|2006|_2(?!006)|01|02|03|04|05|06|15|PM|pm|1|2|3|4|5|" + _FRACTION
)


class Duration(Record):
    """A span of time in nanoseconds; prints as ``1h2m3s``."""

    __slots__ = ("nanoseconds",)
    type_name: ClassVar[str] = "time.Duration"

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds

    def printed(self) -> str:
        return _duration_text(self.nanoseconds)

    def plain(self) -> int:
        return self.nanoseconds


def _duration_text(total: int) -> str:
    sign, left = ("-" if total < 0 else ""), abs(total)
    if left < _SECOND:
        if left == 0:
            return "0s"
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if left >= size:
                return f"{sign}{_decimal(left, size)}{unit}"
    minutes, seconds = divmod(left, 60 * _SECOND)
    text = _decimal(seconds, _SECOND) + "s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = (f"{hours}h" if hours else "") + f"{minutes}m" + text
    return sign + text


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    digits = str(rest).zfill(len(str(size)) - 1).rstrip("0") if size > 1 else ""
    return f"{whole}.{digits}" if digits else str(whole)


class Time(Record):
    """An instant in a time zone; nanoseconds since 1970 and a ``tzinfo``."""

    __slots__ = ("moment", "nanoseconds", "zone")
    type_name: ClassVar[str] = "time.Time"

    def __init__(self, nanoseconds: int, zone: tzinfo) -> None:
        try:
            self.moment = (_EPOCH + timedelta(seconds=nanoseconds // _SECOND)).astimezone(zone)
        except (OverflowError, ValueError):
            raise CallError(f"time is out of range: {nanoseconds // _SECOND} seconds") from None
        self.nanoseconds = nanoseconds
        self.zone = zone

    def printed(self) -> str:
        return format_time(self, "2006-01-02 15:04:05.999999999 -0700 MST")

    def plain(self) -> str:
        return format_time(self, "2006-01-02T15:04:05.999999999Z07:00")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and other.nanoseconds == self.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)


def from_seconds(seconds: float, zone: tzinfo) -> Time:
    """The instant ``seconds`` after 1970 began."""
    if not -1e12 < seconds < 1e12:
        raise CallError(f"time is out of range: {seconds} seconds")
    whole = int(seconds // 1)
    rest = 0 if isinstance(seconds, int) else round((seconds - whole) * 1e6) * 1000
    return Time(whole * _SECOND + rest, zone)


def format_time(time: Time, layout: str) -> str:
    """``time`` by a Go layout such as ``2006-01-02 15:04:05``."""
    moment = time.moment
    nanos = time.nanoseconds % _SECOND

    def put(found: re.Match[str]) -> str:
        part = found[0]
        if part[0] in ".,":
            return _fraction(part, nanos)
        if part[0] in "-Z" and part[1:3] == "07":
            return _offset(part, moment)
        return str(_PARTS[part](moment))

    return _LAYOUT.sub(put, layout)


def _fraction(part: str, nanos: int) -> str:
    digits = f"{nanos:09d}"[: len(part) - 1]
    if part[1] == "0":
        return part[0] + digits.ljust(len(part) - 1, "0")
    digits = digits.rstrip("0")
    return part[0] + digits if digits else ""


def _offset(part: str, moment: datetime) -> str:
    total = round((moment.utcoffset() or timedelta()).total_seconds())
    if part[0] == "Z":
        if total == 0:
            return "Z"
        part = "-" + part[1:]
    sign = "-" if total < 0 else "+"
    hours, rest = divmod(abs(total), 3600)
    minutes, seconds = divmod(rest, 60)
    colon = ":" if ":" in part else ""
    text = f"{sign}{hours:02d}"
    digits = len(part.replace(":", "")) - 1
    if digits >= 4:
        text += f"{colon}{minutes:02d}"
    return text + (f"{colon}{seconds:02d}" if digits == 6 else "")


def _zone_name(moment: datetime) -> str:
    name = moment.tzname() or ""
    if name.isalpha():
        return name
    total = moment.utcoffset() or timedelta()
    return _offset("-0700" if total.seconds % 3600 else "-07", moment)


_PARTS: dict[str, Any] = {
    "January": lambda t: _MONTHS[t.month - 1],
    "Jan": lambda t: _MONTHS[t.month - 1][:3],
    "Monday": lambda t: _DAYS[t.weekday()],
    "Mon": lambda t: _DAYS[t.weekday()][:3],
    "MST": _zone_name,
    "002": lambda t: f"{t.timetuple().tm_yday:03d}",
    "__2": lambda t: f"{t.timetuple().tm_yday:3d}",
    "2006": lambda t: f"{t.year:04d}",
    "_2": lambda t: f"{t.day:2d}",
    "01": lambda t: f"{t.month:02d}",
    "02": lambda t: f"{t.day:02d}",
    "03": lambda t: f"{(t.hour % 12) or 12:02d}",
    "04": lambda t: f"{t.minute:02d}",
    "05": lambda t: f"{t.second:02d}",
    "06": lambda t: f"{t.year % 100:02d}",
    "15": lambda t: f"{t.hour:02d}",
    "PM": lambda t: "PM" if t.hour >= 12 else "AM",
    "pm": lambda t: "pm" if t.hour >= 12 else "am",
    "1": lambda t: str(t.month),
    "2": lambda t: str(t.day),
    "3": lambda t: str((t.hour % 12) or 12),
    "4": lambda t: str(t.minute),
    "5": lambda t: str(t.second),
}


def _other(value: Any, kind: type[Record]) -> Any:
    if not isinstance(value, kind):
        raise CallError(f"wrong type for value; expected {kind.type_name}")
    return value


def _table(*functions: Function) -> Mapping[str, Function]:
    return {function.name: function for function in functions}


def _add(time: Time, span: Any) -> Time:
    return Time(time.nanoseconds + int(_other(span, Duration).nanoseconds), time.zone)


def _add_date(time: Time, years: int, months: int, days: int) -> Time:
    moment = time.moment
    count = (moment.year + years) * 12 + moment.month - 1 + months
    try:
        first = moment.replace(year=count // 12, month=count % 12 + 1, day=1)
        shifted = (first.replace(tzinfo=None) + timedelta(days=moment.day - 1 + days)).replace(tzinfo=time.zone)
        seconds = (shifted - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise CallError("time is out of range") from None
    return Time(seconds * _SECOND + time.nanoseconds % _SECOND, time.zone)


Duration.methods = _table(
    Function("Hours", lambda d: d.nanoseconds / (3600 * _SECOND)),
    Function("Minutes", lambda d: d.nanoseconds / (60 * _SECOND)),
    Function("Seconds", lambda d: d.nanoseconds / _SECOND),
    Function("Milliseconds", lambda d: int(d.nanoseconds / 1_000_000)),
    Function("Nanoseconds", lambda d: d.nanoseconds),
    Function("String", lambda d: d.printed()),
)
Time.methods = _table(
    Function("Unix", lambda t: t.nanoseconds // _SECOND),
    Function("UnixMilli", lambda t: t.nanoseconds // 1_000_000),
    Function("UnixMicro", lambda t: t.nanoseconds // 1_000),
    Function("UnixNano", lambda t: t.nanoseconds),
    Function("Format", format_time, ("string",)),
    Function("UTC", lambda t: Time(t.nanoseconds, UTC)),
    Function("Year", lambda t: t.moment.year),
    Function("Month", lambda t: NamedInt(t.moment.month, _MONTHS[t.moment.month - 1])),
    Function("Day", lambda t: t.moment.day),
    Function("Hour", lambda t: t.moment.hour),
    Function("Minute", lambda t: t.moment.minute),
    Function("Second", lambda t: t.moment.second),
    Function("Nanosecond", lambda t: t.nanoseconds % _SECOND),
    Function("YearDay", lambda t: t.moment.timetuple().tm_yday),
    Function("Weekday", lambda t: NamedInt(t.moment.isoweekday() % 7, _DAYS[t.moment.weekday()])),
    Function("Add", _add, ("record",)),
    Function("AddDate", _add_date, ("int", "int", "int")),
    Function("Sub", lambda t, o: Duration(t.nanoseconds - _other(o, Time).nanoseconds), ("record",)),
    Function("Before", lambda t, o: t.nanoseconds < _other(o, Time).nanoseconds, ("record",)),
    Function("After", lambda t, o: t.nanoseconds > _other(o, Time).nanoseconds, ("record",)),
    Function("Equal", lambda t, o: t.nanoseconds == _other(o, Time).nanoseconds, ("record",)),
    Function("IsZero", lambda t: False),
    Function("String", lambda t: t.printed()),
)
