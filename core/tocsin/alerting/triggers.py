"""Rules of queries and triggers: series of several queries are joined, an expression decides.

The series of a query are grouped by label set without the metric name; joins combine groups of different queries.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from tocsin.alerting.evaluation import ANY, NOT_BY_ABSENCE, ON_CONDITION, Evaluation, Finding
from tocsin.alerting.expression import ExpressionError, Node, compile_expression, evaluate, is_true
from tocsin.alerting.form import SEVERITIES, dicts
from tocsin.alerting.labels import METRIC_NAME
from tocsin.alerting.points import Point
from tocsin.alerting.units import formatted
from tocsin.events.form import Event, tag_map
from tocsin.plugin import invalid

if TYPE_CHECKING:
    from tocsin.alerting.compiled import CompiledRule, Query

DEFAULT_SEVERITY = 2
GONE = "nodata check for "
"""Begins what stands for the query in the identity of an alert on a series that is gone."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A point with the query that it answers."""

    query: Query
    point: Point

    @property
    def name(self) -> str:
        """The metric name, empty when there is none."""
        return self.point.labels.get(METRIC_NAME, "")


Group = tuple[Sample, ...]


@dataclass(frozen=True)
class Join:
    """One step of a join chain."""

    kind: str
    ref: str
    on: tuple[str, ...]


@dataclass(frozen=True)
class Trigger:
    """A condition on joined series."""

    text: str
    expression: Node
    severity: int
    recover_config: Mapping[str, Any]
    recovers: Node | None
    join_ref: str
    joins: tuple[Join, ...]
    query_text: str
    """What stands for the trigger in an alert's identity."""


@dataclass(frozen=True)
class Nodata:
    """The no-data check: series that were there and are gone."""

    severity: int
    resolve_after: int
    """Seconds after which a gone series is forgotten, 0 for never."""


def check_triggers(config: Mapping[str, Any]) -> None:
    """Raise ``invalid`` for triggers and a no-data check of a ``rule_config`` that could never work."""
    triggers = () if config.get("exp_trigger_disable") else objects(config, "triggers", "rule_config")
    for index, trigger in enumerate(triggers):
        _check_trigger(f"rule_config.triggers[{index}]", trigger)
    where = "rule_config.nodata_trigger"
    nodata = _object(config, "nodata_trigger", "rule_config")
    if nodata.get("enable"):
        check_severity(where, nodata)
        after = nodata.get("resolve_after") or 0
        if nodata.get("resolve_after_enable") and (type(after) is not int or after < 0):
            raise invalid(f"{where}.resolve_after: got {after!r}, expected seconds")


def _check_trigger(where: str, trigger: Mapping[str, Any]) -> None:
    check_severity(where, trigger)
    _check_expression(f"{where}.exp", text_of(trigger, "exp", where))
    recover = _object(trigger, "recover_config", where)
    judge, exp = recover.get("judge_type") or ANY, text_of(recover, "recover_exp", f"{where}.recover_config")
    if type(judge) is not int or judge not in (ANY, NOT_BY_ABSENCE, ON_CONDITION):
        raise invalid(f"{where}.recover_config.judge_type: got {judge!r}, expected 0, 1 or 2")
    if judge == ON_CONDITION:
        _check_expression(f"{where}.recover_config.recover_exp", exp)
    text_of(trigger, "join_ref", where)
    for index, join in enumerate(objects(trigger, "joins", where)):
        step = f"{where}.joins[{index}]"
        kind, on = text_of(join, "join_type", step), join.get("on") or []
        text_of(join, "ref", step)
        if kind not in JOINS:
            raise invalid(f"{step}.join_type: got {kind!r}, expected one of {', '.join(JOINS)}")
        if not isinstance(on, list) or not all(isinstance(label, str) for label in on):
            raise invalid(f"{step}.on: expected an array of texts")


def _check_expression(where: str, text: str) -> None:
    try:
        compile_expression(text)
    except ExpressionError as error:
        raise invalid(f"{where}: {error}") from None


def check_severity(where: str, item: Mapping[str, Any]) -> None:
    """Raise ``invalid`` for a severity that does not exist; none at all is fine."""
    value = item.get("severity", DEFAULT_SEVERITY)
    if type(value) is not int or value not in SEVERITIES:
        raise invalid(f"{where}.severity: got {value!r}, expected 1, 2 or 3")


def text_of(item: Mapping[str, Any], name: str, where: str) -> str:
    """Return a text member, empty when it is not there; raise ``invalid`` for anything else."""
    value = item.get(name)
    if not isinstance(value, str | None):
        raise invalid(f"{where}.{name}: got {type(value).__name__}, expected a text")
    return value or ""


