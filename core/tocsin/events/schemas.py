"""Input of the event endpoints."""

from __future__ import annotations

from marshmallow import EXCLUDE, Schema, fields


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
