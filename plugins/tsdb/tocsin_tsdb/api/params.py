"""Parameters of the API: query string and form body alike, times, durations, selectors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import falcon

from tocsin_tsdb.api.failure import bad_data, invalid_parameter, too_large
from tocsin_tsdb.promql.durations import parse_duration
from tocsin_tsdb.promql.interface import Matcher, PromQLError
from tocsin_tsdb.promql.parser import parse_matchers
from tocsin_tsdb.promql.regex import matches_empty

T = TypeVar("T")

UNBOUNDED = 1 << 60
"""Milliseconds; farther than any sample in either direction."""
MAX_FORM_BYTES = 10 << 20
_MAX_MS = (1 << 63) / 1e6
_RFC3339 = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Parameters:
    """The parameters of one request; a form body adds to the query string."""

    def __init__(self, req: falcon.Request) -> None:
        self._query = req.params
        self._form: dict[str, str | list[str]] = {}
        if req.method == "POST" and (req.content_type or "").startswith(falcon.MEDIA_URLENCODED):
            body = req.bounded_stream.read(MAX_FORM_BYTES + 1)
            if len(body) > MAX_FORM_BYTES:
                raise too_large(f"form body is over the limit of {MAX_FORM_BYTES} bytes")
            try:
                self._form = falcon.uri.parse_query_string(body.decode(), keep_blank=True)
            except ValueError as error:
                raise bad_data(f"error parsing form values: {error}") from None

    def text(self, name: str) -> str:
        """Return the first value, or an empty text."""
        found = self._form.get(name) or self._query.get(name, "")
        return found if isinstance(found, str) else found[0]

    def texts(self, name: str) -> list[str]:
        """Return all values. A form value comes before one of the query string, as in Go's ParseForm."""
        both = (self._form.get(name, []), self._query.get(name, []))
        return [text for found in both for text in ([found] if isinstance(found, str) else found)]

    def _parsed(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self.text(name)
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise invalid_parameter(name, str(error)) from None

    def time(self, name: str, default: int) -> int:
        """Return a time in ms: unix seconds with fraction, or RFC 3339."""

        def parsed(text: str) -> int:
            try:
                return parse_time(text)
            except ValueError as error:
                raise ValueError(f"Invalid time value for '{name}': {error}") from None

        return self._parsed(name, parsed, default)

    def required_time(self, name: str) -> int:
        """Return a time that must be given."""
        if not self.text(name):
            raise invalid_parameter(name, 'cannot parse "" to a valid timestamp')
        return self._parsed(name, parse_time, 0)

    def duration(self, name: str, default: int) -> int:
        """Return a duration in ms: seconds, or a Prometheus duration."""
        return self._parsed(name, parse_seconds_or_duration, default)

    def limit(self) -> int:
        """Return the parameter `limit`; 0 means none."""
        return self._parsed("limit", _non_negative, 0)

    def number(self, name: str, default: int) -> int:
        """Return a whole number of any sign."""
        text = self.text(name)
        if not text:
            return default
        if not _INTEGER.fullmatch(text):
            raise bad_data(f"{name} must be a number")
        return int(text)

    def selectors(self) -> list[tuple[Matcher, ...]]:
        """Return the parsed `match[]` parameters; each must have a matcher that an empty value does not satisfy."""
        found = []
        for text in self.texts("match[]"):
            try:
                matchers = parse_matchers(text)
            except PromQLError as error:
                raise invalid_parameter("match[]", str(error)) from None
            if all(map(matches_empty, matchers)):
                raise invalid_parameter("match[]", "match[] must contain at least one non-empty matcher")
            found.append(matchers)
        return found

    def span(self) -> tuple[int, int]:
        """Return `start` and `end` in ms, unbounded where they are missing."""
        start, end = self.time("start", -UNBOUNDED), self.time("end", UNBOUNDED)
        if end < start:
            raise invalid_parameter("end", "end timestamp must not be before start time")
        return start, end


def parse_time(text: str) -> int:
    """Return milliseconds since 1970. Raises ValueError."""
    if _FLOAT.fullmatch(text):
        seconds = float(text)
        if math.isfinite(seconds) and abs(seconds) < _MAX_MS:
            return round(seconds * 1000)
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f'cannot parse "{text}" to a valid timestamp')
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'zZ' else zone}")
    except ValueError:
        raise ValueError(f'cannot parse "{text}" to a valid timestamp') from None
    millis = int((fraction or "").ljust(9, "0")) // 1_000_000
    return (moment - _EPOCH) // timedelta(milliseconds=1) + millis


def parse_seconds_or_duration(text: str) -> int:
    """Return milliseconds. Raises ValueError."""
    if _FLOAT.fullmatch(text):
        seconds = float(text)
        if not math.isfinite(seconds) or abs(seconds) > _MAX_MS:
            raise ValueError(f'cannot parse "{text}" to a valid duration. It overflows int64')
        return round(seconds * 1000)
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError(f'cannot parse "{text}" to a valid duration') from None


def _non_negative(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise ValueError("limit must be non-negative")
    return number
