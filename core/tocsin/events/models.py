"""Tables of alert events.

An event is kept whole as JSON in ``body``; the columns beside it are what is searched, ordered or changed on its own.
"""

from __future__ import annotations

import peewee

from tocsin.store.database import Table


class EventColumns(Table):
    """The columns that active and historical events share."""

    id = peewee.BigIntegerField(primary_key=True)
    hash = peewee.CharField(64)
    rule_id = peewee.IntegerField()
    datasource_id = peewee.IntegerField()
    group_id = peewee.IntegerField()
    severity = peewee.IntegerField()
    cate = peewee.CharField(128)
    rule_prod = peewee.CharField(255)
    rule_name = peewee.TextField()
    tags = peewee.TextField()
    """``key=value`` items joined by ``,,``."""
    trigger_time = peewee.BigIntegerField()
    body = peewee.TextField()


class ActiveEvent(EventColumns):
    """An alert that is firing; ``id`` is that of its newest historical row.

    ``last_anomaly_time`` is 0 while the condition holds, else the time of the last evaluation in which it held.
    """

    notify_cur_number = peewee.IntegerField()
    last_sent_time = peewee.BigIntegerField()
    last_anomaly_time = peewee.BigIntegerField(default=0)

    class Meta:
        table_name = "alert_cur_event"
        indexes = (
            (("hash",), True),
            (("rule_id", "datasource_id"), False),
            (("group_id", "trigger_time"), False),
            (("trigger_time",), False),
        )


class HistoryEvent(EventColumns):
    """One occurrence: a first firing, a repeat, a recovery or a closing."""

    is_recovered = peewee.IntegerField()
    last_eval_time = peewee.BigIntegerField()

    class Meta:
        table_name = "alert_his_event"
        indexes = (
            (("last_eval_time", "id"), False),
            (("group_id", "last_eval_time"), False),
            (("rule_id", "last_eval_time"), False),
            (("hash",), False),
        )


class OutboxEvent(Table):
    """An event that is to be notified and has not been acknowledged; ``id`` is that of its historical row."""

    id = peewee.BigIntegerField(primary_key=True)
    instance = peewee.CharField(128)
    """The engine that wrote it and hands it over as long as it lives."""
    hash = peewee.CharField(64)
    created_at = peewee.BigIntegerField()
    body = peewee.TextField()

    class Meta:
        table_name = "alert_event_outbox"
        indexes = ((("instance", "id"), False),)


class EventSequence(Table):
    """One row: the next free event id.  Taken inside the transaction that uses it, so ids follow commit order."""

    next_id = peewee.BigIntegerField()

    class Meta:
        table_name = "alert_event_sequence"


class AggregationView(Table):
    """A rule that gathers active events into cards; ``cate`` 0 is public, 1 private to user ``create_by``."""

    name = peewee.CharField(128)
    rule = peewee.CharField(2048)
    cate = peewee.IntegerField()
    create_at = peewee.BigIntegerField()
    create_by = peewee.IntegerField()
    update_at = peewee.BigIntegerField()

    class Meta:
        table_name = "alert_aggr_view"
