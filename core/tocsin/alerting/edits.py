"""Changes of some fields of several rules, the way the rule list's batch menu sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tocsin.alerting.form import BODY_DEFAULTS, Rule
from tocsin.alerting.rules import set_severity
from tocsin.plugin import invalid

Change = Callable[[Rule, Mapping[str, Any]], None]
INTEGERS = frozenset(name for name, default in BODY_DEFAULTS.items() if isinstance(default, int)) | {"disabled"}
TEXTS = frozenset(name for name, default in BODY_DEFAULTS.items() if isinstance(default, str))


def apply_edit(rule: Rule, action: str, fields: Mapping[str, Any]) -> None:
    """Change ``rule`` in place as a named action, or as a plain overwrite of columns; raise ``invalid``."""
    ACTIONS.get(action, _overwrite)(rule, fields)


def _typed(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        names = {dict: "an object", list: "an array", str: "a text", int: "a number"}
        raise invalid(f"fields.{name}: got {type(value).__name__}, expected {names[kind]}")
    return value


def _triggers(rule: Rule, fields: Mapping[str, Any]) -> None:
    rule["rule_config"] = {**rule["rule_config"], "triggers": fields.get("triggers")}


def _annotations_add(rule: Rule, fields: Mapping[str, Any]) -> None:
    rule["annotations"] = {**(rule["annotations"] or {}), **_string_map(fields)}


def _annotations_del(rule: Rule, fields: Mapping[str, Any]) -> None:
    gone = _typed(fields, "annotations", dict)
    rule["annotations"] = {key: value for key, value in (rule["annotations"] or {}).items() if key not in gone}


def _string_map(fields: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = _typed(fields, "annotations", dict)
    if not all(isinstance(value, str) for value in found.values()):
        raise invalid("fields.annotations: expected an object of texts")
    return found


def _callback_add(rule: Rule, fields: Mapping[str, Any]) -> None:
    url = _typed(fields, "callbacks", str).strip()
    if url and url not in " ".join(rule["callbacks"]):
        rule["callbacks"] = [*rule["callbacks"], url]


def _callback_del(rule: Rule, fields: Mapping[str, Any]) -> None:
    url = _typed(fields, "callbacks", str).strip()
    rule["callbacks"] = " ".join(rule["callbacks"]).replace(url, "").split() if url else rule["callbacks"]


def _datasources(rule: Rule, fields: Mapping[str, Any]) -> None:
    rule["datasource_queries"] = _typed(fields, "datasource_queries", list)


def _overwrite(rule: Rule, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if value is not None:
            _set(rule, name, value, fields)


def _set(rule: Rule, name: str, value: Any, fields: Mapping[str, Any]) -> None:
    if name in SPECIAL:
        SPECIAL[name](rule, fields)
    elif name in INTEGERS:
        rule[name] = _typed(fields, name, int)
    elif name in TEXTS:
        rule[name] = _typed(fields, name, str)
    elif name in WORDS:
        rule[name] = value if isinstance(value, list) else _typed(fields, name, str).split()
    elif name in BODY_DEFAULTS:
        rule[name] = value
    elif name != "datasource_ids":
        raise invalid(f"fields.{name}: unknown field")


def _severity(rule: Rule, fields: Mapping[str, Any]) -> None:
    set_severity(rule, _typed(fields, "severity", int))


def _runbook(rule: Rule, fields: Mapping[str, Any]) -> None:
    rule["annotations"] = {**(rule["annotations"] or {}), "runbook_url": _typed(fields, "runbook_url", str)}


def _notify_rules(rule: Rule, fields: Mapping[str, Any]) -> None:
    rule["notify_rule_ids"] = _typed(fields, "notify_rule_ids", list)
    rule |= {"notify_version": 1, "notify_channels": [], "notify_groups": []}


def _legacy_notify(name: str) -> Change:
    def change(rule: Rule, fields: Mapping[str, Any]) -> None:
        rule[name] = _typed(fields, name, str).split()
        rule |= {"notify_version": 0, "notify_rule_ids": []}

    return change


def _window_texts(name: str) -> Change:
    def change(rule: Rule, fields: Mapping[str, Any]) -> None:
        text = _typed(fields, name, str)
        if name == "enable_days_of_week":
            rule["enable_days_of_weeks"] = [group.split() for group in text.split(";") if group.strip()]
        else:
            rule[name + "s"] = text.split()

    return change


def _annotations(rule: Rule, fields: Mapping[str, Any]) -> None:
    rule["annotations"] = _string_map(fields)


ACTIONS: Mapping[str, Change] = {
    "update_triggers": _triggers,
    "annotations_add": _annotations_add,
    "annotations_del": _annotations_del,
    "callback_add": _callback_add,
    "callback_del": _callback_del,
    "datasource_change": _datasources,
}
WORDS = frozenset(("append_tags", "callbacks"))
SPECIAL: Mapping[str, Change] = {
    "severity": _severity,
    "runbook_url": _runbook,
    "annotations": _annotations,
    "notify_rule_ids": _notify_rules,
    "notify_channels": _legacy_notify("notify_channels"),
    "notify_groups": _legacy_notify("notify_groups"),
    "enable_stime": _window_texts("enable_stime"),
    "enable_etime": _window_texts("enable_etime"),
    "enable_days_of_week": _window_texts("enable_days_of_week"),
}