def objects(item: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """Return an array of objects, empty when it is not there; raise ``invalid`` for anything else."""
    value = item.get(name)
    if not isinstance(value, list | None):
        raise invalid(f"{where}.{name}: got {type(value).__name__}, expected an array")
    for index, one in enumerate(value or ()):
        if not isinstance(one, dict):
            raise invalid(f"{where}.{name}[{index}]: got {type(one).__name__}, expected an object")
    return value or []


def _object(item: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    value = item.get(name)
    if not isinstance(value, dict | None):
        raise invalid(f"{where}.{name}: got {type(value).__name__}, expected an object")
    return value or {}


def parse_triggers(config: Mapping[str, Any]) -> tuple[Trigger, ...]:
    """Return the triggers of a ``rule_config``; one whose expression cannot be parsed never triggers and is left out."""
    queries = orjson.dumps(dicts(config.get("queries")), option=orjson.OPT_SORT_KEYS).decode()
    found = []
    for item in dicts(config.get("triggers")):
        text = str(item.get("exp") or "")
        recover = item.get("recover_config")
        recover = recover if isinstance(recover, dict) else {}
        judge, exp = int(recover.get("judge_type") or 0), str(recover.get("recover_exp") or "")
        try:
            expression = compile_expression(text)
            recovers = compile_expression(exp) if judge == 2 and exp.strip() else None
        except ExpressionError:
            continue
        joins = tuple(
            Join(str(j.get("join_type") or ""), str(j.get("ref") or ""), tuple(map(str, j.get("on") or ())))
            for j in dicts(item.get("joins"))
        )
        found.append(
            Trigger(
                text=text,
                expression=expression,
                severity=item.get("severity") or DEFAULT_SEVERITY,
                recover_config={"judge_type": judge, "recover_exp": exp},
                recovers=recovers,
                join_ref=str(item.get("join_ref") or ""),
                joins=joins,
                query_text=f"{queries} {text}",
            )
        )
    return tuple(found)


def parse_nodata(config: Mapping[str, Any]) -> Nodata | None:
    """Return the no-data check of a ``rule_config`` if it is switched on."""
    found = config.get("nodata_trigger")
    if not isinstance(found, dict) or not found.get("enable"):
        return None
    after = int(found.get("resolve_after") or 0) if found.get("resolve_after_enable") else 0
    return Nodata(found.get("severity") or DEFAULT_SEVERITY, after)


def triggered(rule: CompiledRule, answers: Sequence[Sequence[Point]], seen: Mapping[str, Point], at: int) -> Evaluation:
    """Return the findings of a trigger rule; ``seen`` are the series remembered for the no-data check."""
    by_ref: dict[str, list[Sample]] = {}
    for query, points in zip(rule.queries, answers, strict=True):
        by_ref.setdefault(query.ref, []).extend(Sample(query, p) for p in points if math.isfinite(p.value))
    anomalies: list[Finding] = []
    recoveries: list[Finding] = []
    for trigger in rule.triggers:
        for group in joined(trigger, by_ref):
            finding, holds = judged(trigger, group)
            if finding is not None and holds is not None:
                (anomalies if holds else recoveries).append(finding)
    if rule.nodata is None:
        return Evaluation(anomalies, recoveries)
    present = {f"{s.query.ref}:{s.point.text}": s.point for samples in by_ref.values() for s in samples}
    gone, kept = missing(rule.nodata, present, seen, at)
    return Evaluation([*anomalies, *gone], recoveries, {**kept, **present})


def joined(trigger: Trigger, by_ref: Mapping[str, Sequence[Sample]]) -> list[Group]:
    """Return the groups a trigger is judged on."""
    if not trigger.joins:
        return _merged([sample for samples in by_ref.values() for sample in samples])
    if len(by_ref) < len(trigger.joins) + 1:
        return []
    first_on = trigger.joins[0].on
    groups = _merged(by_ref.get(trigger.join_ref, ()))
    for join in trigger.joins:
        method = JOINS.get(join.kind)
        if method is not None:
            groups = method(groups, _merged(by_ref.get(join.ref, ())), first_on, join.on)
    return groups


def _merged(samples: Sequence[Sample]) -> list[Group]:
    found: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in sorted(samples, key=lambda s: (s.query.ref, s.point.text)):
        key = tuple(sorted(item for item in sample.point.labels.items() if item[0] != METRIC_NAME))
        found.setdefault(key, []).append(sample)
    return [tuple(group) for group in found.values()]


def _key(group: Group, on: Sequence[str]) -> tuple[str, ...]:
    labels = group[0].point.labels
    return tuple(labels.get(name, "") for name in on)


def _paired(
    left: list[Group], right: list[Group], left_on: Sequence[str], right_on: Sequence[str]
) -> tuple[list[Group], list[Group], list[Group]]:
    """Return ``(pairs, left groups without a match, right groups without a match)``."""
    index: dict[tuple[str, ...], list[Group]] = {}
    for group in right:
        index.setdefault(_key(group, right_on), []).append(group)
    keys = {_key(group, left_on) for group in left}
    pairs = [a + b for a in left for b in index.get(_key(a, left_on), ())]
    return (
        pairs,
        [group for group in left if _key(group, left_on) not in index],
        [group for group in right if _key(group, right_on) not in keys],
    )


Method = Callable[[list[Group], list[Group], Sequence[str], Sequence[str]], list[Group]]


def _original(left: list[Group], right: list[Group], _: Sequence[str], __: Sequence[str]) -> list[Group]:
    return _merged([sample for group in (*left, *right) for sample in group])


def _inner(left: list[Group], right: list[Group], a: Sequence[str], b: Sequence[str]) -> list[Group]:
    return _paired(left, right, a, b)[0]


def _left(left: list[Group], right: list[Group], a: Sequence[str], b: Sequence[str]) -> list[Group]:
    pairs, alone, _ = _paired(left, right, a, b)
    return pairs + alone


def _right(left: list[Group], right: list[Group], a: Sequence[str], b: Sequence[str]) -> list[Group]:
    pairs, _, alone = _paired(left, right, a, b)
    return pairs + alone


JOINS: Mapping[str, Method] = {
    "original": _original,
    "none": lambda left, right, _a, _b: left + right,
    "cartesian": lambda left, right, _a, _b: [a + b for a in left for b in right],
    "inner_join": _inner,
    "left_join": _left,
    "right_join": _right,
    "left_exclude": lambda left, right, a, b: _paired(left, right, a, b)[1],
    "right_exclude": lambda left, right, a, b: _paired(left, right, a, b)[2],
}


def judged(trigger: Trigger, group: Group) -> tuple[Finding | None, bool | None]:
    """Return the finding of a group and whether it is an anomaly; no verdict when the expression cannot be applied."""
    variables, units, texts, chosen = bound(trigger, group)
    if chosen is None:
        return None, None
    try:
        holds = is_true(evaluate(trigger.expression, variables))
        if not holds and trigger.recover_config["judge_type"] == ON_CONDITION:
            recovered = trigger.recovers is not None and is_true(evaluate(trigger.recovers, variables))
            if not recovered:
                return None, None
    except ExpressionError:
        return None, None
    finding = Finding(
        chosen.point,
        trigger.severity,
        trigger.query_text,
        chosen.query.unit,
        "".join(texts),
        units,
        trigger.recover_config,
    )
    return finding, holds


def bound(trigger: Trigger, group: Group) -> tuple[dict[str, Any], dict[str, Any], list[str], Sample | None]:
    """Return variables, formatted values, the texts of ``trigger_values`` and the sample that stands for the group.

    That is the last one with the most labels: after a join the others may stand for several groups.
    """
    variables: dict[str, Any] = {}
    units: dict[str, Any] = {}
    texts: list[str] = []
    chosen: Sample | None = None
    for sample in group:
        ref = f"${sample.query.ref}"
        if ref not in trigger.text:
            continue
        if chosen is None or len(sample.point.labels) >= len(chosen.point.labels):
            chosen = sample
        variables[ref] = sample.point.value
        for label, value in sample.point.labels.items():
            name = f"{ref}.{label}"
            if label != METRIC_NAME and name in trigger.text:
                variables[name] = value
                texts.append(f"{name}:{value} ")
        if sample.name:
            name = f"{ref}.{sample.name}"
            variables[name] = sample.point.value
            units[name] = formatted(sample.query.unit, sample.point.value)
            texts.append(f"{name}:{units[name]['text']} ")
        else:
            units[ref] = formatted(sample.query.unit, sample.point.value)
    return variables, units, texts, chosen


def missing(
    nodata: Nodata, present: Mapping[str, Point], seen: Mapping[str, Point], at: int
) -> tuple[list[Finding], dict[str, Point]]:
    """Return an anomaly for each remembered series that is gone, and the series to go on remembering."""
    kept = {
        key: point
        for key, point in seen.items()
        if not nodata.resolve_after or at - point.timestamp <= nodata.resolve_after
    }
    found = []
    for key, point in kept.items():
        if key not in present:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(point.timestamp))
            gone = Point(point.labels, point.text, 0.0, at)
            ref = key.removesuffix(f":{point.text}")
            found.append(Finding(gone, nodata.severity, GONE + point.text, values=f"nodata since {since}", nodata=ref))
    return found, kept


def nodata_mark(ref: str) -> dict[str, str]:
    """Return what the ``rule_config`` of an event says beside the rule's own: which query has lost the series."""
    return {"trigger_type": "nodata", "trigger_ref": ref}


def remembered(events: Iterable[Event]) -> dict[str, Point]:
    """Return the series whose absence fires, as events tell them, so that the check goes on where another began it."""
    found = {}
    for event in events:
        ref = (event["rule_config"] or {}).get("trigger_ref")
        if isinstance(ref, str) and event["prom_ql"].startswith(GONE):
            text = event["prom_ql"].removeprefix(GONE)
            labels = tag_map(event["original_tags"])
            found[f"{ref}:{text}"] = Point(labels, text, 0.0, event["first_trigger_time"])
    return found
