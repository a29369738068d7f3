"""The endpoints of notification rules, channels, message templates and notification records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.access.directory import Directory
from tocsin.events.audience import visible_groups
from tocsin.events.form import Event
from tocsin.events.search import historical_by_ids, one_historical
from tocsin.http.schemas import IdsSchema
from tocsin.notify import records, schemas
from tocsin.notify.channels import NO_PARAMS, Channels
from tocsin.notify.rules import NotifyRules
from tocsin.notify.templates import MessageTemplates
from tocsin.notify.trials import Trials
from tocsin.plugin import ANONYMOUS, LOGIN, SERVICE, Body, Context, Route, forbidden, invalid, page, perm, service

RULES, CHANNELS, TEMPLATES = "/notification-rules", "/notification-channels", "/notification-templates"
IDS = Body(IdsSchema, name="models.IdsForm")


def page_rows(*, open_records: bool) -> Iterable[Route]:
    """Return the rows of the page API; ``open_records`` lets anyone see what became of an event's notifications."""
    yield from _rule_rows()
    yield from _channel_rows()
    yield from _template_rows()
    yield page.get("/event-notify-records/:eid", list_records, ANONYMOUS if open_records else LOGIN)
    yield page.get("/notification-records/used", records_used, LOGIN)


def _rule_rows() -> Iterable[Route]:
    rule, many = (Body(schemas.NotifyRuleSchema, many=many, name="models.NotifyRule") for many in (False, True))
    yield page.get("/notify-rules", list_rules, perm(RULES))
    yield page.post("/notify-rules", add_rules, perm(f"{RULES}/add"), body=many)
    yield page.delete("/notify-rules", delete_rules, perm(f"{RULES}/del"), body=IDS)
    yield page.get("/notify-rule/:id", get_rule, perm(RULES))
    yield page.put("/notify-rule/:id", put_rule, perm(f"{RULES}/put"), body=rule)
    yield page.post("/notify-rule/test", try_rule, perm(RULES), body=Body(schemas.RuleTestSchema))
    yield page.get("/notify-rule/custom-params", custom_params, perm(RULES))


def _channel_rows() -> Iterable[Route]:
    one, many = (Body(schemas.ChannelSchema, many=many, name="models.NotifyChannelConfig") for many in (False, True))
    yield page.get("/notify-channel-configs", list_channels, perm(CHANNELS))
    yield page.post("/notify-channel-configs", add_channels, perm(f"{CHANNELS}/add"), body=many)
    yield page.delete("/notify-channel-configs", delete_channels, perm(f"{CHANNELS}/del"), body=IDS)
    yield page.get("/notify-channel-config/:id", get_channel, perm(CHANNELS))
    yield page.put("/notify-channel-config/:id", put_channel, perm(f"{CHANNELS}/put"), body=one)
    yield page.get("/notify-channel-config", get_channel_of_ident, LOGIN)
    yield page.get("/notify-channel-config/idents", list_idents, LOGIN)
    yield page.get("/simplified-notify-channel-configs", list_simplified, LOGIN)
    test = Body(schemas.ChannelTestSchema)
    yield page.post("/notify-channel-config/test", try_channel, perm(f"{CHANNELS}/add"), body=test)


def _template_rows() -> Iterable[Route]:
    one, many = (Body(schemas.TemplateSchema, many=many, name="models.MessageTemplate") for many in (False, True))
    yield page.get("/message-templates", list_templates, LOGIN)
    yield page.post("/message-templates", add_templates, perm(f"{TEMPLATES}/add"), body=many)
    yield page.delete("/message-templates", delete_templates, perm(f"{TEMPLATES}/del"), body=IDS)
    yield page.get("/message-template/:id", get_template, perm(TEMPLATES))
    yield page.put("/message-template/:id", put_template, perm(f"{TEMPLATES}/put"), body=one)
    yield page.post("/events-message", preview, LOGIN, body=Body(schemas.PreviewSchema))


def service_rows() -> Iterable[Route]:
    """Return the rows of the service API."""
    many = Body(schemas.RecordSchema, many=True, name="models.NotificationRecord")
    yield service.get("/notify-rules", rules_for_service, SERVICE)
    yield service.get("/notify-channels", channels_for_service, SERVICE)
    yield service.get("/message-templates", templates_for_service, SERVICE)
    yield service.post("/notify-record", add_records, SERVICE, body=many)


def list_rules(ctx: Context) -> Any:
    """Rules of the caller's teams."""
    return ctx.core.get(NotifyRules).visible(ctx.user)


def get_rule(ctx: Context) -> Any:
    """One rule."""
    return ctx.core.get(NotifyRules).readable(ctx.param_int("id"), ctx.user)


def add_rules(ctx: Context) -> Any:
    """Create rules and return them."""
    return ctx.core.get(NotifyRules).create(ctx.body, ctx.user)


def put_rule(ctx: Context) -> None:
    """Replace a rule."""
    ctx.core.get(NotifyRules).update(ctx.param_int("id"), ctx.body, ctx.user)


def delete_rules(ctx: Context) -> None:
    """Delete rules."""
    ctx.core.get(NotifyRules).delete(ctx.body["ids"], ctx.user)


def try_rule(ctx: Context) -> Any:
    """Send now through a route that need not be saved."""
    return ctx.core.get(Trials).rule(ctx.body, lambda ids: readable_events(ctx, ids))


def custom_params(ctx: Context) -> Any:
    """Parameters that the caller's teams already use with a channel."""
    ctx.query_required("notify_channel_id")
    return ctx.core.get(NotifyRules).custom_params(ctx.query_int("notify_channel_id", 0), ctx.user)


