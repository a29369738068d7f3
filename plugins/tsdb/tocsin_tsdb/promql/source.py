"""Places in a query's text, and errors that point at them."""

from __future__ import annotations

from dataclasses import dataclass

from .interface import ParseError


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of characters [start, end) in the query."""

    start: int
    end: int


def place(query: str, offset: int) -> str:
    """Return `line:column` of a character offset; both count from 1, columns count bytes of UTF-8."""
    if not query:
        return "unknown position"
    before = query[:offset]
    line_start = before.rfind("\n") + 1
    return f"{before.count(chr(10)) + 1}:{len(before[line_start:].encode()) + 1}"


def parse_error(query: str, offset: int, message: str) -> ParseError:
    """Build the error for something wrong at a character offset."""
    return ParseError(f"{place(query, offset)}: parse error: {message}")
