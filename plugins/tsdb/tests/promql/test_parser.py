"""Syntax: what is refused and where, and what the tree looks like."""

from __future__ import annotations

import math

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_tsdb.promql import nodes
from tocsin_tsdb.promql.durations import format_duration, parse_duration
from tocsin_tsdb.promql.interface import Matcher, ParseError
from tocsin_tsdb.promql.lexer import AGGREGATORS
from tocsin_tsdb.promql.parser import parse, parse_matchers
from tocsin_tsdb.promql.reader import parse_number
from tocsin_tsdb.promql.signatures import FUNCTIONS

from .differential_queries import generated_queries

REFUSED = {
    "": "unknown position: parse error: no expression found in input",
    "# nothing": "1:1: parse error: no expression found in input",
    "foo +": "1:6: parse error: unexpected end of input",
    "foo bar": '1:5: parse error: unexpected identifier "bar"',
    "foo\n  bar": '2:3: parse error: unexpected identifier "bar"',
    "ü": "1:1: parse error: unexpected character: 'ü'",
    '"ü" "b"': r'1:6: parse error: unexpected string "\"b\""',
    "foo 'a long string'": """1:5: parse error: unexpected string "'a long st"...""",
    "foo 1234567890123": '1:5: parse error: unexpected number "1234567890"...',
    "sum(foo end)": '1:9: parse error: unexpected "end" in aggregation',
    "foo bar $": '1:5: parse error: unexpected identifier "bar"',
    "sum(foo bar": '1:9: parse error: unexpected identifier "bar" in aggregation',
    "sum $": "1:5: parse error: unexpected character: '$'",
    "rate(foo) + $": "1:13: parse error: unexpected character: '$'",
    "(foo": "1:5: parse error: unclosed left parenthesis",
    "foo)": "1:5: parse error: unexpected right parenthesis ')'",
    "foo[5m": "1:7: parse error: unclosed left bracket",
    "foo]": "1:4: parse error: unexpected right bracket ']'",
    "foo[5m[5m]]": "1:7: parse error: unexpected left bracket '['",
    "foo{": "1:5: parse error: unexpected end of input inside braces",
    "foo}": "1:4: parse error: unexpected character: '}'",
    "foo{a}": '1:6: parse error: unexpected "}" in label matching, expected label matching operator',
    "foo{a=b}": '1:7: parse error: unexpected identifier "b" in label matching, expected string',
    'foo{a="b" c="d"}': '1:11: parse error: unexpected identifier "c" in label matching, expected "," or "}"',
    'foo{,a="b"}': '1:5: parse error: unexpected "," in label matching, expected identifier or "}"',
    'foo{a="b",}}': "1:12: parse error: unexpected character: '}'",
    'foo{a=~"("}': "1:5: parse error: error parsing regexp: missing closing ): `(`",
    'foo{a=~"*"}': "1:5: parse error: error parsing regexp: missing argument to repetition operator: `*`",
    'foo{a!"b"}': "1:6: parse error: unexpected character after '!' inside braces: '\"'",
    "foo{{": "1:5: parse error: unexpected left brace '{'",
    "{}": "1:1: parse error: vector selector must contain at least one non-empty matcher",
    '{a=~".*",b!="x"}': "1:1: parse error: vector selector must contain at least one non-empty matcher",
    'foo{__name__="x"}': '1:1: parse error: metric name must not be set twice: "foo" or "x"',
    "foo =~ bar": "1:5: parse error: unexpected character after '=': '~'",
    "foo ! bar": "1:5: parse error: unexpected character after '!': ' '",
    "1 == 1": "1:3: parse error: comparisons between scalars must use BOOL modifier",
    "1 + bool 1": "1:3: parse error: bool modifier can only be used on comparison operators",
    "foo and 1": '1:1: parse error: set operator "and" not allowed in binary scalar expression',
    "foo and on(a) group_left b": '1:1: parse error: no grouping allowed for "and" operation',
    "foo + on(a) 1": "1:1: parse error: vector matching only allowed between instant vectors",
    "foo + on(a) group_left(b, a) bar": '1:5: parse error: label "a" must not occur in ON and GROUP clause at once',
    "foo + on a bar": '1:10: parse error: unexpected identifier "a" in grouping opts, expected "("',
    "foo + on(a b) bar": '1:12: parse error: unexpected identifier "b" in grouping opts, expected "," or ")"',
    "foo + on(1) bar": '1:10: parse error: unexpected number "1" in grouping opts, expected label',
    "foo + on(a) group_left": '1:23: parse error: unexpected end of input in grouping opts, expected "("',
    "foo + on(a) group_right * bar": '1:25: parse error: unexpected <op:*> in grouping opts, expected "("',
    "foo + group_left bar": "1:7: parse error: unexpected <group_left>",
    "foo + fill(0) 1": "1:1: parse error: filling in missing series only allowed between instant vectors",
    "foo or fill(0) bar": "1:1: parse error: filling in missing series not allowed for set operators",
    '"a" + 1': "1:1: parse error: binary expression must contain only scalar and instant vector types",
    "foo[5m] * 2": "1:1: parse error: binary expression must contain only scalar and instant vector types",
    '-"a"': "1:1: parse error: unary expression only allowed on expressions of type scalar or instant vector, "
    'got "string"',
    "sum": None,
    "sum(": "1:5: parse error: unclosed left parenthesis",
    "sum foo": '1:5: parse error: unexpected identifier "foo"',
    "sum()": "1:1: parse error: no arguments for aggregate expression provided",
    "sum(foo, bar)": "1:1: parse error: wrong number of arguments for aggregate expression provided, expected 1, got 2",
    "topk(foo)": "1:1: parse error: wrong number of arguments for aggregate expression provided, expected 2, got 1",
    "sum(1)": "1:5: parse error: expected type instant vector in aggregation expression, got scalar",
    "topk(foo, foo)": "1:6: parse error: expected type scalar in aggregation parameter, got instant vector",
    "count_values(1, foo)": "1:14: parse error: expected type string in aggregation parameter, got scalar",
    "sum by (a) (foo) by (b)": "1:18: parse error: unexpected <by>",
    "sum(abs(foo bar))": '1:13: parse error: unexpected identifier "bar" in aggregation',
    "unknown(foo)": '1:1: parse error: unknown function with name "unknown"',
    "rate(foo)": '1:6: parse error: expected type range vector in call to function "rate", got instant vector',
    "abs(foo[5m])": '1:5: parse error: expected type instant vector in call to function "abs", got range vector',
    "abs()": '1:1: parse error: expected 1 argument(s) in call to "abs", got 0',
    "label_join(foo)": '1:1: parse error: expected at least 3 argument(s) in call to "label_join", got 1',
    "round(foo, 1, 2)": '1:1: parse error: expected at most 2 argument(s) in call to "round", got 3',
    "abs(foo,)": "1:8: parse error: trailing commas not allowed in function call args",
    "foo[0s]": "1:5: parse error: duration must be greater than 0",
    "foo[5m:0s]": "1:8: parse error: duration must be greater than 0",
    "foo[a]": '1:5: parse error: unexpected identifier "a" in subquery or range selector, expected number or duration',
    "foo[5m 5m]": '1:8: parse error: unexpected duration "5m" in subquery or range, expected ":" or "]"',
    "foo[5mx]": '1:5: parse error: bad number or duration syntax: "5mx"',
    "foo[5s5m]": '1:5: parse error: not a valid duration string: "5s5m"',
    "foo[300y]": "1:5: parse error: duration out of range",
    "(foo)[5m]": "1:6: parse error: ranges only allowed for vector selectors",
    "foo offset 5m [5m]": "1:15: parse error: no offset modifiers allowed before range",
    "foo @ 5 [5m]": "1:9: parse error: no @ modifiers allowed before range",
    "foo[5m][5m:]": "1:1: parse error: subquery is only allowed on instant vector, got matrix instead",
    "foo offset": "1:11: parse error: unexpected end of input in offset, expected number or duration",
    "foo offset 1m offset 2m": "1:1: parse error: offset may not be set multiple times",
    "1 offset 1m": "1:1: parse error: offset modifier must be preceded by an instant vector selector or "
    "range vector selector or a subquery",
    "foo @ bar": '1:7: parse error: unexpected identifier "bar" in @, expected timestamp',
    "foo @ Inf": "1:1: parse error: timestamp out of bounds for @ modifier: inf",
    "foo @ -1e17": "1:1: parse error: timestamp out of bounds for @ modifier: -100000000000000000.000000",
    "foo @ 1 @ 2": "1:1: parse error: @ <timestamp> may not be set multiple times",
    "sum(foo) @ 1": "1:1: parse error: @ modifier must be preceded by an instant vector selector or "
    "range vector selector or a subquery",
    '"abc': "1:1: parse error: unterminated quoted string",
    '"ab\nc"': "1:1: parse error: unterminated quoted string",
    "`abc": "1:1: parse error: unterminated raw string",
    r'"\q"': "1:1: parse error: unknown escape sequence U+0071 'q'",
    r'"\xg0"': "1:1: parse error: illegal character U+0067 'g' in escape sequence",
    r'"\ud800"': "1:1: parse error: escape sequence is an invalid Unicode code point 0xd800",
    "1x": '1:1: parse error: bad number or duration syntax: "1"',
    "1.5e": '1:1: parse error: bad number or duration syntax: "1.5e"',
    "5summ": '1:1: parse error: bad number or duration syntax: "5su"',
    "5m500": '1:1: parse error: bad number or duration syntax: "5m500"',
    "1.5h": '1:1: parse error: not a valid duration string: "1.5h"',
    "nofunc(foo bar)": '1:12: parse error: unexpected identifier "bar"',
    "atan2": "1:1: parse error: unexpected <op:atan2>",
    "foo @ end 5": '1:11: parse error: unexpected number "5" in @, expected timestamp',
    "0xg": '1:1: parse error: bad number or duration syntax: "0x"',
    "1__0": "1:1: parse error: error parsing number",
    "info(foo, bar)": "1:11: parse error: expected label selectors only, got vector selector instead",
    "(" * 300 + "1" + ")" * 300: "1:101: parse error: expression nested deeper than 100 levels",
    "foo[" + "+".join(["1s"] * 300) + "]": "1:299: parse error: expression nested deeper than 100 levels",
    "foo offset " + "(" * 300 + "1m" + ")" * 300: "1:112: parse error: expression nested deeper than 100 levels",
    "rate(sum(foo)[5m:] smoothed)": "1:6: parse error: smoothed modifier must be preceded by a selector",
    "foo[5m] anchored smoothed": "1:1: parse error: anchored and smoothed modifiers cannot be used together",
    "foo smoothed [5m]": "1:14: parse error: no smoothed modifier allowed before range",
}


