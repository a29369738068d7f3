"""A rule made ready for evaluation: everything that does not depend on time or data is worked out once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.alerting.checks import rule_type
from tocsin.alerting.form import Rule, dicts, is_condition
from tocsin.alerting.relabel import Step, parse_steps
from tocsin.alerting.schedule import Schedule, effective_pattern, parse_schedule
from tocsin.alerting.triggers import Nodata, Trigger, parse_nodata, parse_triggers
from tocsin.alerting.variables import filled, uses_variables
from tocsin.alerting.windows import Windows, windows_of, zone_of
from tocsin.plugin import ApiError

DEFAULT_SEVERITY = 2


@dataclass(frozen=True)
class Query:
    """One question of a rule.

    ``text`` is what becomes part of an alert's identity; ``spec`` is what the datasource gets.
    """

    ref: str
    spec: Mapping[str, Any]
    text: str
    severity: int
    unit: str
    filled: bool = False
    """Whether variables were filled in to get it."""


@dataclass(frozen=True)
class CompiledRule:
    """A rule with its schedule, windows, queries and conditions."""

    rule: Rule
    type: str
    schedule: Schedule
    windows: Windows
    queries: tuple[Query, ...]
    triggers: tuple[Trigger, ...]
    nodata: Nodata | None
    condition: bool
    """Whether each query is a complete condition (every sample is an anomaly) rather than input for triggers."""
    relabel: tuple[Step, ...] | None
    inhibit: bool
    asks_while_rendering: bool
    """Whether building an event may query a datasource, which must not happen where evaluation happens."""

    @property
    def id(self) -> int:
        """The rule's id."""
        return int(self.rule["id"])


def compile_rule(rule: Rule) -> CompiledRule:
    """Return the rule ready for evaluation; raise ``ValueError`` for one that cannot be evaluated at all."""
    config = rule["rule_config"]
    if not isinstance(config, dict):
        raise ValueError("rule_config is no object")
    condition = is_condition(config)
    queries = _conditions(config) if condition else _inputs(config)
    steps = config.get("event_relabel_config")
    annotations: dict[str, str] = rule["annotations"] or {}
    return CompiledRule(
        rule=rule,
        type=rule_type(rule),
        schedule=parse_schedule(effective_pattern(rule["cron_pattern"], rule["prom_eval_interval"])),
        windows=windows_of(
            rule["enable_stimes"], rule["enable_etimes"], rule["enable_days_of_weeks"], _zone(rule["time_zone"])
        ),
        queries=queries,
        triggers=() if condition or config.get("exp_trigger_disable") else parse_triggers(config),
        nodata=None if condition else parse_nodata(config),
        condition=condition,
        relabel=tuple(parse_steps(steps)) if isinstance(steps, list) and steps else None,
        inhibit=bool(config.get("inhibit")),
        asks_while_rendering=bool(annotations.get("recovery_promql", "").strip())
        or any("{{" in text and "query" in text for text in annotations.values()),
    )


def _zone(name: str) -> dt.tzinfo | None:
    try:
        return zone_of(name)
    except ApiError:
        return None


def _conditions(config: Mapping[str, Any]) -> tuple[Query, ...]:
    found = []
    for index, query in enumerate(dicts(config.get("queries"))):
        text = query.get("prom_ql")
        if isinstance(text, str) and text.strip():
            severity = query.get("severity") or config.get("severity") or DEFAULT_SEVERITY
            variables = uses_variables(query)
            found += [
                Query(str(index), {"query": one}, one, severity, query.get("unit") or "", variables)
                for one in (filled(query) if variables else (text.strip(),))
            ]
    return tuple(found)


def _inputs(config: Mapping[str, Any]) -> tuple[Query, ...]:
    queries = dicts(config.get("queries"))
    return tuple(
        Query(query["ref"], query, "", 0, query.get("unit") or "")
        for query in queries
        if isinstance(query.get("ref"), str) and query["ref"]
    )
