"""The one error that templates raise, and the bounds a rendering has to keep."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a template failed; a label value for metrics."""

    SYNTAX = "syntax"
    EXECUTION = "execution"
    LIMIT = "limit"


class TemplateError(Exception):
    """A template that cannot be compiled or rendered.

    ``name`` is the template, ``line`` counts from 1, ``column`` counts UTF-8 bytes from 0 as Go does and is ``None``
    for syntax errors. ``str()`` gives Go's wording: ``template: NAME:LINE[:COLUMN]: MESSAGE``.
    """

    def __init__(
        self, name: str, line: int, column: int | None, message: str, reason: Reason = Reason.EXECUTION
    ) -> None:
        where = f"{name}:{line}" if column is None else f"{name}:{line}:{column}"
        super().__init__(f"template: {where}: {message}")
        self.name = name
        self.line = line
        self.column = column
        self.message = message
        self.reason = reason


class CallError(ValueError):
    """What a template function raises for bad input; the interpreter adds where it happened."""


class LimitError(CallError):
    """A bound was exceeded inside a function or while a value was printed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one compilation and one rendering.

    ``source`` and ``output`` are characters, ``steps`` counts loop and call work (one per node executed in a loop body
    or called template, plus one per 16 characters or items that a function is given or returns), ``calls`` is the depth
    of nested ``{{template}}`` calls.
    """

    source: int = 256 * 1024
    output: int = 1024 * 1024
    steps: int = 250_000
    calls: int = 40


def locate(text: str, position: int) -> tuple[int, int]:
    """Line (from 1) and column (UTF-8 bytes from 0) of a character offset."""
    start = text.rfind("\n", 0, position) + 1
    line = text.count("\n", 0, position) + 1
    return line, len(text[start:position].encode("utf-8", "surrogatepass"))
