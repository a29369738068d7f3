"""Regular expressions with the syntax and the linear-time guarantee of Go's `regexp`.

Both come from RE2, through the `google-re2` wheel: no pattern can backtrack, and a pattern whose program would need
more than the memory below is refused when it is compiled. Patterns are compiled once and kept in a bounded cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import re2

from .interface import Matcher

_MAX_PROGRAM_BYTES = 8 << 20
_MAX_PATTERN_CHARS = 65_536
_GO_WORDING = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
_LITERAL_SPECIALS = frozenset("\\.+*?()|[]{}^$")


class Match(Protocol):
    """A successful match."""

    def span(self, group: int) -> tuple[int, int]:
        """Character offsets of a group; (-1, -1) when it took no part."""
        ...


class Regex(Protocol):
    """A compiled pattern."""

    groups: int
    groupindex: dict[str, int]

    def fullmatch(self, text: str) -> Match | None:
        """Match the whole text."""
        ...


@lru_cache(maxsize=1024)
def compile_regex(pattern: str) -> Regex:
    """Compile; `.` matches newlines. Raises ValueError with a text for the user."""
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise ValueError(f"regular expression too long: {len(pattern)} characters, at most {_MAX_PATTERN_CHARS}")
    options = re2.Options()
    options.dot_nl = True
    options.log_errors = False
    options.max_mem = _MAX_PROGRAM_BYTES
    try:
        compiled: Regex = re2.compile(pattern, options)
    except re2.error as problem:
        raise ValueError(_explain(problem, pattern)) from None
    return compiled


def _explain(problem: Exception, pattern: str) -> str:
    """Word a compiler's complaint (`what: where`) as Go does."""
    detail = problem.args[0] if problem.args else ""
    text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
    what, _, where = text.partition(": ")
    return f"error parsing regexp: {_GO_WORDING.get(what, what)}: `{where or pattern}`"


def predicate(matcher: Matcher) -> Callable[[str], bool]:
    """Return the matcher's test as a function of the label's value. Raises ValueError for a bad pattern."""
    wanted = matcher.value
    if matcher.op == "=":
        return lambda value: value == wanted
    if matcher.op == "!=":
        return lambda value: value != wanted
    matches = _pattern_test(wanted)
    if matcher.op == "=~":
        return matches
    return lambda value: not matches(value)


def _pattern_test(pattern: str) -> Callable[[str], bool]:
    regex = compile_regex(pattern)
    alternatives = pattern.split("|")
    if not any(_LITERAL_SPECIALS & set(part) for part in alternatives):
        return frozenset(alternatives).__contains__
    if pattern == ".*":
        return lambda value: True
    if pattern == ".+":
        return bool
    return lambda value: regex.fullmatch(value) is not None


def matches_empty(matcher: Matcher) -> bool:
    """Tell whether a series without the label satisfies the matcher."""
    return predicate(matcher)("")
