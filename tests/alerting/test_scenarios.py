"""Runs ``tests/scenarios/*.scenario``: what a rule does over time, written as text.

A line is one step; indented lines below ``rule`` and ``change`` are fields of the rule, ``name: JSON``::

    rule NAME            create a rule; ``query: cpu > 80`` is short for a rule_config with one query
    change NAME          overwrite some of its fields
    disable NAME, enable NAME, delete NAME
    load METRIC{LABELS} VALUE     give a series a present value;  drop METRIC{LABELS} ends it
    fail TEXT, heal      let the datasource answer every query with an error, and no longer
    advance 90s          let time pass
    restart              lose everything in memory, as when the process is killed
    expect alert|recovery|close RULE [field=value ...]    the next event handed to notification
    expect nothing       no further event was handed to notification
    expect active N      number of active events

``field`` is a field of the event, or a tag of it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tocsin.alerting.schedule import parse_duration
from tocsin.plugin.testkit._app import dat

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("*.scenario"))
SERIES = re.compile(r"(\w+)(?:\{(.*)\})?$")
LABEL = re.compile(r'(\w+)="([^"]*)"')


class Scenario:
    """One text in progress."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.ids: dict[str, int] = {}
        self.events: list[dict[str, Any]] = []

    def run(self, text: str) -> None:
        lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        place = 0
        while place < len(lines):
            step, fields = lines[place], {}
            place += 1
            while place < len(lines) and lines[place].startswith(" "):
                name, _, value = lines[place].strip().partition(":")
                fields[name] = value.strip() if name == "query" else json.loads(value)
                place += 1
            word, _, rest = step.partition(" ")
            try:
                getattr(self, f"do_{word}")(rest.strip(), fields)
            except AssertionError as error:
                raise AssertionError(f"{step!r}: {error}") from error

    def do_rule(self, name: str, fields: dict[str, Any]) -> None:
        self.ids[name] = self.world.rule(name, **fields)

    def do_change(self, name: str, fields: dict[str, Any]) -> None:
        rule = self.world.rules.get(self.ids[name])
        if "query" in fields:
            fields["rule_config"] = {"queries": [{"prom_ql": fields.pop("query"), "severity": 2}]}
        path = f"/api/svc/busi-group/{rule['group_id']}/alert-rule/{rule['id']}"
        dat(self.world.app.root.put(path, {**rule, **fields}))

    def _switch(self, name: str, disabled: int) -> None:
        path = f"/api/svc/busi-group/{self.world.group}/alert-rules/fields"
        dat(self.world.app.root.put(path, {"ids": [self.ids[name]], "fields": {"disabled": disabled}}))

    def do_disable(self, name: str, _: dict[str, Any]) -> None:
        self._switch(name, 1)

    def do_enable(self, name: str, _: dict[str, Any]) -> None:
        self._switch(name, 0)

    def do_delete(self, name: str, _: dict[str, Any]) -> None:
        path = f"/api/svc/busi-group/{self.world.group}/alert-rules"
        dat(self.world.app.root.delete(path, {"ids": [self.ids[name]]}))

    def do_load(self, text: str, _: dict[str, Any]) -> None:
        series, value = text.rsplit(" ", 1)
        self.world.store().put(float(value), **labels_of(series))

    def do_drop(self, text: str, _: dict[str, Any]) -> None:
        self.world.store().drop(**labels_of(text))

    def do_fail(self, text: str, _: dict[str, Any]) -> None:
        self.world.store().failure = text

    def do_heal(self, _: str, __: dict[str, Any]) -> None:
        self.world.store().failure = ""

    def do_advance(self, text: str, _: dict[str, Any]) -> None:
        self.world.advance(parse_duration(text))

    def do_restart(self, _: str, __: dict[str, Any]) -> None:
        self.world.restart()

    def do_expect(self, text: str, _: dict[str, Any]) -> None:
        kind, *words = text.split()
        self.events += [item.event for item in self.world.handed_over()]
        if kind == "nothing":
            assert not self.events, [event["rule_name"] for event in self.events]
        elif kind == "active":
            assert len(self.world.active()) == int(words[0])
        else:
            self._expect_event(kind, words)

    def _expect_event(self, kind: str, words: list[str]) -> None:
        assert self.events, "nothing was handed over"
        event = self.events.pop(0)
        closed = "close_reason" in event["annotations"]
        assert kind == ("close" if closed else "recovery" if event["is_recovered"] else "alert"), event
        assert event["rule_name"] == words[0]
        for word in words[1:]:
            name, _, value = word.partition("=")
            found = event.get(name, event["tags_map"].get(name))
            assert str(found) == value, f"{name} is {found!r}"


def labels_of(series: str) -> dict[str, str]:
    """Return the labels of ``metric{a="x"}``."""
    match = SERIES.fullmatch(series.strip())
    assert match, series
    return {"__name__": match[1], **dict(LABEL.findall(match[2] or ""))}


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_scenario(payments: Any, file: Path) -> None:
    Scenario(payments).run(file.read_text())


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 10
