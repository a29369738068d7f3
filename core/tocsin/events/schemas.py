"""Input of the event endpoints."""

from __future__ import annotations

from marshmallow import EXCLUDE, INCLUDE, Schema, fields, validate


class _Loose(Schema):
    class Meta:
        unknown = EXCLUDE


class IdsSchema(_Loose):
    """``{"ids": [1, 2]}``."""

    ids = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)


class EventIdsSchema(_Loose):
    """The optional body of ``POST /alert-cur-events/list``."""

    event_ids = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)


class HistoryDeleteSchema(_Loose):
    """What ``DELETE /alert-his-events`` removes."""

    timestamp = fields.Integer(strict=True, load_default=0)
    severities = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)


class ViewSchema(_Loose):
    """An aggregation view."""

    id = fields.Integer(strict=True, load_default=0)
    name = fields.String(load_default="")
    rule = fields.String(load_default="")
    cate = fields.Integer(strict=True, load_default=1)


class EventSchema(Schema):
    """An event of another engine: what is searched is checked, the rest is kept as it comes."""

    class Meta:
        unknown = INCLUDE

    hash = fields.String(required=True, validate=validate.Length(1, 64))
    rule_id = fields.Integer(strict=True, required=True, validate=validate.Range(1))
    datasource_id = fields.Integer(strict=True, load_default=0)
    group_id = fields.Integer(strict=True, load_default=0)
    severity = fields.Integer(strict=True, load_default=0)
    trigger_time = fields.Integer(strict=True, load_default=0)
    last_eval_time = fields.Integer(strict=True, load_default=0)
    last_sent_time = fields.Integer(strict=True, load_default=0)
    notify_cur_number = fields.Integer(strict=True, load_default=0)
    cate = fields.String(load_default="", validate=validate.Length(max=128))
    rule_prod = fields.String(load_default="", validate=validate.Length(max=255))
    rule_name = fields.String(load_default="")
    is_recovered = fields.Boolean(load_default=False, truthy={True}, falsy={False})
    tags = fields.List(fields.String(), load_default=list)
    annotations = fields.Dict(keys=fields.String(), values=fields.String(), load_default=dict)
    notify_rule_ids = fields.List(fields.Integer(strict=True), load_default=list, allow_none=True)
