"""The event as a JSON object: its fields, their defaults, and what active and historical answers show of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

Event = dict[str, Any]
"""An alert event by its JSON names; :data:`DEFAULTS` lists them all."""

DEFAULTS: Mapping[str, Any] = {
    "id": 0,
    "cate": "",
    "cluster": "",
    "datasource_id": 0,
    "group_id": 0,
    "group_name": "",
    "hash": "",
    "rule_id": 0,
    "rule_name": "",
    "rule_note": "",
    "rule_prod": "",
    "rule_algo": "",
    "severity": 0,
    "prom_for_duration": 0,
    "prom_ql": "",
    "rule_config": None,
    "prom_eval_interval": 0,
    "callbacks": [],
    "runbook_url": "",
    "notify_recovered": 0,
    "notify_channels": [],
    "notify_groups": [],
    "target_ident": "",
    "target_note": "",
    "trigger_time": 0,
    "trigger_value": "",
    "trigger_values": "",
    "trigger_values_json": {"values_with_unit": None},
    "tags": [],
    "tags_map": {},
    "original_tags": [],
    "annotations": {},
    "is_recovered": False,
    "last_eval_time": 0,
    "last_sent_time": 0,
    "first_eval_time": 0,
    "notify_cur_number": 0,
    "first_trigger_time": 0,
    "extra_config": None,
    "status": 0,
    "claimant": "",
    "sub_rule_id": 0,
    "extra_info": None,
    "target": None,
    "recover_config": {"judge_type": 0, "recover_exp": ""},
    "rule_hash": "",
    "shot_image_base64": None,
    "extra_info_map": None,
    "notify_rule_ids": [],
    "notify_rule_id": 0,
    "notify_rule_name": "",
    "notify_version": 0,
    "notify_rules": None,
    "recover_time": 0,
}

HISTORY_FIELDS = (
    *("id", "cate", "is_recovered", "datasource_id", "cluster", "group_id", "group_name", "hash", "rule_id"),
    *("rule_name", "rule_note", "rule_prod", "rule_algo", "severity", "prom_for_duration", "prom_ql", "rule_config"),
    *("prom_eval_interval", "callbacks", "runbook_url", "notify_recovered", "notify_channels", "notify_groups"),
    *("target_ident", "target_note", "trigger_time", "trigger_value", "recover_time", "last_eval_time", "tags"),
    *("original_tags", "annotations", "notify_cur_number", "first_trigger_time", "extra_config", "notify_rule_ids"),
    *("notify_version", "notify_rules"),
)


def new_event(**fields: Any) -> Event:
    """Return an event with the given fields and the defaults of all others."""
    return {**DEFAULTS, **fields}


def packed(event: Event) -> str:
    """Return the event as stored; fields that hold their default are left out."""
    kept = {name: value for name, value in event.items() if name not in DEFAULTS or value != DEFAULTS[name]}
    return orjson.dumps(kept).decode()


def unpacked(body: str) -> Event:
    """Return the event that :func:`packed` stored."""
    return {**DEFAULTS, **orjson.loads(body)}


def tag_map(tags: list[str]) -> dict[str, str]:
    """Return ``key=value`` items as a map; an item without ``=`` is skipped, a value may contain one."""
    return dict(item.split("=", 1) for item in tags if "=" in item)


def active_form(event: Event) -> Event:
    """Return the event as the active endpoints show it: empty notify lists are left out."""
    shown = dict(event)
    for name in ("notify_channels", "notify_groups"):
        if not shown[name]:
            del shown[name]
    shown["notify_version"] = 1 if shown["notify_rule_ids"] else shown["notify_version"]
    return shown


def history_form(event: Event) -> Event:
    """Return the event as the history list shows it."""
    shown = {name: event[name] for name in HISTORY_FIELDS}
    shown["is_recovered"] = int(event["is_recovered"])
    return shown
