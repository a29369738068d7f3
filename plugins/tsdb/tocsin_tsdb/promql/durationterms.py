"""Arithmetic inside durations, as in `[2 * 5m]` or `offset step()`: its terms, their value and their text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from .durations import MAX_DURATION_MS, format_duration
from .interface import ParseError
from .numbers import format_decimal
from .source import parse_error

TERM_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "^": 3}
TERM_SIGN_PRECEDENCE = 3  # a sign binds tighter than multiplication, looser than a power: -1^2 is -(1^2)
_FUNCTIONS = frozenset(("min", "max", "step", "range"))


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of seconds; `is_duration` when it was written as a duration."""

    seconds: float
    is_duration: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or function on terms. `(` stands for parentheses; `start` is its place in the query."""

    operator: str
    operands: tuple[Term, ...]
    start: int


Term: TypeAlias = Quantity | Operation


@dataclass(frozen=True, slots=True)
class Grid:
    """What the terms `step()` and `range()` stand for: the step of the whole query and the length of its interval."""

    step_ms: int
    range_ms: int


def is_constant(term: Term) -> bool:
    """Tell whether the value does not depend on the query's times."""
    if isinstance(term, Quantity):
        return True
    return term.operator not in ("step", "range") and all(map(is_constant, term.operands))


def milliseconds(term: Term, query: str, at: int, grid: Grid, *, positive: bool) -> int:
    """Return the value of a term that begins at a character of the query. Raises ParseError if it cannot be one."""
    value = _seconds(term, query, grid) * 1000
    if not abs(value) <= MAX_DURATION_MS:  # NaN included
        raise parse_error(query, at, "duration out of range")
    if positive and round(value) <= 0:
        raise parse_error(query, at, "duration must be greater than 0")
    return round(value)


def _seconds(term: Term, query: str, grid: Grid) -> float:
    if isinstance(term, Quantity):
        return term.seconds
    operands = [_seconds(operand, query, grid) for operand in term.operands]
    match term.operator, operands:
        case "step", _:
            return grid.step_ms / 1000
        case "range", _:
            return grid.range_ms / 1000
        case "min", _:
            return min(operands)
        case "max", _:
            return max(operands)
        case (("(" | "+"), [value]):
            return value
        case "-", [value]:
            return -value
        case operator, [left, right]:
            return _combine(operator, left, right, query, term.start)
    raise AssertionError(term)


def _combine(operator: str, left: float, right: float, query: str, start: int) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if right:
            return left / right
        case "%" if right:
            return math.fmod(left, right)
        case "^":
            return _power(left, right)
    raise _zero(operator, query, start)


def _zero(operator: str, query: str, start: int) -> ParseError:
    return parse_error(query, start, "division by zero" if operator == "/" else "modulo by zero")


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError):  # neither is a length of time
        return math.nan


def term_text(term: Term) -> str:
    """Return the term as text."""
    if isinstance(term, Quantity):
        if term.is_duration:
            return format_duration(round(term.seconds * 1000))
        return format_decimal(term.seconds).removeprefix("+")
    texts = [term_text(operand) for operand in term.operands]
    if term.operator in _FUNCTIONS:
        return f"{term.operator}({', '.join(texts)})"
    if term.operator == "(":
        return f"({texts[0]})"
    return f" {term.operator} ".join(texts) if len(texts) > 1 else term.operator + texts[0]
