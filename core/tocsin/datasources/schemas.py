"""What the datasource endpoints accept."""

from __future__ import annotations

from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, pre_load, validate

INT64 = validate.Range(min=-(1 << 63), max=(1 << 63) - 1)


class Lenient(Schema):
    """A schema that ignores what it does not know and takes null for "not sent"."""

    class Meta:
        unknown = EXCLUDE

    @pre_load
    def drop_nulls(self, data: Any, **_: Any) -> Any:
        """Leave out members that are null."""
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


def text(limit: int, **more: Any) -> fields.String:
    """Return a text field of at most ``limit`` characters that defaults to empty."""
    return fields.String(**{"load_default": "", "validate": validate.Length(max=limit), **more})


def integer(default: int = 0, low: int = -(1 << 63)) -> fields.Integer:
    """Return a 64-bit integer field."""
    return fields.Integer(strict=True, load_default=default, validate=validate.Range(min=low, max=(1 << 63) - 1))


class TlsSchema(Lenient):
    """``http.tls``."""

    skip_tls_verify = fields.Boolean(load_default=False)
    ca_cert = text(65535)
    client_cert = text(65535)
    client_key = text(65535)
    client_key_password = text(1024)
    server_name = text(255)
    min_version = text(16)
    max_version = text(16)


class HttpSchema(Lenient):
    """``http``: times in milliseconds."""

    timeout = integer(low=0)
    dial_timeout = integer(low=0)
    max_idle_conns_per_host = integer(low=0)
    url = text(4096)
    urls = fields.List(fields.String(), load_default=list)
    headers = fields.Dict(keys=fields.String(), values=fields.String(), load_default=dict)
    tls = fields.Nested(TlsSchema, load_default=dict)


class AuthSchema(Lenient):
    """``auth``."""

    basic_auth = fields.Boolean(load_default=False)
    basic_auth_user = text(1024)
    basic_auth_password = text(4096)


class UpsertSchema(Lenient):
    """A datasource as created or changed."""

    id = integer(low=0)
    name = fields.String(required=True, validate=validate.Length(min=1, max=191))
    identifier = text(255)
    description = text(255)
    plugin_id = integer()
    plugin_type = text(64)
    plugin_type_name = text(191)
    category = text(64)
    cluster_name = text(191)
    settings = fields.Dict(keys=fields.String(), load_default=dict)
    http = fields.Nested(HttpSchema, load_default=dict)
    auth = fields.Nested(AuthSchema, load_default=dict)
    is_default = fields.Boolean(load_default=False)
    weight = fields.Integer(strict=True, load_default=0, validate=validate.Range(min=-(1 << 31), max=(1 << 31) - 1))
    force_save = fields.Boolean(load_default=False)


class ListSchema(Lenient):
    """Filters of the list."""

    name = text(191)
    plugin_type = text(64)
    category = text(64)


class DescSchema(Lenient):
    """One datasource by id."""

    id = fields.Integer(strict=True, required=True, validate=INT64)


class StatusSchema(DescSchema):
    """A new status of one datasource."""

    status = fields.String(required=True, validate=validate.OneOf(("enabled", "disabled")))


class SelectorSchema(Lenient):
    """One selector of a rule."""

    match_type = integer()
    op = fields.String(load_default="in", validate=validate.OneOf(("in", "not in")))
    values = fields.List(fields.Raw(), load_default=list)


class SelectSchema(Lenient):
    """Selectors to be resolved."""

    datasource_cate = text(64)
    datasource_queries = fields.List(fields.Nested(SelectorSchema), load_default=list)


class DeleteSeriesSchema(Lenient):
    """Series of one datasource to be deleted."""

    datasource_id = fields.Integer(strict=True, required=True, validate=INT64)
    match = fields.List(fields.String(validate=validate.Length(min=1)), required=True, validate=validate.Length(min=1))
    start = text(64)
    end = text(64)


SHORTEST_STEP = 0.001


def check_step(value: float) -> None:
    """Refuse steps that no store of metrics can take; 0 lets the service choose."""
    if value and not SHORTEST_STEP <= value <= 1e12:
        raise ValidationError(f"got {value:g}, expected seconds from {SHORTEST_STEP:g}, or 0 to let the service choose")


POSITIVE = validate.Range(min=0, min_inclusive=False, max=1e12)


class RangeQuerySchema(Lenient):
    """One range query; times in seconds."""

    query = fields.String(required=True, validate=validate.Length(min=1))
    start = fields.Float(required=True, validate=POSITIVE)
    end = fields.Float(required=True, validate=POSITIVE)
    step = fields.Float(load_default=0.0, validate=check_step)
    max_points = fields.Integer(strict=True, load_default=0, validate=validate.Range(min=0, max=1_000_000))


class RangeBatchSchema(Lenient):
    """Range queries to one datasource; ``step`` and ``max_points`` count for queries that name none."""

    datasource_id = fields.Integer(strict=True, required=True, validate=INT64)
    queries = fields.List(fields.Nested(RangeQuerySchema), required=True, validate=validate.Length(max=1000))
    step = fields.Float(load_default=0.0, validate=check_step)
    max_points = fields.Integer(strict=True, load_default=0, validate=validate.Range(min=0, max=1_000_000))


class InstantQuerySchema(Lenient):
    """One instant query."""

    query = fields.String(required=True, validate=validate.Length(min=1))
    time = fields.Float(required=True, validate=POSITIVE)


class InstantBatchSchema(Lenient):
    """Instant queries to one datasource."""

    datasource_id = fields.Integer(strict=True, required=True, validate=INT64)
    queries = fields.List(fields.Nested(InstantQuerySchema), required=True, validate=validate.Length(max=1000))
