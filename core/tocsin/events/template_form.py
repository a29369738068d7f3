"""The event as templates see it: Go names over the JSON object, for ``$event.RuleName`` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.events.form import DEFAULTS
from tocsin.template import Field, Function, Record, StringMap, Struct, StructType
from tocsin.template.errors import CallError

SPECIAL = {
    "rule_config": "RuleConfigJson",
    "callbacks": "CallbacksJSON",
    "notify_channels": "NotifyChannelsJSON",
    "notify_groups": "NotifyGroupsJSON",
    "tags": "TagsJSON",
    "original_tags": "OriginalTagsJSON",
    "annotations": "AnnotationsJSON",
}
"""Fields whose template name is not simply their JSON name in capitals."""

TARGET = StructType(
    "Target",
    {
        "Id": Field("id", 0),
        "GroupId": Field("group_id", 0),
        "Ident": Field("ident", ""),
        "Note": Field("note", ""),
        "HostIp": Field("host_ip", ""),
        "AgentVersion": Field("agent_version", ""),
        "EngineName": Field("engine_name", ""),
        "OS": Field("os", ""),
        "UpdateAt": Field("update_at", 0),
        "TagsJSON": Field("tags", []),
        "TagsMap": Field("tags_maps", {}),
        "HostTags": Field("host_tags", []),
        "GroupIds": Field("group_ids", []),
        "GroupNames": Field("group_names", []),
    },
)
USER = StructType(
    "User",
    {
        "Id": Field("id", 0),
        "Username": Field("username", ""),
        "Nickname": Field("nickname", ""),
        "Phone": Field("phone", ""),
        "Email": Field("email", ""),
    },
)
TEAM = StructType("UserGroup", {"Id": Field("id", 0), "Name": Field("name", ""), "Note": Field("note", "")})
NOTIFY_RULE = StructType("EventNotifyRule", {"Id": Field("id", 0), "Name": Field("name", "")})
VALUE = StructType(
    "FormattedValue",
    {"Value": Field("value", 0.0), "Unit": Field("unit", ""), "Text": Field("text", ""), "Stat": Field("stat", 0.0)},
)
VALUES = StructType("EventTriggerValues", {"ValuesWithUnit": Field("values_with_unit")})
RECOVER = StructType("RecoverConfig", {"JudgeType": Field("judge_type", 0), "RecoverExp": Field("recover_exp", "")})

NESTED = {
    "target": TARGET,
    "notify_users_obj": USER,
    "notify_groups_obj": TEAM,
    "notify_rules": NOTIFY_RULE,
    "trigger_values_json": VALUES,
    "recover_config": RECOVER,
}


def go_name(name: str) -> str:
    """Return the template name of an event's JSON field."""
    return SPECIAL.get(name) or "".join(part.capitalize() for part in name.split("_"))


def _field(name: str) -> Field:
    return Field(name, DEFAULTS.get(name), NESTED.get(name))


def _tag_value(event: Record, name: str) -> str:
    tags = event.field("TagsMap")
    return str(tags.get(name, "")) if isinstance(tags, Mapping) else ""


def _field_value(event: Record, name: str) -> Any:
    if not isinstance(event, Struct) or name not in event.data:
        raise CallError(f"event has no field {name!r}")
    return event.data[name]


EVENT = StructType(
    "AlertCurEvent",
    {go_name(name): _field(name) for name in (*DEFAULTS, "notify_users_obj", "notify_groups_obj")},
    {
        "GetTagValue": Function("GetTagValue", _tag_value, ("record", "string")),
        "GetField": Function("GetField", _field_value, ("record", "string")),
    },
)
"""``EVENT.wrap(event)`` is what a template gets as event."""


def for_template(event: Mapping[str, Any]) -> Struct:
    """Return the event as a template value; maps of texts become Go's ``map[string]string``."""
    maps = {name: StringMap(event[name] or {}) for name in ("tags_map", "annotations") if name in event}
    return EVENT.wrap({**event, **maps})
