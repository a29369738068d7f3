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
MOST_ALIASES = 16
"""References to earlier parts that a file may have: nested in each other they multiply."""


class RuleFileLoader(yaml.SafeLoader):
    """Reads plain values; refuses a small text that would unfold into more than fits the memory."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose the next node, counting those that are references."""
        if self.check_event(yaml.AliasEvent):
            self._aliases += 1
            if self._aliases > MOST_ALIASES:
                raise yaml.MarkedYAMLError(problem=f"more than {MOST_ALIASES} aliases")
        return super().compose_node(parent, index)


def rules_of(payload: str, datasource_queries: Sequence[Mapping[str, Any]], disabled: int) -> list[dict[str, Any]]:
    """Return rule bodies for the alerting rules in a YAML (or JSON) text; recording rules are skipped."""
    if not payload.strip():
        raise invalid("payload is empty")
    if disabled not in (0, 1):
        raise invalid(f"disabled: got {disabled}, expected 0 or 1")
    try:
        document = yaml.load(payload, RuleFileLoader)  # noqa: S506 - a safe loader
    except RecursionError:
        raise invalid("invalid yaml format: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
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
                rules = group.get("rules") or []
                if not isinstance(rules, list):
                    raise invalid(f"rules: got {type(rules).__name__}, expected a list")
                yield from ((group.get("interval"), rule) for rule in rules)
    elif isinstance(document, list):
        yield from ((None, rule) for rule in document)
    elif isinstance(document, dict) and (document.get("alert") or document.get("record")):
        yield None, document
    else:
        raise invalid("input yaml is empty or invalid")


def _converted(
    rule: dict[str, Any], interval: Any, datasource_queries: Sequence[Mapping[str, Any]], disabled: int
) -> dict[str, Any]:
    labels = _texts(rule, "labels")
    severity = SEVERITY_OF.get(labels.pop("severity", "").lower(), DEFAULT_SEVERITY)
    return {
        "name": _text(rule["alert"], "alert"),
        "cate": "prometheus",
        "prod": "metric",
        "datasource_queries": list(datasource_queries),
        "disabled": disabled,
        "rule_config": {"queries": [{"prom_ql": _text(rule.get("expr") or "", "expr"), "severity": severity}]},
        "prom_for_duration": _seconds(rule.get("for")),
        "cron_pattern": f"@every {_seconds(interval)}s",
        "append_tags": [f"{key}={value}".replace(" ", "") for key, value in labels.items()],
        "annotations": _texts(rule, "annotations"),
        "notify_recovered": 1,
        "notify_repeat_step": 60,
        "notify_version": 1,
    }


def _texts(rule: Mapping[str, Any], member: str) -> dict[str, str]:
    found = rule.get(member) or {}
    if not isinstance(found, dict):
        raise invalid(f"{member}: got {type(found).__name__}, expected a mapping of texts")
    return {_text(key, member): _text(value, f"{member}.{key}") for key, value in found.items()}


def _text(value: Any, where: str) -> str:
    """Return a plain value as text; structures are refused, since their text may be far larger than the file."""
    if isinstance(value, dict | list | tuple | set):
        raise invalid(f"{where}: got {type(value).__name__}, expected a text")
    try:
        return str(value)
    except ValueError:
        raise invalid(f"{where}: got a number with too many digits, expected a text") from None


def _seconds(value: Any) -> int:
    try:
        return int(parse_duration(_text(value or "", "duration"))) or DEFAULT_SECONDS
    except ScheduleError:
        return DEFAULT_SECONDS