def list_channels(ctx: Context) -> Any:
    """All channels."""
    nickname = ctx.core.get(Directory).nickname
    found = ctx.core.get(Channels).all().values()
    return [{**channel.shown(), "update_by_nickname": nickname(channel.update_by)} for channel in found]


def get_channel(ctx: Context) -> Any:
    """One channel."""
    return ctx.core.get(Channels).find(ctx.param_int("id")).shown()


def get_channel_of_ident(ctx: Context) -> Any:
    """The first channel with an ident, without its configuration."""
    found = ctx.core.get(Channels).first_of(ctx.query_required("ident"))
    return {**found.shown(), "param_config": NO_PARAMS, "request_config": {}}


def list_idents(ctx: Context) -> Any:
    """The idents in use."""
    return sorted({channel.ident for channel in ctx.core.get(Channels).all().values()})


def list_simplified(ctx: Context) -> Any:
    """All channels without what is secret."""
    return [channel.simplified() for channel in ctx.core.get(Channels).all().values()]


def add_channels(ctx: Context) -> Any:
    """Create channels and return their ids."""
    return ctx.core.get(Channels).create(ctx.body, ctx.operator)


def put_channel(ctx: Context) -> None:
    """Replace a channel."""
    ctx.core.get(Channels).update(ctx.param_int("id"), ctx.body, ctx.operator)


def delete_channels(ctx: Context) -> None:
    """Delete channels that no rule uses."""
    ctx.core.get(Channels).delete(ctx.body["ids"], ctx.core.get(NotifyRules).using_channels)


def try_channel(ctx: Context) -> Any:
    """Send now through a channel that need not be saved."""
    return ctx.core.get(Trials).channel(ctx.body, lambda ids: readable_events(ctx, ids))


def list_templates(ctx: Context) -> Any:
    """Message templates that the caller may use."""
    idents = [ident for ident in ctx.query("notify_channel_idents").split(",") if ident]
    channel_ids = ctx.query_ids("notify_channel_ids")
    if channel_ids:
        channels = ctx.core.get(Channels).all()
        idents = [channels[channel_id].ident for channel_id in channel_ids if channel_id in channels]
        if not idents:
            return []
    return ctx.core.get(MessageTemplates).visible(ctx.user, idents, stored_language(ctx))


def get_template(ctx: Context) -> Any:
    """One message template."""
    return ctx.core.get(MessageTemplates).readable(ctx.param_int("id"), ctx.user)


def add_templates(ctx: Context) -> Any:
    """Create message templates and return their ids."""
    return ctx.core.get(MessageTemplates).create(ctx.body, ctx.user, stored_language(ctx))


def put_template(ctx: Context) -> None:
    """Replace a message template."""
    ctx.core.get(MessageTemplates).update(ctx.param_int("id"), ctx.body, ctx.user)


def delete_templates(ctx: Context) -> None:
    """Delete message templates that no rule uses."""
    rules = ctx.core.get(NotifyRules)
    ctx.core.get(MessageTemplates).delete(ctx.body["ids"], ctx.user, rules.using_templates)


def preview(ctx: Context) -> Any:
    """A message template rendered with events."""
    return ctx.core.get(Trials).preview(ctx.body, lambda ids: readable_events(ctx, ids))


def list_records(ctx: Context) -> Any:
    """What became of the sends of a historical event."""
    event = one_historical(ctx.param_int("eid"))
    if ctx.route.access != ANONYMOUS:
        groups = visible_groups(ctx.core.get(Directory), ctx.user)
        if groups is not None and event["group_id"] not in groups:
            raise forbidden()
    return records.of_event(event["id"])


def records_used(ctx: Context) -> Any:
    """Whether there is any notification record."""
    return records.used()


def rules_for_service(ctx: Context) -> Any:
    """All enabled rules."""
    return [rule.shown for rule in ctx.core.get(NotifyRules).all().values() if rule.shown["enable"]]


def channels_for_service(ctx: Context) -> Any:
    """Channels by id, name, ident and whether they are enabled (-1: any)."""
    wanted = _asked(ctx)
    enabled = ctx.query_int("enabled", -1)
    if enabled not in (-1, 0, 1):
        raise invalid(f"enabled: got {enabled}, expected -1, 0 or 1")
    shown = (channel.shown() for channel in ctx.core.get(Channels).all().values())
    return [c for c in shown if _fits(c, wanted) and enabled in (-1, int(c["enable"]))]


def templates_for_service(ctx: Context) -> Any:
    """Message templates by id, name and ident."""
    wanted = _asked(ctx)
    return [t for t in ctx.core.get(MessageTemplates).all().values() if _fits(t, wanted)]


def add_records(ctx: Context) -> None:
    """Store the records of another engine."""
    with ctx.core.db.atomic():
        records.add_foreign(ctx.body, int(ctx.core.clock()))


def _asked(ctx: Context) -> dict[str, Any]:
    wanted = {"id": ctx.query_int("id", 0), "name": ctx.query("name"), "ident": ctx.query("ident")}
    return {name: value for name, value in wanted.items() if value}


def _fits(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(value[name] == asked for name, asked in wanted.items())


def stored_language(ctx: Context) -> str:
    """Return the request's language as message templates name it: Chinese is the empty text."""
    return "" if ctx.language.startswith("zh") else ctx.language


def readable_events(ctx: Context, ids: Iterable[int]) -> list[Event]:
    """Return historical events; raise ``forbidden`` for one that the caller may not read."""
    events = historical_by_ids(ids)
    groups = visible_groups(ctx.core.get(Directory), ctx.user)
    if groups is not None and any(event["group_id"] not in groups for event in events):
        raise forbidden()
    return events
