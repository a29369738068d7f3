"""Brings a rule as sent into the form it is stored in, and refuses what could never work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.alerting.form import BODY_DEFAULTS, Rule, is_condition
from tocsin.alerting.relabel import check_relabel
from tocsin.alerting.schedule import ScheduleError, parse_schedule
from tocsin.alerting.triggers import check_severity, check_triggers, objects, text_of
from tocsin.alerting.variables import VariableError, filled, uses_variables
from tocsin.alerting.windows import check_windows, zone_of
from tocsin.events.audience import is_id
from tocsin.plugin import DatasourceType, invalid

DEFAULT_CATE = "prometheus"
"""The category of a rule that names none, by the field's convention; nothing else here depends on it."""
DEFAULT_INTERVAL = 15
FORBIDDEN_CHARACTERS = "<>&'\""
FORBIDDEN_TEXTS = ("://", "../")
TEXT_LIMITS = {"name": 255, "note": 1024, "cate": 128, "prod": 255, "cron_pattern": 64, "time_zone": 64}

Types = Mapping[str, DatasourceType]


def normalised(given: Mapping[str, Any]) -> Rule:
    """Return a rule with defaults filled in; ``given`` has passed the schema."""
    rule: Rule = {name: given.get(name, default) for name, default in BODY_DEFAULTS.items()}
    rule |= {"name": given["name"].strip(), "disabled": given["disabled"], "group_id": given["group_id"]}
    rule |= {"cate": given["cate"] or DEFAULT_CATE, "prod": given["prod"] or "metric"}
    for name, default in BODY_DEFAULTS.items():
        if rule[name] is None and isinstance(default, list):
            rule[name] = []
    if rule["prom_eval_interval"] <= 0:
        rule["prom_eval_interval"] = DEFAULT_INTERVAL
    if rule["prom_ql"] or rule["rule_config"] is None:
        rule["rule_config"] = {"queries": [{"prom_ql": rule["prom_ql"], "severity": rule["severity"]}]}
        rule["prom_ql"] = ""
    rule["append_tags"] = [tag.replace(" ", "") for tag in rule["append_tags"]]
    _single_window(rule, given)
    if rule["notify_version"] == 0:
        rule["notify_rule_ids"] = []
    else:
        rule |= {"notify_channels": [], "notify_groups": [], "callbacks": []}
    return rule


def _single_window(rule: Rule, given: Mapping[str, Any]) -> None:
    """Use the deprecated single window where the lists are empty."""
    singles = (("enable_stimes", "enable_stime"), ("enable_etimes", "enable_etime"))
    for plural, single in singles:
        if not rule[plural] and given.get(single):
            rule[plural] = [given[single]]
    if not any(rule["enable_days_of_weeks"]) and given.get("enable_days_of_week"):
        rule["enable_days_of_weeks"] = [given["enable_days_of_week"]]
    rule["enable_days_of_weeks"] = [group for group in rule["enable_days_of_weeks"] if group]


def check_rule(rule: Rule, types: Types) -> None:
    """Raise ``invalid`` for a rule that must not be stored."""
    if rule["group_id"] < 0:
        raise invalid(f"GroupId({rule['group_id']}) invalid")
    _check_name(rule["name"])
    zone_of(rule["time_zone"])
    _check_tags(rule["append_tags"])
    if not all(is_id(team) for team in rule["notify_groups"]):
        raise invalid(f"NotifyGroups({' '.join(rule['notify_groups'])}) invalid")
    check_windows(rule["enable_stimes"], rule["enable_etimes"], rule["enable_days_of_weeks"])
    if rule["cron_pattern"].strip():
        try:
            parse_schedule(rule["cron_pattern"])
        except ScheduleError as error:
            raise invalid(f"invalid cron pattern: {rule['cron_pattern']}, error: {error}") from None
    for name, limit in TEXT_LIMITS.items():
        if len(rule[name]) > limit:
            raise invalid(f"{name}: got {len(rule[name])} characters, expected at most {limit}")
    if rule["disabled"] not in (0, 1):
        raise invalid(f"disabled: got {rule['disabled']}, expected 0 or 1")
    check_relabel(rule["rule_config"].get("event_relabel_config"))
    check_config(rule, types)


def _check_name(name: str) -> None:
    if not name:
        raise invalid("name is blank")
    if any(char in name for char in FORBIDDEN_CHARACTERS) or any(text in name for text in FORBIDDEN_TEXTS):
        raise invalid("Name has invalid characters")


def _check_tags(tags: list[str]) -> None:
    seen = set()
    for tag in tags:
        key, equals, _ = tag.partition("=")
        if not equals:
            raise invalid(f"AppendTags({tag}) invalid")
        if key in seen:
            raise invalid(f"AppendTags has duplicate key: {key}")
        seen.add(key)


def rule_type(rule: Rule) -> str:
    """Return the datasource type a rule asks: its category, unless an old product name stands for it."""
    return str(rule["cate"] if rule["prod"] in ("metric", "logging") else rule["prod"])


def check_config(rule: Rule, types: Types) -> None:
    """Raise ``invalid`` when nothing installed can evaluate the rule, or its queries and triggers cannot be understood."""
    name, config = rule_type(rule), rule["rule_config"]
    kind = types.get(name)
    if kind is None:
        known = ", ".join(sorted(types)) or "none is installed"
        raise invalid(f"cate: no installed datasource type can alert on {name!r}, expected one of: {known}")
    anomaly = config.get("anomaly_trigger")
    if isinstance(anomaly, dict) and anomaly.get("enable"):
        raise invalid("rule_config.anomaly_trigger: not available, expected triggers or a query with its condition")
    condition = is_condition(config)
    for index, query in enumerate(objects(config, "queries", "rule_config")):
        where = f"rule_config.queries[{index}]"
        spec = _condition(where, query) if condition else _input(where, query)
        fault = kind.check_query(spec) if spec else None
        if fault:
            raise invalid(f"{where}: {fault}")
    if not condition:
        check_triggers(config)


def _condition(where: str, query: dict[str, Any]) -> Mapping[str, Any] | None:
    """Return what the datasource is asked by a query that is a condition, ``None`` for a blank one."""
    check_severity(where, query)
    text = text_of(query, "prom_ql", where).strip()
    text_of(query, "unit", where)
    if text and uses_variables(query):
        try:
            text = filled(query)[0]
        except VariableError as error:
            raise invalid(f"{where}: {error}") from None
    return {"query": text} if text else None


def _input(where: str, query: dict[str, Any]) -> Mapping[str, Any]:
    """Return what the datasource is asked by a query that triggers refer to."""
    if not text_of(query, "ref", where):
        raise invalid(f"{where}.ref: got an empty text, expected the letter by which triggers call the query")
    text_of(query, "unit", where)
    return query
