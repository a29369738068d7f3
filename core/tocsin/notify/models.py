"""Tables of notification rules, channels, message templates, sends under way and their records."""

from __future__ import annotations

import peewee

from tocsin.plugin import Table


class Stamped(Table):
    """A row that remembers who made and changed it, and when (Unix seconds)."""

    create_at = peewee.BigIntegerField(default=0)
    create_by = peewee.CharField(64, default="")
    update_at = peewee.BigIntegerField(default=0)
    update_by = peewee.CharField(64, default="")


class NotifyRuleRow(Stamped):
    """A notification rule.

    ``notify_configs`` and ``extra_config`` are encrypted JSON, since their parameters hold tokens of receivers; the other
    lists are JSON.
    """

    name = peewee.CharField(255, index=True)
    description = peewee.TextField(default="")
    enable = peewee.BooleanField(default=False)
    user_group_ids = peewee.TextField(default="[]")
    pipeline_configs = peewee.TextField(default="null")
    notify_configs = peewee.TextField(default="")
    extra_config = peewee.TextField(default="")

    class Meta:
        table_name = "notify_rule"


class NotifyChannelRow(Stamped):
    """A channel; ``request_config`` is encrypted JSON, ``param_config`` is JSON."""

    name = peewee.CharField(191, unique=True)
    ident = peewee.CharField(128, index=True)
    description = peewee.TextField(default="")
    enable = peewee.BooleanField(default=False)
    param_config = peewee.TextField(default="null")
    request_type = peewee.CharField(64)
    request_config = peewee.TextField(default="")
    weight = peewee.IntegerField(default=0)

    class Meta:
        table_name = "notify_channel"


class MessageTemplateRow(Stamped):
    """A message template; ``content`` is JSON: field name -> Go template."""

    name = peewee.CharField(64)
    ident = peewee.CharField(191, unique=True)
    content = peewee.TextField(default="{}")
    user_group_ids = peewee.TextField(default="[]")
    notify_channel_ident = peewee.CharField(128, default="", index=True)
    private = peewee.IntegerField(default=0)
    weight = peewee.IntegerField(default=0)
    lang = peewee.CharField(32, default="")

    class Meta:
        table_name = "message_template"


class PendingSend(Table):
    """A send that was decided and is not finished: what a restart takes up again.

    ``instance`` is the engine that works on it, ``chain`` what has to leave in order, ``params`` encrypted JSON,
    ``targets`` and ``usernames`` JSON lists of equal meaning, ``body`` the event.  ``record_id`` is the record of earlier
    attempts, 0 when there was none; no attempt is made before ``next_at`` (Unix seconds).
    """

    instance = peewee.CharField(128)
    event_id = peewee.BigIntegerField()
    sub_id = peewee.BigIntegerField(default=0)
    rule_id = peewee.IntegerField()
    channel_id = peewee.IntegerField()
    template_id = peewee.IntegerField(default=0)
    chain = peewee.CharField(64)
    params = peewee.TextField(default="")
    targets = peewee.TextField(default="[]")
    usernames = peewee.TextField(default="[]")
    body = peewee.TextField()
    attempts = peewee.IntegerField(default=0)
    next_at = peewee.DoubleField(default=0.0)
    record_id = peewee.BigIntegerField(default=0)
    created_at = peewee.BigIntegerField()

    class Meta:
        table_name = "notify_pending_send"
        indexes = ((("instance", "id"), False),)


class NotifyRecordRow(Table):
    """What became of one send; ``details`` tells all its attempts."""

    notify_rule_id = peewee.IntegerField(default=0)
    event_id = peewee.BigIntegerField(index=True)
    sub_id = peewee.BigIntegerField(default=0)
    channel = peewee.CharField(255, default="")
    status = peewee.IntegerField()
    target = peewee.TextField(default="")
    usernames = peewee.TextField(default="")
    details = peewee.TextField(default="")
    created_at = peewee.BigIntegerField(index=True)

    class Meta:
        table_name = "notification_record"


TABLES: tuple[type[Table], ...] = (
    NotifyRuleRow,
    NotifyChannelRow,
    MessageTemplateRow,
    PendingSend,
    NotifyRecordRow,
)
