"""Alerting rules of a Prometheus rule file as alert rules of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from tocsin.alerting.schedule import ScheduleError, parse_duration
from tocsin.plugin import invalid

DEFAULT_SECONDS = 60
SEVERITY_NAMES = {
    1: ("critical", "error", "fatal", "page", "sev1", "severity1"),
    2: ("warning", "warn", "sev2", "severity2"),
    3: ("info", "notice", "sev3", "severity3"),
}
SEVERITY_OF = {name: severity for severity, names in SEVERITY_NAMES.items() for name in names}
DEFAULT_SEVERITY = 2


def rules_of(payload: str, datasource_queries: Sequence[Mapping[str, Any]], disabled: int) -> list[dict[str, Any]]:
    """Return rule bodies for the alerting rules in a YAML (or JSON) text; recording rules are skipped."""
    if not payload.strip():
        raise invalid("payload is empty")
    if disabled not in (0, 1):
        raise invalid(f"disabled: got {disabled}, expected 0 or 1")
    try:
        document = yaml.safe_load(payload)
    except yaml.YAMLError as error:
        raise invalid(f"invalid yaml format: {error}") from None
    return [
        _converted(rule, interval, datasource_queries, disabled)
        for interval, rule in _alerts(document)
        if isinstance(rule, dict) and rule.get("alert")
    ]


def _alerts(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield ``(group interval, rule)`` of a rule file, a bare list of rules, or one rule."""
    if isinstance(document, dict) and isinstance(document.get("groups"), list):
        for group in document["groups"]:
            if isinstance(group, dict):
                for rule in group.get("rules") or ():
                    yield group.get("interval"), rule
    elif isinstance(document, list):
        yield from ((None, rule) for rule in document)
    elif isinstance(document, dict) and (document.get("alert") or document.get("record")):
        yield None, document
    else:
        raise invalid("input yaml is empty or invalid")


def _converted(
    rule: dict[str, Any], interval: Any, datasource_queries: Sequence[Mapping[str, Any]], disabled: int
) -> dict[str, Any]:
    labels = {str(key): str(value) for key, value in (rule.get("labels") or {}).items()}
    severity = SEVERITY_OF.get(labels.pop("severity", "").lower(), DEFAULT_SEVERITY)
    annotations = {str(key): str(value) for key, value in (rule.get("annotations") or {}).items()}
    return {
        "name": str(rule["alert"]),
        "cate": "prometheus",
        "prod": "metric",
        "datasource_queries": list(datasource_queries),
        "disabled": disabled,
        "rule_config": {"queries": [{"prom_ql": str(rule.get("expr") or ""), "severity": severity}]},
        "prom_for_duration": _seconds(rule.get("for")),
        "cron_pattern": f"@every {_seconds(interval)}s",
        "append_tags": [f"{key}={value}".replace(" ", "") for key, value in labels.items()],
        "annotations": annotations,
        "notify_recovered": 1,
        "notify_repeat_step": 60,
        "notify_version": 1,
    }


def _seconds(text: Any) -> int:
    try:
        return int(parse_duration(str(text or ""))) or DEFAULT_SECONDS
    except ScheduleError:
        return DEFAULT_SECONDS
