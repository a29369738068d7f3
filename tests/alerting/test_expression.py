"""Trigger expressions."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.alerting.expression import ExpressionError, compile_expression, evaluate, is_true

VARIABLES = {"$A": 10.0, "$B": 4.0, "$A.region": "eu", "$A.requests_total": 10.0}


def value(text: str) -> Any:
    return evaluate(compile_expression(text), VARIABLES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A > 9 && $B < 5", True),
        ("$A > 10 || $B == 4", True),
        ("$A > 10 or not ($B == 4)", False),
        ("!($A > 10) and true", True),
        ("1 + 2 * 3 - 4 / 2", 5.0),
        ("(1 + 2) * 3", 9.0),
        ("2 ** 3 ** 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("7 % 4", 3.0),
        ("10 - 3 - 2", 5.0),
        ("$A.requests_total / $B", 2.5),
        ('$A.region == "eu"', True),
        ("$A.region in ['us', 'eu']", True),
        ("$A not in [1, 2]", True),
        ('$A.region contains "e" && $A.region startsWith "e" && $A.region endsWith "u"', True),
        ('$A.region matches "^e.$"', True),
        ("between($A, [5, 10])", True),
        ("between($A, [11, 12])", False),
        ("$A > 5 ? 1 : 0", 1.0),
        ("max($A, $B, 11) - min(1, 2)", 10.0),
        ("abs(-3) + round(2.5) + floor(1.9) + ceil(1.1)", 9.0),
        ('len("abc") + int("4") + float("0.5")', 7.5),
        ('upper("a") + lower("B") + trim(" c ")', "Abc"),
        ("1 / 0 > 100", True),
        ("0 / 0 > 1", False),
        ('1 == "1"', False),
        ("1 != nil", True),
        ("1e3 + .5", 1000.5),
        (r'"a\"b" == "a\"b"', True),
    ],
)
def test_values(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "1 +",
            "(1",
            "1 2",
            "$",
            "$A >",
            "[1, 2",
            "foo",
            "foo(1)",
            "between(1)",
            "a b",
            "1 ? 2",
            "#",
            "not",
            "1 not 2",
        ),
        *("(" * 100 + "1" + ")" * 100, "!" * 100 + "true", "1" * 5000),
    ],
)
def test_syntax_errors(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        *("$C > 1", "$A.zone == 1", '$A > "1"', "$A && true", "!$A", '-"a"', '1 + "a"', "1 in 2", "9 % 0", "10 ** 400"),
        *('"a" matches "("', "between(1, 2)", "between(1, [1])", 'int("x")', "max()", "len(1)", "$A contains 1"),
    ],
)
def test_operands_that_do_not_fit(text: str) -> None:
    with pytest.raises(ExpressionError):
        value(text)


def test_what_triggers() -> None:
    assert [is_true(v) for v in (True, 1.0, 0.5, False, 0.0, -1.0, math.nan, "x", None, [1.0])] == [True] * 3 + [
        False
    ] * 7


@given(st.text(alphabet="$AB.()[]+-*/%<>=!&|?:,'\" 019eintorx", max_size=40))
def test_any_text_gives_a_value_or_an_expression_error(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        value(text)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from(["+", "-", "*", "<", ">=", "=="]))
def test_arithmetic_is_that_of_floats(a: float, b: float, operator: str) -> None:
    # The oracle is Python's own arithmetic.
    assert value(f"({a!r}) {operator} ({b!r})") == eval(f"({a!r}) {operator} ({b!r})")
