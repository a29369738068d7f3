"""JSON points: objects that each hold one sample, alone or in an array, as the older push protocols send them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from tocsin.plugin._errors import DecodeError
from tocsin.plugin._ingest import Decoded, IngestRequest
from tocsin.plugin._labels import LabelSets, encode_texts
from tocsin.plugin._wire import GZIP, encode_series, inflate

Labels = Callable[[Mapping[str, Any]], Sequence[tuple[str, str]]]
"""Makes the labels of an object; a ``ValueError`` refuses the object, a ``DecodeError`` the request."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?|nan", re.ASCII | re.IGNORECASE).fullmatch
MILLISECONDS_FROM = 0xFFFFFFFF
"""Timestamps above are milliseconds, the others seconds."""
FUTURE_SECONDS = 300
EARLIEST_SECONDS = -(1 << 53)
SHOWN_FAILURES = 100
"""Refused objects that a decoder describes; the others are only counted."""


def parse_json(data: bytes) -> Any:
    """Return parsed JSON; raise ``DecodeError`` for an empty body and for what is none."""
    if not data:
        raise DecodeError("json body invalid: EOF")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DecodeError(f"json body invalid: {error}") from None


def expect(where: str, value: Any, kind: type, expected: str) -> Any:
    """Return ``value`` if it is exactly of a type; raise ``DecodeError`` that names the field, the value and the wish."""
    if type(value) is not kind:
        raise DecodeError(f"{where}: got {_shown(value)}, expected {expected}")
    return value


def parse_value(value: Any) -> float:
    """Return a sample's value from a JSON number or the text of one; raise :class:`ValueError` for anything else."""
    if type(value) is float or type(value) is int:
        return value
    if type(value) is str and NUMBER(value):
        number = float(value)
        if number - number == 0 or not value[-1].isdigit():  # finite, or meant to be otherwise
            return number
    raise ValueError(f"unparsable value {_shown(value)}")


def parse_seconds(value: Any, now: float) -> int:
    """Return Unix seconds for a timestamp in seconds or milliseconds; none is 0, what lies in the future becomes now.

    Raises ``DecodeError`` for anything but an integer and :class:`ValueError` for a time that no clock shows.
    """
    seconds: int = 0 if value is None else expect(".timestamp", value, int, "an integer, Unix seconds")
    if seconds > MILLISECONDS_FROM:
        seconds //= 1000
    if seconds > now + FUTURE_SECONDS:
        seconds = int(now)
    if seconds < EARLIEST_SECONDS:
        raise ValueError(f"timestamp {seconds} is out of range")
    return seconds


def json_key(members: Any) -> bytes:
    """Return what tells parsed JSON values apart; raise ``DecodeError`` for nesting that no protocol has.

    The parser takes deeper nesting than the serialiser.
    """
    try:
        return orjson.dumps(members)
    except orjson.JSONEncodeError:
        raise DecodeError("json body invalid: nested too deeply") from None


class _NameError(ValueError):
    """An object whose names cannot be those of a series."""


class PointDecoder:
    """Decodes requests of one protocol.

    ``members`` are the names of the members that ``labels`` looks at; equal ones have equal labels.  Where ``labels`` raises
    ``DecodeError`` its text begins with the place inside the object, like ``.tags``.
    """

    def __init__(
        self,
        members: Sequence[str],
        labels: Labels,
        *,
        hostless: Callable[[Mapping[str, Any]], bool] = lambda item: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make a decoder.

        :param hostless: whether an object that has been taken belongs to no host, whatever its labels are.
        :param clock: Unix time in seconds.
        """
        self._members, self._labels, self._hostless, self._clock = tuple(members), labels, hostless, clock
        self.sets = LabelSets()

    def __call__(self, request: IngestRequest) -> Decoded:
        """Decode a request, gzipped or plain; objects that cannot be taken are counted, and the first are described.

        ``notes["failures"]`` holds ``(object as JSON, stage, message)`` of at most ``SHOWN_FAILURES`` of them; the stage is
        ``toprom`` for names that cannot be used, else ``clean``.
        """
        gzipped = request.headers.get("content-encoding", "").lower() == "gzip"
        found = parse_json(inflate(request.body, request.max_decoded, GZIP) if gzipped else request.body)
        items = found if isinstance(found, list) else [found]
        now = self._clock()
        out: list[bytes] = []
        hostless: list[bytes] = []
        failures: list[tuple[bytes, str, str]] = []
        for index, item in enumerate(items):
            try:
                point = self._point(item, now)
                (hostless if self._hostless(item) else out).append(point)
            except DecodeError as error:
                raise DecodeError(f"[{index}]{error}") from None
            except ValueError as error:
                stage = "toprom" if isinstance(error, _NameError) else "clean"
                failures.append((json_key(item) if len(failures) < SHOWN_FAILURES else b"", stage, str(error)))
        message = failures[0][2] if failures else ""
        notes = {"failures": failures[:SHOWN_FAILURES]}
        return Decoded(b"".join(out), len(failures), message, hostless=b"".join(hostless), notes=notes)

    def _point(self, item: Any, now: float) -> bytes:
        """Return the encoded series of an object.  PERF: once per sample, so the usual types are looked at first."""
        if type(item) is not dict:
            item = {} if item is None else expect("", item, dict, "an object")
        metric = item.get("metric")
        if type(metric) is not str or not metric:
            expect(".metric", "" if metric is None else metric, str, "a string")
            raise ValueError("metric is blank")
        seconds = item.get("timestamp")
        if type(seconds) is not int or not 0 <= seconds <= now:
            seconds = parse_seconds(seconds, now)
        value = item.get("value")
        if type(value) is not float and type(value) is not int:
            value = parse_value(value)
        key = json_key([metric, *map(item.get, self._members)])
        labels = self.sets.get(key)
        if labels is None:
            try:
                labels = encode_texts(self._labels(item))
            except ValueError as error:
                raise _NameError(str(error)) from None
            self.sets.put(key, labels)
        return encode_series(labels, (seconds * 1000,), (value,))


def _shown(value: Any) -> str:
    """Return the beginning of a JSON value as text."""
    try:
        return orjson.dumps(value).decode()[:80]
    except orjson.JSONEncodeError:
        return "a value that is nested too deeply"
