"""What Go 1.26 prints for the same templates and data: go_text.json, go_html.json and go_time.json hold its answers.

``output`` and ``error`` must match to the letter; ``fails`` marks errors whose wording is ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tocsin.template import Function, Mode, SafeHTML, SafeURL, TemplateEngine, TemplateError
from tocsin.template.gotime import Duration, Time, format_time

HERE = Path(__file__).parent


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((HERE / name).read_text(encoding="utf-8"))
    return loaded


TEXT, HTML, TIME = load("go_text.json"), load("go_html.json"), load("go_time.json")
SAFE = {
    "safeHtml": Function("safeHtml", SafeHTML, ("string",)),
    "safeUrl": Function("safeUrl", SafeURL, ("string",)),
}


def check(engine: TemplateEngine, mode: Mode, data: Any, case: dict[str, Any]) -> None:
    if "output" in case:
        assert engine.compile("t", case["template"], mode).render(data) == case["output"]
        return
    with pytest.raises(TemplateError) as caught:
        engine.compile("t", case["template"], mode).render(data)
    assert case.get("fails") or str(caught.value) == case["error"]


@pytest.mark.parametrize("case", TEXT["cases"], ids=lambda case: case["template"][:60])
def test_text_mode(case: dict[str, Any]) -> None:
    check(TemplateEngine(), Mode.TEXT, TEXT["data"], case)


@pytest.mark.parametrize("case", HTML["cases"], ids=lambda case: case["template"][:60])
def test_html_mode(case: dict[str, Any]) -> None:
    check(TemplateEngine(SAFE), Mode.HTML, HTML["data"], case)


@pytest.mark.parametrize("zone", sorted({row[0] for row in TIME["times"]}))
def test_time_layouts(zone: str) -> None:
    for name, nanoseconds, layout, expected in TIME["times"]:
        if name == zone:
            time = Time(nanoseconds, ZoneInfo(zone))
            assert (format_time(time, layout) if layout else time.printed()) == expected


def test_durations() -> None:
    for nanoseconds, expected in TIME["durations"]:
        assert Duration(nanoseconds).printed() == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{.s.x}}", 't:1:4: executing "t" at <.s.x>: can\'t evaluate field x in type string'),
        ("{{.n.x}}", 't:1:4: executing "t" at <.n.x>: nil pointer evaluating interface {}.x'),
        ("a\nbé{{(.nest).x.y.z}}", 't:2:6: executing "t" at <.nest>: can\'t evaluate field z in type string'),
        ("{{len .missing}}", 't:1:2: executing "t" at <len .missing>: error calling len: len of nil pointer'),
        ("{{$x = 1}}", 't:1: undefined variable "$x"'),
        ("\n\n{{if}}", "t:3: missing value for if"),
    ],
)
def test_error_wording(template: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        TemplateEngine().compile("t", template).render(TEXT["data"])
    assert str(caught.value) == f"template: {message}"


def test_json_escaped_attributes_are_attributes() -> None:
    """A page inside a JSON string writes its attribute quotes as \\"."""
    template = '{"text": "<a href=\\"{{.u}}\\" title=\\"{{.t}}\\">{{.t}}</a>"}'
    rendered = TemplateEngine().compile("t", template, Mode.HTML).render({"u": "javascript:x", "t": 'a"b'})
    assert rendered == '{"text": "<a href=\\"#ZgotmplZ\\" title=\\"a&#34;b\\">a&#34;b</a>"}'


def test_scripts_never_see_raw_values() -> None:
    hostile = "</script><script>alert('1')\\\u2028`${x}`"
    for template in ("<script>x = {{.}}</script>", "<script>x = '{{.}}'</script>", "<script>x = `{{.}}`</script>"):
        rendered = TemplateEngine().compile("t", template, Mode.HTML).render(hostile)
        assert rendered.count("<") == 2
        assert "alert('" not in rendered
        assert "\u2028" not in rendered
        assert "${" not in rendered or "`${" not in rendered
