"""What the datasource endpoints accept."""

from __future__ import annotations

from marshmallow import ValidationError, fields, validate

from tocsin.http.schemas import INT32, Loose, Whole, integer, text

COUNT = validate.Range(min=0, max=(1 << 63) - 1)


class TlsSchema(Loose):
    """``http.tls``."""

    skip_tls_verify = fields.Boolean(load_default=False)
    ca_cert = text(65535)
    client_cert = text(65535)
    client_key = text(65535)
    client_key_password = text(1024)
    server_name = text(255)
    min_version = text(16)
    max_version = text(16)


class HttpSchema(Loose):
    """``http``: times in milliseconds."""

    timeout = integer(bounds=COUNT)
    dial_timeout = integer(bounds=COUNT)
    max_idle_conns_per_host = integer(bounds=COUNT)
    url = text(4096)
    urls = fields.List(fields.String(), load_default=list)
    headers = fields.Dict(keys=fields.String(), values=fields.String(), load_default=dict)
    tls = fields.Nested(TlsSchema, load_default=dict)


class AuthSchema(Loose):
    """``auth``."""

    basic_auth = fields.Boolean(load_default=False)
    basic_auth_user = text(1024)
    basic_auth_password = text(4096)


class UpsertSchema(Loose):
    """A datasource as created or changed."""

    id = integer(bounds=COUNT)
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
    weight = integer(bounds=INT32)
    force_save = fields.Boolean(load_default=False)


class ListSchema(Loose):
    """Filters of the list."""

    name = text(191)
    plugin_type = text(64)
    category = text(64)


class DescSchema(Loose):
    """One datasource by id."""

    id = Whole(required=True)


class StatusSchema(DescSchema):
    """A new status of one datasource."""

    status = fields.String(required=True, validate=validate.OneOf(("enabled", "disabled")))


class SelectorSchema(Loose):
    """One selector of a rule."""

    match_type = integer()
    op = fields.String(load_default="in", validate=validate.OneOf(("in", "not in")))
    values = fields.List(fields.Raw(), load_default=list)


class SelectSchema(Loose):
    """Selectors to be resolved."""

    datasource_cate = text(64)
    datasource_queries = fields.List(fields.Nested(SelectorSchema), load_default=list)


class DeleteSeriesSchema(Loose):
    """Series of one datasource to be deleted."""

    datasource_id = Whole(required=True)
    match = fields.List(fields.String(validate=validate.Length(min=1)), required=True, validate=validate.Length(min=1))
    start = text(64)
    end = text(64)


SHORTEST_STEP = 0.001


def check_step(value: float) -> None:
    """Refuse steps that no store of metrics can take; 0 lets the service choose."""
    if value and not SHORTEST_STEP <= value <= 1e12:
        raise ValidationError(f"got {value:g}, expected seconds from {SHORTEST_STEP:g}, or 0 to let the service choose")


POINTS = validate.Range(min=0, max=1_000_000)
POSITIVE = validate.Range(min=0, min_inclusive=False, max=1e12)


class RangeQuerySchema(Loose):
    """One range query; times in seconds."""

    query = fields.String(required=True, validate=validate.Length(min=1))
    start = fields.Float(required=True, validate=POSITIVE)
    end = fields.Float(required=True, validate=POSITIVE)
    step = fields.Float(load_default=0.0, validate=check_step)
    max_points = integer(bounds=POINTS)


class RangeBatchSchema(Loose):
    """Range queries to one datasource; ``step`` and ``max_points`` count for queries that name none."""

    datasource_id = Whole(required=True)
    queries = fields.List(fields.Nested(RangeQuerySchema), required=True, validate=validate.Length(max=1000))
    step = fields.Float(load_default=0.0, validate=check_step)
    max_points = integer(bounds=POINTS)


class InstantQuerySchema(Loose):
    """One instant query."""

    query = fields.String(required=True, validate=validate.Length(min=1))
    time = fields.Float(required=True, validate=POSITIVE)


class InstantBatchSchema(Loose):
    """Instant queries to one datasource."""

    datasource_id = Whole(required=True)
    queries = fields.List(fields.Nested(InstantQuerySchema), required=True, validate=validate.Length(max=1000))
