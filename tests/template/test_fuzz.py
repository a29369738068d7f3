"""Arbitrary text and data: a result or a :class:`TemplateError`, never anything else."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.template import Limits, Mode, SafeHTML, TemplateEngine, TemplateError, field_functions
from tocsin.template.event import EVENT
from tocsin.template.printf import sprintf

FUNCTIONS = field_functions(lambda: 1.0, UTC)
LIMITS = Limits(output=20_000, steps=20_000, calls=10)
ENGINE = TemplateEngine(FUNCTIONS, LIMITS)

words = st.sampled_from(
    (
        *("{{", "}}", "{{-", "-}}", "(", ")", "|", ":=", "=", ",", ".", ".a", ".b.c", "$", "$x", "$.a", "if", "else"),
        *(
            "end",
            "range",
            "with",
            "define",
            "template",
            "block",
            "break",
            "continue",
            "nil",
            "true",
            "false",
            "1",
            "-1",
        ),
        *("0", "1.5", "0x1F", "'a'", '"s"', "`r`", '"%d"', "/*", "*/", "<", ">", '"', "'", '<a href="', "<script>"),
        *("</script>", "<!--", "-->", "\n", "é"),
    )
)
names = st.sampled_from(sorted(ENGINE.functions))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
fragments = st.lists(words | names, max_size=25).map(" ".join)
calls = st.builds(
    lambda name, args: "{{" + " ".join([name, *args]) + "}}",
    names,
    st.lists(
        st.sampled_from([".a", ".b", ".c", ".", "1", "-3", "2.5", '"%v"', '"a,b"', "nil", "(now)", ".none"]), max_size=4
    ),
)


def attempt(template: str, data: Any, mode: Mode) -> None:
    try:
        result = ENGINE.compile("t", template, mode).render(data)
    except TemplateError as error:
        result = str(error)[: LIMITS.output]
        described = result.startswith("template: t:") and error.line >= 1
    else:
        described = True
    assert described
    assert type(result) is str
    assert len(result) <= LIMITS.output


@given(st.text(max_size=200), st.sampled_from(Mode))
def test_any_text(template: str, mode: Mode) -> None:
    attempt(template, None, mode)


@given(st.text(max_size=60).map(lambda inner: "{{" + inner + "}}"), st.sampled_from(Mode))
def test_any_action(template: str, mode: Mode) -> None:
    attempt(template, {"a": 1}, mode)


@settings(max_examples=300)
@given(fragments, values, st.sampled_from(Mode))
def test_plausible_templates(template: str, data: Any, mode: Mode) -> None:
    attempt(template, data, mode)


@settings(max_examples=500)
@given(calls, values, st.sampled_from(Mode))
def test_any_call(template: str, data: Any, mode: Mode) -> None:
    attempt(template, data if isinstance(data, dict) else {"a": data}, mode)


@given(
    st.sampled_from(sorted(EVENT.fields)),
    st.dictionaries(st.sampled_from(sorted(f.key for f in EVENT.fields.values())), values),
)
def test_any_event(field: str, event: dict[str, Any]) -> None:
    attempt(f"{{{{.{field}}}}}", EVENT.wrap(event), Mode.HTML)


@given(st.text(alphabet="%+-# 0123456789.*[]dvsqxXeEfgGtTcUbo!z", max_size=12), st.lists(values, max_size=3))
def test_any_format(form: str, args: list[Any]) -> None:
    attempt("{{printf .f .a .b}}", {"f": form, "a": args, "b": args[0] if args else None}, Mode.TEXT)


@given(st.text())
def test_text_mode_keeps_text_without_actions(template: str) -> None:
    if "{{" not in template:
        assert ENGINE.compile("t", template).render(None) == template


@given(st.text(max_size=50))
def test_html_mode_lets_no_markup_through(value: str) -> None:
    rendered = ENGINE.compile("t", "<p>{{.}}</p><a title='{{.}}' x={{.}}>", Mode.HTML).render(value)
    assert rendered.count("<") == 3
    assert rendered.count("'") == 2
    assert '"' not in rendered
    assert ENGINE.compile("t", "{{.}}", Mode.HTML).render(SafeHTML(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 8))
def test_fixed_point_agrees_with_python(value: float, digits: int) -> None:
    assert sprintf(f"%.{digits}f", value) == f"{value:.{digits}f}"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_floats_read_back(value: float) -> None:
    assert float(sprintf("%v", value)) == value


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 12))
def test_padding_agrees_with_python(value: int, width: int) -> None:
    assert (
        sprintf(f"%{width}d|%-{width}d|%0{width}d", value, value, value)
        == f"{value:{width}d}|{value:<{width}d}|{value:0{width}d}"
    )
