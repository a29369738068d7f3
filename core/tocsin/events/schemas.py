"""Input of the event endpoints."""

from __future__ import annotations

from marshmallow import INCLUDE, Schema, fields, validate

from tocsin.http.schemas import INT32, Loose, Whole, ids, integer, text, texts, truth


class EventIdsSchema(Loose):
    """The optional body of ``POST /alert-cur-events/list``."""

    event_ids = ids()


class HistoryDeleteSchema(Loose):
    """What ``DELETE /alert-his-events`` removes."""

    timestamp = integer()
    severities = fields.List(Whole(), load_default=list)


class ViewSchema(Loose):
    """An aggregation view."""

    id = integer()
    name = text(128)
    rule = text(2048)
    cate = integer(1, INT32)


class EventSchema(Schema):
    """An event of another engine: what is searched is checked, the rest is kept as it comes."""

    class Meta:
        unknown = INCLUDE

    hash = fields.String(required=True, validate=validate.Length(1, 64))
    rule_id = Whole(validate.Range(1, (1 << 31) - 1), required=True)
    datasource_id = integer(bounds=INT32)
    group_id = integer(bounds=INT32)
    severity = integer(bounds=INT32)
    trigger_time = integer()
    last_eval_time = integer()
    last_sent_time = integer()
    notify_cur_number = integer(bounds=INT32)
    cate = text(128)
    rule_prod = text(255)
    rule_name = text()
    is_recovered = truth()
    tags = texts()
    annotations = fields.Dict(keys=fields.String(), values=fields.String(), load_default=dict)
    notify_rule_ids = fields.List(Whole(), load_default=list, allow_none=True)
