"""Tables of alert rules and of the engine's own memory."""

from __future__ import annotations

import peewee

from tocsin.store.database import Table


class AlertRule(Table):
    """An alert rule: what is searched and stamped in columns, all other fields as JSON in ``body``."""

    group_id = peewee.IntegerField()
    name = peewee.CharField(255)
    cate = peewee.CharField(128)
    prod = peewee.CharField(255)
    disabled = peewee.IntegerField()
    create_at = peewee.BigIntegerField()
    create_by = peewee.CharField(64)
    update_at = peewee.BigIntegerField()
    update_by = peewee.CharField(64)
    body = peewee.TextField()

    class Meta:
        table_name = "alert_rule"
        indexes = ((("group_id", "name"), True),)


class PendingAlert(Table):
    """A condition that holds but has not held for the rule's ``prom_for_duration`` yet."""

    rule_id = peewee.IntegerField()
    datasource_id = peewee.IntegerField()
    hash = peewee.CharField(64)
    first_eval_time = peewee.BigIntegerField()

    class Meta:
        table_name = "alert_pending"
        indexes = ((("hash",), True), (("rule_id", "datasource_id"), False))


class RuleFault(Table):
    """A rule that cannot be evaluated on a datasource, since when, and what was said the first time."""

    rule_id = peewee.IntegerField()
    datasource_id = peewee.IntegerField()
    since = peewee.BigIntegerField()
    error = peewee.TextField()

    class Meta:
        table_name = "alert_rule_fault"
        indexes = ((("rule_id", "datasource_id"), True),)


class EngineBeat(Table):
    """The heartbeat of an engine for one of its datasources (or :data:`~tocsin.alerting.membership.HOST_RULES`)."""

    instance = peewee.CharField(128)
    datasource_id = peewee.BigIntegerField()
    engine_cluster = peewee.CharField(128)
    clock = peewee.BigIntegerField()

    class Meta:
        table_name = "alerting_engines"
        indexes = ((("instance", "engine_cluster", "datasource_id"), True), (("datasource_id", "clock"), False))
