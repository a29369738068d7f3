"""The settings of a Prometheus datasource; where it is and how it is entered stands in ``http`` and ``auth``."""

from __future__ import annotations

from marshmallow import Schema, fields

TSDB_TYPE = "prometheus.tsdb_type"

SettingsSchema: type[Schema] = Schema.from_dict(
    {
        TSDB_TYPE: fields.String(allow_none=True),
        "write_addr": fields.String(allow_none=True),
        "internal_addr": fields.String(allow_none=True),
    },
    name="PrometheusSettings",
)
