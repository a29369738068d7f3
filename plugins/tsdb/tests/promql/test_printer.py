"""Expressions written back."""

from __future__ import annotations

import contextlib

import pytest

from tocsin_tsdb.promql.describe import describe
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
    "foo[ 5m+2*( 10-step() ) ]": "foo[5m + 2 * (10 - step())]",
    "foo[RANGE():-1+90s] offset -min(1m,step())": "foo[range():-1 + 1m30s] offset -min(1m, step())",
    "foo [5m]anchored @ 5": "foo[5m] anchored @ 5.000",
    "foo SMOOTHED offset 5m": "foo smoothed offset 5m",
    "foo offset (2*5m)": "foo offset (2 * 5m)",
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


def test_description() -> None:
    tree = describe(parse('sum by (a) (rate(x_total{b!="c"}[5m] @ 2 offset 1s)) / on (a) group_left (d) -y @ end()'))
    window = {
        "type": "matrixSelector",
        "name": "x_total",
        "range": 300_000,
        "offset": 1000,
        "timestamp": 2000,
        "startOrEnd": None,
        "matchers": [
            {"name": "b", "type": "!=", "value": "c"},
            {"name": "__name__", "type": "=", "value": "x_total"},
        ],
    }
    rate = {"name": "rate", "argTypes": ["matrix"], "variadic": 0, "returnType": "vector"}
    assert tree["lhs"] == {
        "type": "aggregation",
        "op": "sum",
        "expr": {"type": "call", "func": rate, "args": [window]},
        "param": None,
        "grouping": ["a"],
        "without": False,
    }
    assert tree["matching"] == {"card": "many-to-one", "labels": ["a"], "on": True, "include": ["d"]}
    assert (tree["rhs"]["type"], tree["rhs"]["expr"]["startOrEnd"]) == ("unaryExpr", "end")


def test_description_of_everything_else() -> None:
    tree = describe(parse("(1 + 2) * 3"))
    assert tree == {
        "type": "binaryExpr",
        "op": "*",
        "lhs": {
            "type": "parenExpr",
            "expr": {
                "type": "binaryExpr",
                "op": "+",
                "lhs": {"type": "numberLiteral", "val": "1"},
                "rhs": {"type": "numberLiteral", "val": "2"},
                "matching": None,
                "bool": False,
            },
        },
        "rhs": {"type": "numberLiteral", "val": "3"},
        "matching": None,
        "bool": False,
    }
    subquery = describe(parse('label_replace(a or b, "x", "y", "z", "")[1h:5m]'))
    assert (subquery["type"], subquery["range"], subquery["step"]) == ("subquery", 3_600_000, 300_000)
    assert subquery["expr"]["args"][0]["matching"]["card"] == "many-to-many"
    assert subquery["expr"]["args"][1] == {"type": "stringLiteral", "val": "x"}
