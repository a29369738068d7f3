"""Expressions written back."""

from __future__ import annotations

import contextlib

import pytest

from tocsin_tsdb.promql.interface import ParseError
from tocsin_tsdb.promql.nodes import Expr
from tocsin_tsdb.promql.parser import parse
from tocsin_tsdb.promql.printer import pretty, to_text

from .differential_queries import generated_queries

LINES = {
    "1+2": "1 + 2",
    "1e3": "1000",
    "5m * 2": "5m * 2",
    "-  foo": "-foo",
    "'a\"b'": r'"a\"b"',
    'foo{ a = "b" , c=~"d"}': 'foo{a="b",c=~"d"}',
    '{__name__="foo",a="b"}': 'foo{a="b"}',
    '{"foo"}': "foo",
    '{"foo bar","x.y"!="1"}': '{"foo bar","x.y"!="1"}',
    '{__name__=~"a|b"}': '{__name__=~"a|b"}',
    "foo[90s]": "foo[1m30s]",
    "foo offset 5m @ 1": "foo @ 1.000 offset 5m",
    "foo[5m] @ start() offset -1h": "foo[5m] @ start() offset -1h",
    "sum(foo)[1h:] offset 1w": "sum(foo)[1h:] offset 1w",
    "sum(foo)by(a,b)": "sum by (a, b) (foo)",
    "sum without()(foo)": "sum without () (foo)",
    "topk(3,foo) by ('x.y')": 'topk by ("x.y") (3, foo)',
    "a+on()b": "a + on () b",
    "a / ignoring (x,) group_left b": "a / ignoring (x) group_left () b",
    "a == bool on (x) group_right(y) b": "a == bool on (x) group_right (y) b",
    "a + fill(0) b": "a + fill (0) b",
    "a + on(x) fill_left(-1) fill_right(2) b": "a + on (x) fill_left (-1) fill_right (2) b",
    "(a)": "(a)",
    "rate( foo [ 5m ] ) # why": "rate(foo[5m])",
}


@pytest.mark.parametrize("query", LINES)
def test_one_line(query: str) -> None:
    assert to_text(parse(query)) == pretty(parse(query)) == LINES[query]


def test_several_lines() -> None:
    query = (
        'sum by (job) (rate(http_requests_total{job="api",code=~"5.."}[5m])) / on (job) '
        'group_left () quantile by (job) (0.5, rate(http_requests_total{job="api-server-with-a-long-name"}[5m]))'
    )
    assert pretty(parse(query)) == "\n".join(
        (
            '  sum by (job) (rate(http_requests_total{job="api",code=~"5.."}[5m]))',
            "/ on (job) group_left ()",
            '  quantile by (job) (0.5, rate(http_requests_total{job="api-server-with-a-long-name"}[5m]))',
        )
    )
    long = f'max(abs(-(foo{{label="{"x" * 100}"}})))'
    assert pretty(parse(long)) == "\n".join(
        ("max(", "  abs(", "    -(", f'      foo{{label="{"x" * 100}"}}', "    )", "  )", ")")
    )


def test_what_is_written_is_read_back() -> None:
    for query in generated_queries(3, 300):
        with contextlib.suppress(ParseError):
            tree = parse(query)
            text = to_text(tree)
            for again in (text, pretty(tree)):
                assert to_text(_reparsed(again)) == text


def _reparsed(text: str) -> Expr:
    try:
        return parse(text)
    except ParseError as problem:
        raise AssertionError(text) from problem
