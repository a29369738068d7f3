"""Input of the alert-rule endpoints: types only, the rules' meaning is checked by the domain."""

from __future__ import annotations

from marshmallow import fields, validate

from tocsin.http.schemas import INT32, Loose, ids, integer, text, texts, truth


class DatasourceQuerySchema(Loose):
    """One selector of datasources."""

    match_type = integer()
    op = text(default="in")
    values = fields.List(fields.Raw(), load_default=list)


class PipelineConfigSchema(Loose):
    """One pipeline of a rule."""

    pipeline_id = integer()
    enable = truth()


class AlertRuleSchema(Loose):
    """A rule as sent by clients; fields that the server sets are ignored."""

    group_id = integer(bounds=INT32)
    cate = text()
    prod = text()
    datasource_queries = fields.List(fields.Nested(DatasourceQuerySchema), load_default=None)
    cluster = text()
    name = text()
    note = text()
    algorithm = text()
    algo_params = fields.Raw(load_default=None)
    delay = integer()
    severity = integer()
    disabled = integer()
    prom_for_duration = integer()
    prom_ql = text()
    rule_config = fields.Dict(keys=fields.String(), load_default=None)
    prom_eval_interval = integer()
    cron_pattern = text()
    time_zone = text()
    enable_stimes = texts()
    enable_etimes = texts()
    enable_days_of_weeks = fields.List(fields.List(fields.String()), load_default=list)
    enable_stime = text()
    enable_etime = text()
    enable_days_of_week = texts()
    enable_in_bg = integer()
    notify_version = integer()
    notify_rule_ids = ids()
    notify_channels = texts()
    notify_groups = texts()
    callbacks = texts()
    notify_recovered = integer()
    notify_repeat_step = integer()
    notify_max_number = integer()
    recover_duration = integer()
    runbook_url = text()
    append_tags = texts()
    annotations = fields.Dict(keys=fields.String(), values=fields.String(), load_default=None)
    extra_config = fields.Raw(load_default=None)
    pipeline_configs = fields.List(fields.Nested(PipelineConfigSchema), load_default=None)


class ServiceRuleSchema(AlertRuleSchema):
    """A rule as sent by automation, which says in whose name it acts."""

    create_by = text(64)
    update_by = text(64)


class BeatSchema(Loose):
    """The heartbeat of an engine that has no database."""

    instance = fields.String(required=True, validate=validate.Length(1, 128))
    engine_cluster = fields.String(load_default="", validate=validate.Length(max=128))
    datasource_id = integer()


class FieldsSchema(Loose):
    """A change of some fields of several rules."""

    ids = ids()
    fields_ = fields.Dict(keys=fields.String(), data_key="fields", load_default=dict)
    action = text()


class CloneToHostsSchema(Loose):
    """Rules to copy for each of several hosts."""

    ids = ids()
    ident_list = texts()


class CloneToGroupsSchema(Loose):
    """Rules to copy into each of several business groups."""

    rule_ids = ids()
    bgids = ids()


class PromImportSchema(Loose):
    """Alerting rules of a Prometheus rule file."""

    payload = fields.String(required=True)
    datasource_queries = fields.List(fields.Nested(DatasourceQuerySchema), required=True)
    disabled = integer()


class RelabelTestSchema(Loose):
    """Relabel steps and the tags to try them on."""

    configs = fields.List(fields.Dict(), load_default=list)
    tags = texts()


class TryRunSchema(Loose):
    """A rule to try on a historical event."""

    event_id = integer()
    config = fields.Nested(AlertRuleSchema, required=True)
