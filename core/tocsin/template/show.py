"""How values print: Go's ``%v`` of every kind of value, within a bound."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from .errors import LimitError
from .values import NO_VALUE, NamedInt, Record, Struct

MAX_TEXT = 1024 * 1024
"""Longest text that one value or one function call may produce, in characters."""
_MAX_DEPTH = 40

_SIMPLE_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
}


def show(value: Any) -> str:
    """The text of ``{{value}}`` in text mode."""
    kind = value.__class__
    if kind is str:
        return str(value)
    if kind is int:
        return int.__repr__(value)
    if value is None or value is NO_VALUE:
        return "<no value>"
    return sprint(value)


def sprint(value: Any) -> str:
    """``%v`` of one value; nil is ``<nil>``. Raises :class:`LimitError` beyond :data:`MAX_TEXT`."""
    text = scalar(value)
    if text is not None:
        return text
    parts: list[str] = []
    _Walk(parts).add(value, 0)
    return "".join(parts)


def scalar(value: Any) -> str | None:
    """``%v`` of a value without parts, ``None`` for lists, maps and structs."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, NamedInt):
        return value.label
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return shortest(value)
    if value is None or value is NO_VALUE:
        return "<nil>"
    if isinstance(value, Record):
        return value.printed()
    if isinstance(value, list | tuple | dict | bytes):
        return None
    return "(opaque)"


class _Walk:
    """Prints nested values; shared substructure cannot make it print without end."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = parts
        self.room = MAX_TEXT

    def add(self, value: Any, depth: int) -> None:
        text = scalar(value)
        if text is not None:
            self.put(text)
        elif depth > _MAX_DEPTH:
            raise LimitError("value is nested too deeply")
        elif isinstance(value, dict):
            self.pairs("map[", [(key, value[key]) for key in sorted_keys(value)], depth)
        elif isinstance(value, Struct | Record):
            self.items("{", [item for _, item in value.items()], "}", depth)
        else:
            self.items("[", list(value), "]", depth)

    def put(self, text: str) -> None:
        self.room -= len(text) + 1
        if self.room < 0:
            raise LimitError("value is too long to print")
        self.parts.append(text)

    def items(self, opening: str, items: list[Any], closing: str, depth: int) -> None:
        self.put(opening)
        for number, item in enumerate(items):
            if number:
                self.put(" ")
            self.add(item, depth + 1)
        self.put(closing)

    def pairs(self, opening: str, pairs: list[tuple[Any, Any]], depth: int) -> None:
        self.put(opening)
        for number, (key, item) in enumerate(pairs):
            if number:
                self.put(" ")
            self.add(key, depth + 1)
            self.put(":")
            self.add(item, depth + 1)
        self.put("]")


def sorted_keys(mapping: dict[Any, Any]) -> list[Any]:
    """Keys in Go's order: numbers before text, each ascending."""
    try:
        return sorted(mapping)
    except TypeError:
        return sorted(mapping, key=lambda key: (type(key).__name__, key if isinstance(key, str) else str(key)))


def special(value: float) -> str | None:
    """The text of infinities and not-a-number, else ``None``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "-Inf" if value < 0 else "+Inf"
    return None


def shortest(value: float, low: int = -4, high: int = 6) -> str:
    """The shortest text that reads back as ``value``; with an exponent below ``low`` or from ``high`` on."""
    odd = special(value)
    if odd is not None:
        return odd
    sign, digits, exponent = digits_of(value)
    size = exponent + len(digits) - 1
    if value != 0 and (size < low or size >= high):
        return sign + scientific(digits, size)
    return sign + format(Decimal((0, tuple(map(int, digits)), exponent)), "f")


def digits_of(value: float) -> tuple[str, str, int]:
    """Sign, significant digits without trailing zeros, and the exponent of the last digit."""
    number = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, number.digits)).lstrip("0")
    exponent = int(number.exponent)
    kept = digits.rstrip("0") or "0"
    exponent += len(digits) - len(kept) if digits else -exponent
    return ("-" if number.sign else ""), kept, exponent


def scientific(digits: str, size: int, letter: str = "e") -> str:
    """``d.ddde+XX``, the exponent with at least two digits."""
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{mantissa}{letter}{'-' if size < 0 else '+'}{abs(size):02d}"


def quote(text: str, ascii_only: bool = False) -> str:
    """``text`` as a double-quoted Go string literal."""
    if not ascii_only and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    parts = []
    for char in text:
        if char == '"':
            parts.append('\\"')
        else:
            parts.append(escape_char(char, ascii_only))
    return '"' + "".join(parts) + '"'


def escape_char(char: str, ascii_only: bool = False) -> str:
    """One character inside a Go literal (quotes are the caller's)."""
    simple = _SIMPLE_ESCAPES.get(char)
    if simple is not None:
        return simple
    code = ord(char)
    if char.isprintable() and (code < 0x80 or not ascii_only):
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
