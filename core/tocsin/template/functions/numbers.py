"""Arithmetic and human-readable numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ..errors import CallError
from ..printf import sprintf
from ..show import sprint
from ..values import Function, type_name

_LARGE = ("k", "M", "G", "T", "P", "E", "Z", "Y")
_SMALL = ("m", "u", "n", "p", "f", "a", "z", "y")
_BINARY = ("ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
_FLOAT = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:inf|infinity|nan))")
_TRUE_WORDS = frozenset(("true", "yes", "on", "ok", "up"))
_FALSE_WORDS = frozenset(("false", "no", "off", "fail", "err", "down"))
_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_DURATION_SECONDS = (365 * 86400, 7 * 86400, 86400, 3600, 60, 1, 0.001)


def parse_float(text: str) -> float | None:
    """The number that ``text`` spells, ``None`` if it spells none."""
    return float(text) if _FLOAT.fullmatch(text) else None


def _number(value: Any) -> float | None:
    return parse_float(value) if isinstance(value, str) else float(value)


def _numeric(render: Callable[[float], str]) -> Callable[[Any], str]:
    """A function of one number; text that is no number comes back unchanged."""

    def apply(value: Any) -> str:
        number = _number(value)
        return str(value) if number is None else render(number)

    return apply


def _special(value: float) -> bool:
    return value == 0 or math.isnan(value) or math.isinf(value)


def _scale(value: float, units: tuple[str, ...], base: float) -> tuple[float, str]:
    prefix = ""
    for unit in units:
        if abs(value) < base:
            break
        prefix = unit
        value /= base
    return value, prefix


def _magnify(value: float) -> tuple[float, str]:
    """A number below one with its small prefix."""
    prefix = ""
    for unit in _SMALL:
        if abs(value) >= 1:
            break
        prefix = unit
        value *= 1000
    return value, prefix


def humanize(value: float) -> str:
    """Two decimals with a metric prefix: ``1.23k``, ``12.00m``."""
    if _special(value):
        return sprintf("%.2f", value)
    scaled, prefix = _scale(value, _LARGE, 1000) if abs(value) >= 1 else _magnify(value)
    return sprintf("%.2f", scaled) + prefix


def humanize1024(value: float) -> str:
    """Four significant digits with a binary prefix: ``1.5ki``."""
    if _special(value) or abs(value) <= 1:
        return sprintf("%.4g", value)
    scaled, prefix = _scale(value, _BINARY, 1024)
    return sprintf("%.4g", scaled) + prefix


def humanize_duration(value: float) -> str:
    """Seconds as ``1d 2h 3m 4s``; four significant digits under a minute, metric prefixes under a second."""
    if math.isnan(value) or math.isinf(value):
        return sprintf("%.4g", value)
    if value == 0:
        return "0s"
    if abs(value) < 1:
        scaled, prefix = _magnify(value)
        return f"{sprintf('%.4g', scaled)}{prefix}s"
    sign = "-" if value < 0 else ""
    total = int(abs(value))
    if total < 60:
        return f"{sign}{sprintf('%.4g', abs(value))}s"
    minutes, seconds = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {seconds}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {seconds}s"
    return f"{sign}{minutes}m {seconds}s"


def _duration_of_anything(value: Any) -> str:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _TRUE_WORDS or word in _FALSE_WORDS:
            return humanize_duration(float(word in _TRUE_WORDS))
        number = parse_float(value.strip())
    elif isinstance(value, int | float):
        number = float(value)
    else:
        number = None
    if number is None:
        raise CallError(f"can't convert {sprint(value)[:80]} to a number")
    return humanize_duration(number)


def _format_decimal(value: Any, digits: int) -> str:
    number = _number(value)
    if number is None:
        return str(value)
    if not 0 <= digits <= 100:
        raise CallError(f"decimals must be 0 to 100, got {digits}")
    return sprintf("%.*f", digits, number)


# -- arithmetic ----------------------------------------------------------------------------------------------------------


def _wrap(value: int) -> int:
    """64-bit two's complement, as Go computes."""
    return (value + 2**63) % 2**64 - 2**63


def _divide_integers(first: int, second: int) -> int:
    if second == 0:
        raise CallError("division by zero")
    quotient = abs(first) // abs(second)
    return quotient if (first < 0) == (second < 0) else -quotient


def _divide_floats(first: float, second: float) -> float:
    if second != 0:
        return first / second
    if first == 0 or math.isnan(first):
        return math.nan
    return math.copysign(math.inf, first) * math.copysign(1.0, second)


def _arithmetic(name: str, integers: Callable[[int, int], int], floats: Callable[[float, float], float]) -> Function:
    def apply(first: Any, second: Any) -> int | float:
        for value in (first, second):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise CallError(f"{name}: unknown type for '{sprint(value)[:80]}' ({type_name(value)})")
        if isinstance(first, int) and isinstance(second, int):
            return _wrap(integers(int(first), int(second)))
        try:
            return floats(float(first), float(second))
        except OverflowError:
            raise CallError(f"{name}: result out of range") from None

    return Function(name, apply, ("any", "any"))


# -- printf --------------------------------------------------------------------------------------------------------------


def _printf(form: str, *values: Any) -> str:
    """``printf`` that takes numbers from numeric text; a number with a unit comes back as it is."""
    if len(values) != 1 or not isinstance(values[0], str):
        return sprintf(form, *values)
    text = str(values[0])
    digits = any("0" <= char <= "9" for char in text)
    if digits and any(not ("0" <= char <= "9" or char in ".-+") for char in text):
        return text
    number = parse_float(text)
    return sprintf(form, text if number is None else number)


def _parse_duration(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if not text or not found:
        if text == "0":
            return 0.0
        raise CallError(f'not a valid duration string: "{text[:80]}"')
    if any(len(part or "") > 15 for part in found.groups()):
        raise CallError("duration out of range")
    return float(sum(int(part or 0) * unit for part, unit in zip(found.groups(), _DURATION_SECONDS, strict=True)))


FUNCTIONS = (
    Function("humanize", _numeric(humanize), ("number",)),
    Function("humanize1024", _numeric(humanize1024), ("number",)),
    Function("humanizeDuration", _numeric(humanize_duration), ("number",)),
    Function("humanizeDurationInterface", _duration_of_anything, ("any",)),
    Function("humanizePercentage", _numeric(lambda value: sprintf("%.4g%%", value * 100)), ("number",)),
    Function("humanizePercentageH", _numeric(lambda value: sprintf("%.4g%%", value)), ("number",)),
    Function("formatDecimal", _format_decimal, ("number", "int")),
    _arithmetic("add", lambda a, b: a + b, lambda a, b: a + b),
    _arithmetic("sub", lambda a, b: a - b, lambda a, b: a - b),
    _arithmetic("mul", lambda a, b: a * b, lambda a, b: a * b),
    _arithmetic("div", _divide_integers, _divide_floats),
    Function("printf", _printf, ("string",), "any"),
    Function("parseDuration", _parse_duration, ("string",)),
)
"""Functions of numbers."""
