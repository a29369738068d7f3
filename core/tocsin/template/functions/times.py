"""Times: the only functions that depend on the clock and the server's time zone, which are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any

from ..errors import CallError
from ..gotime import Time, format_time, from_seconds
from ..show import sprint
from ..values import Function
from .numbers import parse_float

DEFAULT_LAYOUT = "2006-01-02 15:04:05"


def _seconds(value: Any) -> float:
    if isinstance(value, str):
        number = parse_float(value)
        if number is None:
            raise CallError(f"expected a number of seconds, got {sprint(value)[:80]}")
        return int(number) if number.is_integer() else number
    return float(value) if isinstance(value, float) else int(value)


def _humanize_timestamp(value: Any) -> str:
    seconds = _seconds(value)
    if math.isnan(seconds) or math.isinf(seconds):
        return "NaN" if math.isnan(seconds) else ("+Inf" if seconds > 0 else "-Inf")
    return from_seconds(round(seconds, 3), UTC).printed()


def time_functions(clock: Callable[[], float], zone: tzinfo) -> tuple[Function, ...]:
    """Functions of time for a clock (seconds since 1970) and a local time zone."""

    def timeformat(value: Any, layout: str = DEFAULT_LAYOUT) -> str:
        return format_time(from_seconds(_seconds(value), zone), layout)

    def timestamp(layout: str = DEFAULT_LAYOUT) -> str:
        return format_time(now(), layout)

    def now() -> Time:
        return from_seconds(clock(), zone)

    return (
        Function("timeformat", timeformat, ("number", "string"), required=1),
        Function("timestamp", timestamp, ("string",), required=0),
        Function("now", now),
        Function("toTime", lambda value: from_seconds(_seconds(value), UTC), ("number",)),
        Function("humanizeTimestamp", _humanize_timestamp, ("number",)),
    )
