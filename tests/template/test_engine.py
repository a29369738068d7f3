"""Compiling, caching, preambles, functions of one rendering, records, and what templates cannot reach."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tocsin.template import Field, Function, Mode, Reason, StringMap, StructType, TemplateEngine, TemplateError
from tocsin.template.event import CHANNEL_VARIABLES, EVENT, MESSAGE_VARIABLES, RULE_VARIABLES
from tocsin.template.functions import sample

Render = Callable[..., str]

ALERT: dict[str, Any] = {
    "id": 1832,
    "cluster": "prom-main",
    "group_id": 2,
    "rule_name": "CPU busy",
    "severity": 2,
    "trigger_time": 1735689600,
    "trigger_value": "81.5",
    "tags": ["ident=web-01", "rulename=CPU busy"],
    "tags_map": {"ident": "web-01", "rulename": "CPU busy"},
    "annotations": {"summary": "hot"},
    "is_recovered": False,
    "target": {"ident": "web-01", "host_ip": "10.0.0.1", "group_names": ["a", "b"]},
    "notify_users_obj": [{"username": "ann", "phone": "1"}, {"username": "bob"}],
    "trigger_values_json": {"values_with_unit": {"$A": {"value": 81.5, "unit": "percent", "text": "81.5%"}}},
}


# -- variables before the text -------------------------------------------------------------------------------------------


def test_rule_text(text: Render) -> None:
    template = "{{$labels.ident}} {{$value}} {{$annotations.summary}} {{.RuleName}} {{.Severity}}"
    assert text(template, EVENT.wrap(ALERT), preamble=RULE_VARIABLES) == "web-01 81.5 hot CPU busy 2"


def test_message_text(text: Render) -> None:
    template = (
        "{{$event.RuleName}} {{len $events}} {{.domain}} {{range $events}}{{$.domain}}{{end}} {{$labels.ident}} {{$value}}"
        ' {{$event.GetTagValue "ident"}} {{$event.GetField "cluster"}} {{$event.GetField "group_id"}}'
    )
    data = {"events": [EVENT.wrap(ALERT)], "domain": "http://x"}
    assert (
        text(template, data, preamble=MESSAGE_VARIABLES)
        == "CPU busy 1 http://x http://x web-01 81.5 web-01 prom-main 2"
    )


def test_channel_variables(text: Render) -> None:
    event = EVENT.wrap(ALERT)
    channel = {
        "tpl": {"content": "c"},
        "params": StringMap({"k": "v"}),
        "events": [event],
        "event": event,
        "sendtos": ["a"],
        "sendto": "a",
    }
    template = "{{$tpl.content}} {{$params.k}} {{$event.Id}} {{len $events}} {{$sendtos}} {{$sendto}}"
    assert text(template, channel, preamble=CHANNEL_VARIABLES) == "c v 1832 1 [a] a"


def test_preamble_does_not_move_positions(engine: TemplateEngine) -> None:
    with pytest.raises(TemplateError) as caught:
        engine.render("n", "{{$value.x}}", EVENT.wrap(ALERT), preamble=RULE_VARIABLES)
    assert (caught.value.name, caught.value.line, caught.value.column) == ("n", 1, 8)


def test_a_failing_preamble_is_a_template_error(engine: TemplateEngine) -> None:
    with pytest.raises(TemplateError, match="index out of range: 0"):
        engine.render("n", "{{$event.Id}}", {"events": []}, preamble=MESSAGE_VARIABLES)


# -- the event -----------------------------------------------------------------------------------------------------------


def test_nested_event_data(text: Render) -> None:
    template = (
        "{{.Target.HostIp}} {{.Target.GroupNames}} {{range .NotifyUsersObj}}{{.Username}}{{.Phone}};{{end}}"
        '{{(index .TriggerValuesJson.ValuesWithUnit "$A").Text}} {{index .TagsMap "none"}}|{{.TagsMap.none}}'
    )
    assert text(template, EVENT.wrap(ALERT)) == "10.0.0.1 [a b] ann1;bob;81.5% |<no value>"


def test_absent_event_data_has_zero_values(text: Render) -> None:
    empty = EVENT.wrap({})
    assert text("{{.RuleName}}|{{.Severity}}|{{.TagsMap}}|{{.TagsJSON}}|{{.IsRecovered}}", empty) == "|0|map[]|[]|false"
    assert text("{{if .Target}}host{{else}}none{{end}}{{len .TriggerValuesJson.ValuesWithUnit}}", empty) == "none0"
    with pytest.raises(TemplateError, match=r"nil pointer evaluating interface \{\}.Ident"):
        text("{{.Target.Ident}}", empty)


def test_unknown_event_field_is_an_error(text: Render) -> None:
    with pytest.raises(TemplateError, match="can't evaluate field Nope in type AlertCurEvent"):
        text("{{.Nope}}", EVENT.wrap(ALERT))
    with pytest.raises(TemplateError, match="RuleName is not a method but has arguments"):
        text("{{.RuleName 1}}", EVENT.wrap(ALERT))


def test_records_print_field_by_field(text: Render) -> None:
    point = StructType("Point", {"X": Field("x", 0), "Y": Field("y", 0)})
    assert text('{{.}} {{printf "%+v" .}} {{jsonMarshal .}}', point.wrap({"x": 1, "y": 2})) == (
        '{1 2} {X:1 Y:2} {"x":1,"y":2}'
    )


def test_variables_of_a_body_end_with_it(text: Render) -> None:
    assert text("{{$k := 1}}{{if .}}{{$k := 2}}{{$k}}{{else}}{{$k}}{{end}}{{$k}}", False) == "11"
    assert text("{{if $k := .}}{{$k}}{{else}}{{$k}}!{{end}}", 0) == "0!"
    for template in ("{{if 1}}{{$k := 2}}{{else}}{{$k}}{{end}}", "{{range 1}}{{$k := 2}}{{end}}{{$k}}"):
        with pytest.raises(TemplateError, match="undefined variable"):
            text(template)


# -- functions of one rendering ------------------------------------------------------------------------------------------


def test_query_function(text: Render) -> None:
    asked: list[tuple[Any, ...]] = []

    def query(*args: Any) -> Any:
        asked.append(args)
        return [sample({"instance": "a"}, 1.0)]

    template = '{{ range query "up" 3 }}{{ .Labels.instance }}={{ .Value }} {{ end }}'
    assert text(template, None, extra={"query": query}) == "a=1 "
    assert asked == [("up", 3)]


def test_a_failing_query_is_a_template_error(text: Render) -> None:
    def query(*args: Any) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(TemplateError) as caught:
        text('{{query "up"}}', None, extra={"query": query})
    assert str(caught.value) == 'template: t:1:2: executing "t" at <query "up">: error calling query: no route'


def test_query_is_unknown_elsewhere(engine: TemplateEngine) -> None:
    with pytest.raises(TemplateError, match='function "query" not defined'):
        engine.compile("t", '{{query "up"}}')
    template = engine.compile("t", '{{query "up"}}', extra=frozenset({"query"}))
    with pytest.raises(TemplateError, match="no function given for query"):
        template.render(None)


def test_an_own_function_may_replace_a_builtin() -> None:
    engine = TemplateEngine({"len": Function("len", lambda value: 7, ("any",))})
    assert engine.render("t", "{{len 1}}", None) == "7"


# -- cache ---------------------------------------------------------------------------------------------------------------


def test_cache_keeps_the_most_recent(engine: TemplateEngine) -> None:
    engine = TemplateEngine(cache_size=2)
    first = engine.compile("a", "{{1}}")
    engine.compile("b", "{{2}}")
    assert engine.compile("a", "{{1}}") is first
    engine.compile("c", "{{3}}")
    assert engine.compile("a", "{{1}}") is first
    info = engine.cache_info()
    assert (info.hits, info.misses, info.evictions, info.size, info.capacity) == (2, 3, 1, 2, 2)


def test_mode_and_preamble_are_part_of_the_key(engine: TemplateEngine) -> None:
    assert engine.render("t", "{{.}}", "<") == "<"
    assert engine.render("t", "{{.}}", "<", Mode.HTML) == "&lt;"
    assert engine.render("t", "{{$x}}", "<", preamble=(("$x", "."),)) == "<"
    assert engine.render("t", "{{$x}}", "<", preamble=(("$x", "len ."),)) == "1"


def test_failures_are_not_cached(engine: TemplateEngine) -> None:
    with pytest.raises(TemplateError):
        engine.compile("t", "{{")
    assert engine.cache_info().size == 0


def test_threads_share_a_template(engine: TemplateEngine) -> None:
    template = engine.compile("t", "{{$s := 0}}{{range .}}{{$s = add $s .}}{{end}}{{$s}}")
    results: dict[int, set[str]] = {}

    def work(number: int) -> None:
        results[number] = {template.render([number] * 50) for _ in range(40)}

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: {str(number * 50)} for number in range(4)}


# -- what is out of reach ------------------------------------------------------------------------------------------------


class Secret:
    """A Python object that got into the data by mistake."""

    password = "hunter2"

    def __str__(self) -> str:
        return self.password

    __repr__ = __str__


@pytest.mark.parametrize("name", ["password", "__class__", "__dict__", "__init__", "append", "keys", "_struct"])
@pytest.mark.parametrize("value", [Secret(), "text", [1], 1, 1.5, True, b"x"])
def test_python_attributes_are_out_of_reach(text: Render, name: str, value: Any) -> None:
    with pytest.raises(TemplateError, match="can't evaluate field"):
        text(f"{{{{.v.{name}}}}}", {"v": value})


def test_opaque_objects_do_not_print(text: Render) -> None:
    data = {"v": Secret()}
    assert (
        text('{{.v}} {{print .v}} {{printf "%v" .v}} {{.}}', data)
        == "(opaque) (opaque) %!v(opaque=(opaque)) map[v:(opaque)]"
    )
    with pytest.raises(TemplateError, match="unsupported type: opaque"):
        text("{{jsonMarshal .v}}", data)


def test_maps_give_items_never_methods(text: Render) -> None:
    assert text("{{.keys}} {{.__class__}} {{.items}}", {"keys": 1}) == "1 <no value> <no value>"


def test_record_internals_are_out_of_reach(text: Render) -> None:
    for name in ("data", "struct", "items", "field", "wrap", "printed"):
        with pytest.raises(TemplateError, match="can't evaluate field"):
            text(f"{{{{.{name}}}}}", EVENT.wrap(ALERT))


def test_reasons(engine: TemplateEngine) -> None:
    def reason(template: str) -> Reason:
        with pytest.raises(TemplateError) as caught:
            engine.compile("t", template).render(None)
        return caught.value.reason

    assert reason("{{if}}") is Reason.SYNTAX
    assert reason("{{len 1}}") is Reason.EXECUTION
    assert reason("{{range 9999999999}}{{end}}") is Reason.LIMIT
