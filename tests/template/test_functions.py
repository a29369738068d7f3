"""Every function of the table, in text mode, with its documented results."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pytest

from tocsin.template import NO_VALUE, StringMap, TemplateEngine, TemplateError, field_functions
from tocsin.template.builtins import BUILTINS
from tocsin.template.functions import sample

Render = Callable[..., str]

DATA: dict[str, Any] = {
    "tags": StringMap({"b": "2", "a": "1"}),
    "list": ["a", "b"],
    "one": ["a"],
    "holes": ["a", "", "b"],
    "none": [],
    "numbers": [1, 2],
    "samples": [sample({"job": "z", "__value__": "x"}, 2.5), sample({"job": "a"}, 1.0)],
    "hostile": "<b>&",
}

CASES = [
    ('{{escape "a b/c?d=é&x:y"}}', "a%20b%2Fc%3Fd=%C3%A9&x:y"),
    ('{{unescaped "<b>"}}{{safeHtml "<i>"}}{{urlconvert "http://x"}}', "<b><i>http://x"),
    ("{{timeformat 1735689600}}", "2025-01-01 02:00:00"),
    ('{{timeformat 1735689600 "2006/01/02 15:04 MST"}}', "2025/01/01 02:00 EET"),
    ('{{timeformat "1735689600.5" "15:04:05.000"}}', "02:00:00.500"),
    ("{{timestamp}}", "2025-01-01 05:05:05"),
    ('{{timestamp "02 Jan 15:04"}}', "01 Jan 05:05"),
    ("{{now.Unix}}", "1735700705"),
    ('{{now.Format "2006-01-02"}}', "2025-01-01"),
    ("{{now}}", "2025-01-01 05:05:05.25 +0200 EET"),
    ("{{now.UTC.Hour}} {{now.Month}} {{now.Weekday}} {{now.Year}} {{now.YearDay}}", "3 January Wednesday 2025 1"),
    ("{{(now.Sub (toTime 1735700645)).Seconds}} {{now.Sub (toTime 1735700645)}}", "60.25 1m0.25s"),
    ("{{now.After (toTime 0)}} {{(toTime 0).Before now}}", "true true"),
    ('{{toTime 1735689600}} {{(toTime "0").Unix}}', "2025-01-01 00:00:00 +0000 UTC 0"),
    ('{{args "x" 2}}', "map[arg0:x arg1:2]"),
    ('{{reReplaceAll "(a+)(b)" "$2-$1" "xaabx"}}', "xb-aax"),
    ('{{reReplaceAll "(?P<n>o)" "${n}${n}$$" "foo"}}', "foo$oo$"),
    ('{{reReplaceAll "x*" "-" "abc"}}', "-a-b-c-"),
    ('{{match "^a.c$" "abc"}} {{match "z" "abc"}}', "true false"),
    ('{{toUpper "aé"}} {{"ABC" | toLower}} {{title "hello wORLD it\'s a_b"}}', "AÉ abc Hello WORLD It'S A_b"),
    ('{{contains "abc" "bc"}} {{contains "abc" "x"}}', "true false"),
    ('{{split "a,b,c" ","}} {{len (split "abc" "")}}', "[a b c] 3"),
    ('{{join .list "+"}} {{join (split "a b" " ") ","}}', "a+b a,b"),
    ("{{toString 1.5}} {{toString .numbers}} {{toString nil}}", "1.5 [1 2] <nil>"),
    ('{{humanize "1234567"}} {{humanize 0.00123}} {{humanize "0"}} {{humanize "abc"}}', "1.23M 1.23m 0.00 abc"),
    ('{{humanize "-1234"}} {{humanize 999}} {{humanize "1e30"}} {{humanize "NaN"}}', "-1.23k 999.00 1000000.00Y NaN"),
    ('{{humanize1024 "1536"}} {{humanize1024 1048576}} {{humanize1024 "0.5"}} {{humanize1024 "x"}}', "1.5ki 1Mi 0.5 x"),
    ('{{humanizeDuration "93784"}} {{humanizeDuration 7384}}', "1d 2h 3m 4s 2h 3m 4s"),
    ('{{humanizeDuration "184"}} {{humanizeDuration 59.87654}} {{humanizeDuration "4"}}', "3m 4s 59.88s 4s"),
    ('{{humanizeDuration "0.00123"}} {{humanizeDuration 0}} {{humanizeDuration "-184.9"}}', "1.23ms 0s -3m 4s"),
    ('{{humanizeDuration "+Inf"}} {{humanizeDuration "x"}}', "+Inf x"),
    ('{{humanizeDurationInterface 61}} {{humanizeDurationInterface "3600"}}', "1m 1s 1h 0m 0s"),
    ('{{humanizeDurationInterface "ok"}} {{humanizeDurationInterface "down"}}', "1s 0s"),
    ('{{humanizePercentage "0.1234"}} {{humanizePercentage 1}} {{humanizePercentage "x"}}', "12.34% 100% x"),
    ('{{humanizePercentageH "12.34"}}', "12.34%"),
    ("{{humanizeTimestamp 1435065584.128}}", "2015-06-23 13:19:44.128 +0000 UTC"),
    ('{{formatDecimal "81.456" 2}} {{formatDecimal 2 1}} {{formatDecimal "n/a" 2}}', "81.46 2.0 n/a"),
    ("{{add 1 2}} {{sub 1 2}} {{mul 3 4}} {{div 7 2}} {{div -7 2}}", "3 -1 12 3 -3"),
    ("{{add 1 2.5}} {{sub 1.5 1}} {{mul 1.5 2}} {{div 7.0 2}} {{div 1.0 0}}", "3.5 0.5 3 3.5 +Inf"),
    ("{{mul 9223372036854775807 2}}", "-2"),
    ('{{printf "%.2f" "81.456"}} {{printf "%.1f" 2.25}} {{printf "%s" "web"}}', "81.46 2.2 web"),
    ('{{printf "%.2f" "81.4 MiB"}} {{printf "%d-%d" 1 2}} {{printf "x"}}', "81.4 MiB 1-2 x"),
    ('{{(first .samples).Value}} {{label "job" (first .samples)}}', "2.5 z"),
    ('{{range sortByLabel "job" .samples}}{{value .}}{{.Labels.job}} {{end}}', "1a 2.5z "),
    ("{{strvalue (first .samples)}}", "x"),
    ('{{graphLink "up == 0"}}', "/graph?g0.expr=up+%3D%3D+0&g0.tab=0"),
    ('{{tableLink "up"}}', "/graph?g0.expr=up&g0.tab=1"),
    ('{{stripPort "a:80"}} {{stripPort "[::1]:80"}} {{stripPort "a"}} {{stripPort "::1"}}', "a ::1 a ::1"),
    (
        '{{stripDomain "a.b.c:80"}} {{stripDomain "a.b"}} {{stripDomain "10.0.0.1:9"}} {{stripDomain "x"}}',
        "a:80 a 10.0.0.1:9 x",
    ),
    ('{{pathPrefix "http://h:1/p/q?x"}} {{externalURL "http://h"}}', "/p/q http://h"),
    ('{{parseDuration "1h30m"}} {{parseDuration "1w"}} {{parseDuration "500ms"}}', "5400 604800 0.5"),
    ('{{ats "a,b"}} {{ats "a b"}} {{ats "a"}}', "@a @b @a @b a"),
    ("{{batchContactsAts .list}} {{batchContactsJoinComma .list}}", "@a @b a,b"),
    ("{{batchContactsJsonMarshal .list}}", '["a","b"]'),
    ("{{batchContactsAtsInFeishuEmail .list}}", '<at email=\\"a\\"></at> <at email=\\"b\\"></at>'),
    ("{{batchContactsAtsInFeishuId .one}}", '<at id="a"></at>'),
    ('{{mappingAndJoin .holes "<" ">" "|"}}{{mappingAndJoin 3 "a" "b" "c"}}', "<a>|<b>"),
    ("{{jsonMarshal .tags}} {{jsonMarshal .hostile}}", '{"a":"1","b":"2"} "\\u003cb\\u003e\\u0026"'),
    ("{{jsonMarshal 1e21}} {{jsonMarshal 1e-7}} {{jsonMarshal 1.5}} {{jsonMarshal nil}}", "1e+21 1e-7 1.5 null"),
    ('{{mapDifference .tags (args "x")}} {{mapDifference .tags .tags}}', "map[a:1 b:2] map[]"),
    ("{{tagsMapToStr .tags}}", "a=1,b=2"),
    ('{{b64enc "hé"}} {{b64dec "aMOp"}} {{b64dec "not base64!"}}', "aMOp hé not base64!"),
]


@pytest.mark.parametrize(("template", "expected"), CASES, ids=[case[0] for case in CASES])
def test_results(text: Render, template: str, expected: str) -> None:
    assert text(template, DATA) == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ('{{add "1" 2}}', "add: unknown type for '1' (string)"),
        ("{{add true 2}}", "(bool)"),
        ("{{div 1 0}}", "division by zero"),
        ("{{first .none}}", "first() called on vector with no elements"),
        ('{{match "(" "x"}}', "error parsing regexp: missing"),
        ('{{parseDuration "1 hour"}}', 'not a valid duration string: "1 hour"'),
        ("{{toUpper 3}}", "expected string; found 3"),
        ("{{toUpper .numbers}}", "wrong type for value; expected string; got []interface {}"),
        ("{{toUpper .missing}}", "invalid value; expected string"),
        ('{{join .numbers ","}}', "expected a list of strings, got an item 1"),
        ("{{timeformat 1e300}}", "time is out of range"),
        ("{{timeformat 999999999999}}", "time is out of range"),
        ('{{timeformat "x"}}', "expected a number of seconds, got x"),
        ('{{humanizeDurationInterface "soon"}}', "can't convert soon to a number"),
        ('{{label "job" now}}', "expected a sample"),
        ("{{now.Nope}}", "can't evaluate field Nope in type time.Time"),
        ("{{now.Unix 1}}", "wrong number of args for Unix: want 0 got 1"),
        ("{{now.Format}}", "wrong number of args for Format: want 1 got 0"),
        ("{{now.Format 3}}", "wrong type for value; expected string; got int"),
        ("{{timeformat}}", "wrong number of args for timeformat: want at least 1 got 0"),
        ('{{timeformat 1 "a" "b"}}', "wrong number of args for timeformat: want at most 2 got 3"),
        ("{{jsonMarshal (div 0.0 0)}}", "json: unsupported value: NaN"),
    ],
)
def test_bad_arguments(text: Render, template: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        text(template, DATA)
    assert message in str(caught.value)


def test_every_function_is_exercised() -> None:
    table = field_functions(lambda: 0.0, UTC)
    tested = " ".join(case[0] for case in CASES)
    missing = [name for name in table if name not in tested]
    assert missing == []
    assert set(BUILTINS) >= {"and", "or", "not", "len", "index", "slice", "print", "println", "html", "js", "urlquery"}


def test_safe_texts_are_not_escaped_in_html_mode(page: Render) -> None:
    assert page("{{.}} {{unescaped .}} {{safeHtml .}}", "<b>") == "&lt;b&gt; <b> <b>"
    assert page("{{jsonMarshal .}}", {"a": "<"}) == '{"a":"\\u003c"}'
    assert page("{{batchContactsJsonMarshal .}}", ["a"]) == '["a"]'
    assert page('<a href="{{urlconvert .}}">', "weird:x") == '<a href="weird:x">'
    assert page('<a href="{{.}}">', "weird:x") == '<a href="#ZgotmplZ">'


def test_text_made_from_safe_text_is_escaped_again(page: Render) -> None:
    assert page('{{toUpper (safeHtml "<b>")}}{{print (safeHtml "<b>") ""}}') == "&lt;B&gt;&lt;b&gt;"


def test_missing_map_keys(text: Render, page: Render) -> None:
    data: dict[str, Any] = {"typed": StringMap(), "plain": {}, "nil": None}
    assert text('{{.typed.x}}|{{index .typed "x"}}|{{index .plain "x"}}|{{.nil}}', data) == (
        "<no value>||<no value>|<no value>"
    )
    assert page('{{.typed.x}}|{{index .typed "x"}}|{{index .plain "x"}}|{{.nil}}', data) == "|||"
    assert not NO_VALUE


def test_patterns_that_explode_elsewhere_are_linear(text: Render) -> None:
    assert text('{{match "(a+)+$" .}}', "a" * 50_000 + "b") == "false"


def test_patterns_are_bounded(text: Render) -> None:
    with pytest.raises(TemplateError, match="longer than 2000"):
        text("{{match . .}}", "a" * 2001)


def test_the_engine_table_can_be_left_out() -> None:
    engine = TemplateEngine(field_functions(lambda: 0.0, UTC))
    with pytest.raises(TemplateError, match='function "humanize" not defined'):
        engine.compile("t", "{{humanize 1}}", builtin_only=True)
    source = '{{printf "%f" "1"}}'
    assert engine.compile("t", source).render(None) == "1.000000"
    assert engine.compile("t", source, builtin_only=True).render(None) == "%!f(string=1)"
