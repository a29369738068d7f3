"""Input of the alert-rule endpoints: types only, the rules' meaning is checked by the domain."""

from __future__ import annotations

from typing import Any

from marshmallow import EXCLUDE, Schema, fields, pre_load, validate


def _int(default: int = 0) -> fields.Integer:
    return fields.Integer(strict=True, load_default=default)


def _text(default: str = "") -> fields.String:
    return fields.String(load_default=default)


def _texts() -> fields.List[str]:
    return fields.List(fields.String(), load_default=list, allow_none=True)


class _Loose(Schema):
    class Meta:
        unknown = EXCLUDE


class DatasourceQuerySchema(_Loose):
    """One selector of datasources."""

    match_type = _int()
    op = _text("in")
    values = fields.List(fields.Raw(), load_default=list, allow_none=True)


class PipelineConfigSchema(_Loose):
    """One pipeline of a rule."""

    pipeline_id = _int()
    enable = fields.Boolean(load_default=False, truthy={True}, falsy={False})


class AlertRuleSchema(_Loose):
    """A rule as sent by clients; fields that the server sets are ignored."""

    group_id = _int()
    cate = _text()
    prod = _text()
    datasource_queries = fields.List(fields.Nested(DatasourceQuerySchema), load_default=None, allow_none=True)
    cluster = _text()
    name = _text()
    note = _text()
    algorithm = _text()
    algo_params = fields.Raw(load_default=None, allow_none=True)
    delay = _int()
    severity = _int()
    disabled = _int()
    prom_for_duration = _int()
    prom_ql = _text()
    rule_config = fields.Dict(keys=fields.String(), load_default=None, allow_none=True)
    prom_eval_interval = _int()
    cron_pattern = _text()
    time_zone = _text()
    enable_stimes = _texts()
    enable_etimes = _texts()
    enable_days_of_weeks = fields.List(fields.List(fields.String()), load_default=list, allow_none=True)
    enable_stime = _text()
    enable_etime = _text()
    enable_days_of_week = _texts()
    enable_in_bg = _int()
    notify_version = _int()
    notify_rule_ids = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)
    notify_channels = _texts()
    notify_groups = _texts()
    callbacks = _texts()
    notify_recovered = _int()
    notify_repeat_step = _int()
    notify_max_number = _int()
    recover_duration = _int()
    runbook_url = _text()
    append_tags = _texts()
    annotations = fields.Dict(keys=fields.String(), values=fields.String(), load_default=None, allow_none=True)
    extra_config = fields.Raw(load_default=None, allow_none=True)
    pipeline_configs = fields.List(fields.Nested(PipelineConfigSchema), load_default=None, allow_none=True)

    @pre_load
    def _no_booleans(self, data: Any, **_: Any) -> Any:
        """Refuse ``true`` where an integer is declared: Python counts it as one."""
        if isinstance(data, dict):
            for name, value in data.items():
                if isinstance(value, bool) and isinstance(self.fields.get(name), fields.Integer):
                    data = {**data, name: str(value).lower()}
        return data


class ServiceRuleSchema(AlertRuleSchema):
    """A rule as sent by automation, which says in whose name it acts."""

    create_by = _text()
    update_by = _text()


class BeatSchema(_Loose):
    """The heartbeat of an engine that has no database."""

    instance = fields.String(required=True, validate=validate.Length(1, 128))
    engine_cluster = fields.String(load_default="", validate=validate.Length(max=128))
    datasource_id = _int()


class FieldsSchema(_Loose):
    """A change of some fields of several rules."""

    ids = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)
    fields_ = fields.Dict(keys=fields.String(), data_key="fields", load_default=dict, allow_none=True)
    action = _text()


class CloneToHostsSchema(_Loose):
    """Rules to copy for each of several hosts."""

    ids = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)
    ident_list = _texts()


class CloneToGroupsSchema(_Loose):
    """Rules to copy into each of several business groups."""

    rule_ids = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)
    bgids = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)


class IdsSchema(_Loose):
    """``{"ids": [1, 2]}``."""

    ids = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)


class PromImportSchema(_Loose):
    """Alerting rules of a Prometheus rule file."""

    payload = fields.String(required=True)
    datasource_queries = fields.List(fields.Nested(DatasourceQuerySchema), required=True)
    disabled = _int()


class RelabelTestSchema(_Loose):
    """Relabel steps and the tags to try them on."""

    configs = fields.List(fields.Dict(), load_default=list, allow_none=True)
    tags = _texts()


class TryRunSchema(_Loose):
    """A rule to try on a historical event."""

    event_id = _int()
    config = fields.Nested(AlertRuleSchema, required=True)
