"""The table of datasources."""

from __future__ import annotations

import peewee

from tocsin.plugin import Table


class DatasourceRow(Table):
    """One datasource; the texts of ``settings``, ``http`` and ``auth`` are encrypted JSON, since all may hold secrets."""

    name = peewee.CharField(191, unique=True)
    identifier = peewee.CharField(255, default="", index=True)
    description = peewee.CharField(255, default="")
    plugin_id = peewee.BigIntegerField(default=0)
    plugin_type = peewee.CharField(64, index=True)
    plugin_type_name = peewee.CharField(191, default="")
    category = peewee.CharField(64, default="")
    cluster_name = peewee.CharField(191, default="")
    settings = peewee.TextField()
    http = peewee.TextField()
    auth = peewee.TextField()
    status = peewee.CharField(32, default="enabled")
    is_default = peewee.BooleanField(default=False)
    weight = peewee.IntegerField(default=0)
    created_at = peewee.BigIntegerField()
    created_by = peewee.CharField(64, default="")
    updated_at = peewee.BigIntegerField()
    updated_by = peewee.CharField(64, default="")

    class Meta:
        table_name = "datasource"