@pytest.mark.parametrize("query", [query for query, message in REFUSED.items() if message])
def test_refused(query: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(query)
    assert str(caught.value).startswith(str(REFUSED[query]))


@pytest.mark.parametrize("word", sorted({*AGGREGATORS, "offset", "by", "without", "and", "start", "end", "step"}))
def test_keywords_name_metrics_and_labels(word: str) -> None:
    tree = parse(f"sum by ({word}) ({word}{{{word}='x'}}) + on ({word}) {word}")
    assert isinstance(tree, nodes.Binary)
    assert tree.matching.labels == (word,)
    assert tree.right == parse(" " * tree.right.span.start + word)


def test_precedence() -> None:
    def shape(expr: nodes.Expr) -> object:
        match expr:
            case nodes.Binary():
                return (expr.operator, shape(expr.left), shape(expr.right))
            case nodes.Unary():
                return ("neg", shape(expr.expr))
            case nodes.VectorSelector():
                return expr.name
            case _:
                raise AssertionError(expr)

    assert shape(parse("a or b and c == d + e * f ^ g ^ h")) == (
        "or",
        "a",
        ("and", "b", ("==", "c", ("+", "d", ("*", "e", ("^", "f", ("^", "g", "h")))))),
    )
    assert shape(parse("a - b - c unless d and e")) == ("and", ("unless", ("-", ("-", "a", "b"), "c"), "d"), "e")
    assert shape(parse("-a ^ b * c")) == ("*", ("neg", ("^", "a", "b")), "c")
    assert shape(parse("a ^ -b * c")) == ("*", ("^", "a", ("neg", "b")), "c")
    assert shape(parse("a atan2 b % c")) == ("%", ("atan2", "a", "b"), "c")


def test_modifiers_belong_to_the_selector_before_them() -> None:
    tree = parse("a + rate(b[5m:30s] offset -90s @ end())")
    assert isinstance(tree, nodes.Binary)
    assert isinstance(tree.right, nodes.Call)
    right = tree.right.args[0]
    assert isinstance(right, nodes.Subquery)
    assert (right.range_ms, right.step_ms, right.offset_ms, right.at) == (300_000, 30_000, -90_000, "end")
    inner = parse("rate(a[1h30m] @ 1.5 offset 7)")
    assert isinstance(inner, nodes.Call)
    window = inner.args[0]
    assert isinstance(window, nodes.MatrixSelector)
    assert (window.range_ms, window.selector.at, window.selector.offset_ms) == (5_400_000, 1500, 7000)


def test_matchers() -> None:
    assert parse_matchers("{'a b'!~`x|y`, 'metric name',}") == (
        Matcher("a b", "!~", "x|y"),
        Matcher("__name__", "=", "metric name"),
    )
    assert parse_matchers("sum") == (Matcher("__name__", "=", "sum"),)
    for text, where in (
        ("a + b", "1:3: parse error: unexpected <op:+>"),
        ("a offset 5m", "1:3: parse error: unexpected <offset>"),
        ("a @ 1", "1:3: parse error: unexpected <op:@>"),
        ("a[5m]", '1:2: parse error: unexpected "["'),
        ("sum(a)", '1:4: parse error: unexpected "("'),
        ("a b", '1:3: parse error: unexpected identifier "b"'),
        ("5", '1:1: parse error: unexpected number "5"'),
        ("(a)", '1:1: parse error: unexpected "("'),
        ("", "unknown position: parse error: unexpected end of input"),
        ('{a=~"("}', "1:2: parse error: error parsing regexp"),
    ):
        with pytest.raises(ParseError) as caught:
            parse_matchers(text)
        assert str(caught.value).startswith(where)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("1e3", 1000), (".5", 0.5), ("5.", 5), ("0x1f", 31), ("017", 15), ("089", 89), ("1_000.5", 1000.5)],
)
def test_numbers(text: str, value: float) -> None:
    assert parse_number(text) == value


