"""Templates cannot take more than their allowance of output, work and nesting."""

from __future__ import annotations

import time
from datetime import UTC
from typing import Any

import pytest

from tocsin.template import Limits, Mode, Reason, TemplateEngine, TemplateError, field_functions

SMALL = Limits(source=5000, output=1000, steps=5000, calls=10)
DOUBLING = '{{$x := "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}' + "{{$x = print $x $x}}" * 60

GREEDY = {
    "endless loop": "{{range 999999999999}}{{end}}",
    "nested loops": "{{range 1000}}{{range 1000}}{{range 1000}}{{end}}{{end}}{{end}}",
    "output": "{{range 1000}}0123456789{{end}}",
    "printed value": "{{.long}}",
    "recursion": '{{define "x"}}{{template "x"}}{{end}}{{template "x"}}',
    "doubling text": DOUBLING,
    "doubling in a loop": '{{$x := "aa"}}{{range 100}}{{$x = print $x $x}}{{end}}',
    "doubling structure": "{{$x := args 1}}" + "{{$x = args $x $x}}" * 45 + "{{print $x | len}}",
    "doubling structure as JSON": "{{$x := args 1}}" + "{{$x = args $x $x}}" * 39 + "{{jsonMarshal $x | len}}",
    "doubling structure in printf": "{{$x := args 1}}" + "{{$x = args $x $x}}" * 19 + '{{printf "%v" $x "" | len}}',
    "width": '{{printf "%999999999d" 1}}',
    "many widths": '{{printf "' + "%99999[1]d" * 30 + '" 1 | len}}',
    "precision": '{{printf "%.999999999f" 1.0}}',
    "long join": '{{range 100}}{{$x := join (split $.long "") $.long}}{{end}}',
    "long replacement": '{{$x := reReplaceAll "" .long .long}}',
    "deep value": "{{print .deep | len}}",
    "deep JSON": "{{jsonMarshal .deep | len}}",
    "big source": "x{{/* */}}" * 1000,
    "parentheses": "{{" + "(" * 500 + "1" + ")" * 500 + "}}",
    "blocks": "{{if 1}}" * 300 + "{{end}}" * 300,
    "else if": "{{if 0}}" + "{{else if 0}}" * 300 + "{{end}}",
    "maps sorted again and again": "{{range 4000}}{{range $.wide}}{{break}}{{end}}{{end}}",
    "replacing again and again": '{{range 1000}}{{$x := reReplaceAll "" "" "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}{{end}}',
    "work in a loop": '{{range 2000}}{{$x := contains $.long "zz"}}{{end}}',
}


WIDE = {str(number): number for number in range(2000)}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("name", sorted(GREEDY))
@pytest.mark.parametrize("mode", list(Mode))
def test_greedy_templates_are_stopped(name: str, mode: Mode) -> None:
    engine = TemplateEngine(field_functions(lambda: 0.0, UTC), SMALL)
    started = time.process_time()
    with pytest.raises(TemplateError) as caught:
        engine.compile("t", GREEDY[name], mode).render({"long": "a" * 20_000, "deep": deep(300), "wide": WIDE})
    assert caught.value.reason is Reason.LIMIT
    assert time.process_time() - started < 5


def test_modest_templates_are_not(text: Any) -> None:
    assert len(text("{{range 5000}}{{.}},{{end}}")) > 20_000
    assert text("{{if 1}}" * 40 + "x" + "{{end}}" * 40) == "x"
    nested = '{{define "x"}}{{.}}{{if lt . 9}}{{template "x" (add . 1)}}{{end}}{{end}}{{template "x" 0}}'
    assert text(nested) == "0123456789"


def test_self_containing_data_is_an_error(text: Any) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TemplateError, match="nested too deeply"):
        text("{{.}}", loop)


def test_errors_do_not_grow_with_the_data(text: Any) -> None:
    with pytest.raises(TemplateError) as caught:
        text("{{range .}}{{end}}", "x" * 100_000)
    assert len(str(caught.value)) < 400
