"""Types of the configuration; imported when a configuration is checked, since marshmallow costs time to load."""

from __future__ import annotations

from typing import Any

from marshmallow import INCLUDE, Schema, fields, validate


def _number(highest: int) -> fields.Integer:
    return fields.Integer(strict=True, allow_none=True, validate=validate.Range(min=0, max=highest))


def _texts() -> fields.Dict:
    return fields.Dict(keys=fields.String(), values=fields.String(), allow_none=True)


class _Open(Schema):
    class Meta:
        unknown = INCLUDE


class TlsSchema(_Open):
    """``tls``."""

    skip_verify = fields.Boolean(truthy={True}, falsy={False}, allow_none=True)


class RequestSchema(_Open):
    """``request``."""

    parameters = _texts()
    body = fields.String(allow_none=True)


class HttpRequestSchema(_Open):
    """``http_request_config``; times in milliseconds."""

    url = fields.String()
    method = fields.String()
    headers = _texts()
    proxy = fields.String(allow_none=True)
    timeout = _number(3_600_000)
    concurrency = _number(1000)
    retry_times = _number(1000)
    retry_interval = _number(3_600_000)
    tls = fields.Nested(TlsSchema, allow_none=True)
    request = fields.Nested(RequestSchema, allow_none=True)


class RequestConfigSchema(_Open):
    """``request_config``."""

    http_request_config: Any = fields.Nested(HttpRequestSchema, allow_none=True)
