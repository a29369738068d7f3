"""Matchers and regular expressions."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_tsdb.promql.interface import Matcher, MatchOp
from tocsin_tsdb.promql.labelfunctions import expand, natural_less
from tocsin_tsdb.promql.regex import compile_regex, matches_empty, predicate


def _test(op: MatchOp, pattern: str, value: str) -> bool:
    return predicate(Matcher("a", op, pattern))(value)


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("abc", "abc", True),
        ("abc", "xabc", False),
        ("a|b|c", "b", True),
        ("a|b|c", "ab", False),
        ("a|", "", True),
        ("", "", True),
        ("", "a", False),
        (".*", "line\nbreak", True),
        (".+", "", False),
        ("a.c", "a\nc", True),
        ("(?i)ABC|x", "abc", True),
        ("ü+", "üü", True),
        (r"\d{2,}", "123", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        ("^abc$", "abc", True),
        ("a||b", "", True),
    ],
)
def test_patterns_match_whole_values(pattern: str, value: str, expected: bool) -> None:
    assert _test("=~", pattern, value) is expected
    assert _test("!~", pattern, value) is not expected


def test_equality_is_literal() -> None:
    assert _test("=", "a.c", "a.c")
    assert not _test("=", "a.c", "abc")
    assert _test("!=", "a", "")
    assert matches_empty(Matcher("a", "!=", "b"))
    assert not matches_empty(Matcher("a", "=~", ".+"))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing closing )"),
        ("a)", "unexpected )"),
        ("[a", "missing closing ]"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        (r"a\1", "invalid escape sequence"),
        ("a\\", "trailing backslash at end of expression"),
        ("((a{100}){100}){100}", ""),
        ("x" * 70_000, "regular expression too long"),
    ],
)
def test_bad_patterns_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|regexp") as caught:
        compile_regex(pattern)
    assert message in str(caught.value)


def test_no_pattern_explodes() -> None:
    """What takes a backtracking engine centuries."""
    started = time.process_time()
    assert not _test("=~", "(a+)+b", "a" * 20_000)
    assert not _test("=~", "(a|a)*b|(x+x+)+y", "a" * 20_000 + "x" * 20_000)
    assert time.process_time() - started < 5


@given(st.text(max_size=5), st.lists(st.sampled_from(["", "a", "ab", "b.", "é"]), min_size=1, max_size=4))
def test_literal_alternatives_are_only_a_shortcut(value: str, parts: list[str]) -> None:
    pattern = "|".join(parts)
    assert _test("=~", pattern, value) is (compile_regex(pattern).fullmatch(value) is not None)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("$1-$2", "one-two"),
        ("${1}x$1x", "onex"),
        ("$name", "two"),
        ("${name}", "two"),
        ("$$1", "$1"),
        ("$3$4$unknown", ""),
        ("$0", "one two"),
        ("100%", "100%"),
        ("$", "$"),
        ("$-", "$-"),
        ("${}", "${}"),
        ("${1-2}", "${1-2}"),
        ("${1", "${1"),
        ("$01", ""),
    ],
)
def test_templates(template: str, expected: str) -> None:
    regex = compile_regex(r"(\w+) (?P<name>\w+)(!)?")
    match = regex.fullmatch("one two")
    assert match is not None
    assert expand(regex, match, template, "one two") == expected


def test_natural_order() -> None:
    ordered = ["", "1", "2", "10", "a", "a1", "a2b3", "a2b10", "a10", "b"]
    for place, one in enumerate(ordered):
        for other in ordered[place + 1 :]:
            assert natural_less(one, other), (one, other)
            assert not natural_less(other, one), (one, other)
