"""The alert event as templates see it, and the variables that each kind of template starts with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .show import sprint
from .values import Field, Function, StringMap, Struct, StructType


def _fields(**spec: tuple[str, Any]) -> dict[str, Field]:
    return {name: Field(key, zero) for name, (key, zero) in spec.items()}


def _text_map(value: Any) -> Any:
    return StringMap(value) if isinstance(value, dict) else value


USER = StructType(
    "User",
    _fields(
        Id=("id", 0),
        Username=("username", ""),
        Nickname=("nickname", ""),
        Phone=("phone", ""),
        Email=("email", ""),
        Contacts=("contacts", None),
    ),
)
TEAM = StructType("UserGroup", _fields(Id=("id", 0), Name=("name", ""), Note=("note", "")))
TARGET = StructType(
    "Target",
    _fields(
        Id=("id", 0),
        GroupId=("group_id", 0),
        Ident=("ident", ""),
        Note=("note", ""),
        TagsJSON=("tags", ()),
        UpdateAt=("update_at", 0),
        HostIp=("host_ip", ""),
        AgentVersion=("agent_version", ""),
        EngineName=("engine_name", ""),
        OS=("os", ""),
        HostTags=("host_tags", ()),
        GroupIds=("group_ids", ()),
        GroupNames=("group_names", ()),
    )
    | {"TagsMap": Field("tags_maps", StringMap(), convert=_text_map)},
)
UNIT_VALUE = StructType(
    "UnitValue", _fields(Value=("value", 0.0), Unit=("unit", ""), Text=("text", ""), Stat=("stat", 0.0))
)
NOTIFY_RULE = StructType("EventNotifyRule", _fields(Id=("id", 0), Name=("name", "")))
RECOVER_CONFIG = StructType("RecoverConfig", _fields(JudgeType=("judge_type", 0), RecoverExp=("recover_exp", "")))


def _unit_values(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return {}
    return {name: UNIT_VALUE.wrap(value) for name, value in values.items() if isinstance(value, dict)}


TRIGGER_VALUES = StructType(
    "EventTriggerValues", {"ValuesWithUnit": Field("values_with_unit", {}, convert=_unit_values)}
)

_GROUPABLE = frozenset(
    (
        "cluster",
        "group_id",
        "group_name",
        "rule_id",
        "rule_name",
        "severity",
        "runbook_url",
        "target_ident",
        "target_note",
    )
)


def _tag_value(event: Struct, name: str) -> str:
    tags = event.field("TagsMap")
    return str(tags.get(name, "")) if isinstance(tags, dict) else ""


def _field_text(event: Struct, name: str) -> str:
    value = event.data.get(name) if name in _GROUPABLE else None
    return "" if value is None else sprint(value)


EVENT = StructType(
    "AlertCurEvent",
    _fields(
        Id=("id", 0),
        Cate=("cate", ""),
        Cluster=("cluster", ""),
        DatasourceId=("datasource_id", 0),
        GroupId=("group_id", 0),
        GroupName=("group_name", ""),
        Hash=("hash", ""),
        RuleId=("rule_id", 0),
        RuleName=("rule_name", ""),
        RuleNote=("rule_note", ""),
        RuleProd=("rule_prod", ""),
        RuleAlgo=("rule_algo", ""),
        Severity=("severity", 0),
        PromForDuration=("prom_for_duration", 0),
        PromQl=("prom_ql", ""),
        RuleConfigJson=("rule_config", None),
        PromEvalInterval=("prom_eval_interval", 0),
        CallbacksJSON=("callbacks", ()),
        RunbookUrl=("runbook_url", ""),
        NotifyRecovered=("notify_recovered", 0),
        NotifyChannelsJSON=("notify_channels", ()),
        NotifyGroupsJSON=("notify_groups", ()),
        TargetIdent=("target_ident", ""),
        TargetNote=("target_note", ""),
        TriggerTime=("trigger_time", 0),
        TriggerValue=("trigger_value", ""),
        TriggerValues=("trigger_values", ""),
        TagsJSON=("tags", ()),
        OriginalTagsJSON=("original_tags", ()),
        IsRecovered=("is_recovered", False),
        LastEvalTime=("last_eval_time", 0),
        LastSentTime=("last_sent_time", 0),
        FirstEvalTime=("first_eval_time", 0),
        NotifyCurNumber=("notify_cur_number", 0),
        FirstTriggerTime=("first_trigger_time", 0),
        ExtraConfig=("extra_config", None),
        Status=("status", 0),
        Claimant=("claimant", ""),
        SubRuleId=("sub_rule_id", 0),
        ExtraInfo=("extra_info", ()),
        RuleHash=("rule_hash", ""),
        ExtraInfoMap=("extra_info_map", ()),
        NotifyRuleIds=("notify_rule_ids", ()),
        NotifyRuleId=("notify_rule_id", 0),
        NotifyRuleName=("notify_rule_name", ""),
        NotifyVersion=("notify_version", 0),
        RecoverTime=("recover_time", 0),
    )
    | {
        "TagsMap": Field("tags_map", StringMap(), convert=_text_map),
        "AnnotationsJSON": Field("annotations", StringMap(), convert=_text_map),
        "ShotImageBase64": Field("shot_image_base64", StringMap(), convert=_text_map),
        "Target": Field("target", None, TARGET),
        "NotifyUsersObj": Field("notify_users_obj", (), USER),
        "NotifyGroupsObj": Field("notify_groups_obj", (), TEAM),
        "NotifyRules": Field("notify_rules", (), NOTIFY_RULE),
        "TriggerValuesJson": Field("trigger_values_json", TRIGGER_VALUES.wrap({}), TRIGGER_VALUES),
        "RecoverConfig": Field("recover_config", RECOVER_CONFIG.wrap({}), RECOVER_CONFIG),
    },
    {
        "GetTagValue": Function("GetTagValue", _tag_value, ("string",)),
        "GetField": Function("GetField", _field_text, ("string",)),
    },
)
"""The event: ``EVENT.wrap(event)`` of the JSON object that the API shows."""

RULE_VARIABLES = (("$labels", ".TagsMap"), ("$value", ".TriggerValue"), ("$annotations", ".AnnotationsJSON"))
"""Rule name, rule note and callback address; dot is the event."""

ANNOTATION_VARIABLES = (("$labels", ".TagsMap"), ("$value", ".TriggerValue"))
"""Annotation values, appended tags and legacy notification templates; dot is the event."""

MESSAGE_VARIABLES = (
    ("$events", ".events"),
    ("$event", "index $events 0"),
    ("$labels", "$event.TagsMap"),
    ("$value", "$event.TriggerValue"),
)
"""Message templates; dot is ``{events, domain}``."""

CHANNEL_VARIABLES = tuple(
    (f"${name}", f".{name}") for name in ("tpl", "params", "events", "event", "sendtos", "sendto")
)
"""Address, headers, parameters and body of an HTTP channel; dot has one key per variable."""