def test_special_numbers() -> None:
    assert parse_number("iNf") == math.inf
    assert math.isnan(parse_number("NAN"))


@given(st.integers(min_value=0, max_value=9_000_000_000_000))
def test_durations_survive_formatting(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "m", "5m5m", "5s5m", "-5m", "5 m", "1.5h", "5M"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid duration"):
        parse_duration(text)


@given(st.text(alphabet="abm5_:{}[]()\"'`\\=~!<>+-*/^%,.@# \nrateonby", max_size=40))
def test_any_text_parses_or_is_refused_with_a_place(text: str) -> None:
    message = ""
    try:
        parse(text)
    except ParseError as problem:
        message = str(problem)
    assert not message or " parse error: " in message


def test_agreement_with_another_parser() -> None:
    """Everything that we generate is read by an independent parser too, and every function it knows by us."""
    for query in generated_queries(7, 300):
        try:
            parse(query)
        except ParseError:
            with pytest.raises(ValueError):
                promql_parser.parse(query)
        else:
            promql_parser.parse(query)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"holt_winters"}))
def test_functions_have_the_types_of_another_parser(name: str) -> None:
    samples = {"vector": "foo", "matrix": "foo[5m]", "scalar": "1", "string": '"x"'}
    signature = FUNCTIONS[name]
    args = [samples[kind] for kind in signature.args]
    if name == "info":
        args = ["foo", '{a="b"}']
    query = f"{name}({', '.join(args)})"
    assert parse(query).kind == signature.returns
    promql_parser.parse(query)
