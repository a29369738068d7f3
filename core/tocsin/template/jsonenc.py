"""JSON text of template values as Go's ``encoding/json`` writes it, within a bound."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from .errors import CallError, LimitError
from .show import MAX_TEXT, digits_of, scientific, shortest
from .values import NO_VALUE, NamedInt, Record, type_name

_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def json_text(value: Any) -> str:
    """``value`` as compact JSON: keys sorted, ``<``, ``>`` and ``&`` escaped; raises :class:`CallError`."""
    parts: list[str] = []
    room = MAX_TEXT
    for part in _pieces(value, 0):
        room -= len(part)
        if room < 0:
            raise LimitError("JSON text is too long")
        parts.append(part)
    return "".join(parts)


def _pieces(value: Any, depth: int) -> Iterator[str]:
    if depth > 40:
        raise LimitError("value is nested too deeply")
    if isinstance(value, str):
        yield json.dumps(str(value), ensure_ascii=False).translate(_HTML)
    elif value is None or value is NO_VALUE:
        yield "null"
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, int | NamedInt):
        yield int.__repr__(value)
    elif isinstance(value, float):
        yield _number(value)
    elif isinstance(value, Record):
        yield from _pieces(value.plain(), depth)
    elif isinstance(value, dict):
        yield from _object(value, depth)
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield "," if place else "["
            yield from _pieces(item, depth + 1)
        yield "]" if value else "[]"
    else:
        raise CallError(f"json: unsupported type: {type_name(value)}")


def _object(value: dict[Any, Any], depth: int) -> Iterator[str]:
    for place, (name, item) in enumerate(
        sorted(((str(key), item) for key, item in value.items()), key=lambda pair: pair[0])
    ):
        yield "," if place else "{"
        yield from _pieces(name, depth)
        yield ":"
        yield from _pieces(item, depth + 1)
    yield "}" if value else "{}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise CallError(f"json: unsupported value: {shortest(value)}")
    size = abs(value)
    if size != 0 and (size < 1e-6 or size >= 1e21):
        sign, digits, exponent = digits_of(value)
        return (sign + scientific(digits, exponent + len(digits) - 1)).replace("e-0", "e-")
    return shortest(value, low=-7, high=21)
