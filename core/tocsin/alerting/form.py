"""The alert rule as a JSON object: its fields, their defaults, and how it is stored and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from tocsin.alerting.models import AlertRule
from tocsin.alerting.schedule import effective_pattern

Rule = dict[str, Any]
"""An alert rule by its JSON names."""

COLUMNS = ("id", "group_id", "name", "cate", "prod", "disabled", "create_at", "create_by", "update_at", "update_by")

BODY_DEFAULTS: Mapping[str, Any] = {
    "datasource_queries": None,
    "cluster": "",
    "note": "",
    "algorithm": "",
    "algo_params": None,
    "delay": 0,
    "severity": 0,
    "prom_for_duration": 0,
    "prom_ql": "",
    "rule_config": None,
    "prom_eval_interval": 0,
    "cron_pattern": "",
    "time_zone": "",
    "enable_stimes": [],
    "enable_etimes": [],
    "enable_days_of_weeks": [],
    "enable_in_bg": 0,
    "notify_version": 0,
    "notify_rule_ids": [],
    "notify_channels": [],
    "notify_groups": [],
    "callbacks": [],
    "notify_recovered": 0,
    "notify_repeat_step": 0,
    "notify_max_number": 0,
    "recover_duration": 0,
    "runbook_url": "",
    "append_tags": [],
    "annotations": None,
    "extra_config": None,
    "pipeline_configs": None,
}
"""Writable fields that are kept in the JSON column."""

SEVERITIES = (1, 2, 3)


def rule_of(row: AlertRule) -> Rule:
    """Return a stored rule with every field that does not depend on other objects."""
    rule: Rule = {name: getattr(row, name) for name in COLUMNS}
    rule.update(BODY_DEFAULTS)
    rule.update(orjson.loads(row.body))
    return rule


def body_of(rule: Rule) -> str:
    """Return the JSON column of a rule."""
    return orjson.dumps({name: rule[name] for name in BODY_DEFAULTS}).decode()


def shown(rule: Rule) -> Rule:
    """Return a rule as answers show it: with the computed fields and the deprecated single time window."""
    starts, ends, days = rule["enable_stimes"], rule["enable_etimes"], rule["enable_days_of_weeks"]
    return {
        **rule,
        "cron_pattern": effective_pattern(rule["cron_pattern"], rule["prom_eval_interval"]),
        "enable_stime": starts[0] if starts else "",
        "enable_etime": ends[0] if ends else "",
        "enable_days_of_week": days[0] if days else [],
        "enable_days_of_weeks": days or [[]],
        "severities": severities(rule["rule_config"]),
        "event_relabel_config": relabel_of(rule["rule_config"]),
        "notify_groups_obj": None,
        "cur_event_count": 0,
        "update_by_nickname": "",
        "uuid": 0,
    }


def is_condition(config: Mapping[str, Any]) -> bool:
    """Return whether each query of a ``rule_config`` is a complete condition, rather than input for ``triggers``.

    A query with ``prom_ql`` is one, whatever else a client's form leaves in the configuration.
    """
    if config.get("version") == "v2":
        return False
    if any(query.get("prom_ql") for query in dicts(config.get("queries"))):
        return True
    return not config.get("triggers") and not config.get("nodata_trigger")


def severity_places(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a ``rule_config`` that say how severe its alerts are."""
    if is_condition(config):
        return dicts(config.get("queries")) or [config]
    return dicts(config.get("triggers"))


def severities(config: Any) -> list[int]:
    """Return the distinct severities of a ``rule_config``, most severe first."""
    places = severity_places(config) if isinstance(config, dict) else []
    return sorted({s for place in places if type(s := place.get("severity")) is int and s})


def relabel_of(config: Any) -> Any:
    """Return the ``event_relabel_config`` inside a ``rule_config``, ``None`` when there is none."""
    found = config.get("event_relabel_config") if isinstance(config, dict) else None
    return found if isinstance(found, list) else None


def dicts(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a JSON array; anything else counts as empty."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
