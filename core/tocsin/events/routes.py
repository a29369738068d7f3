"""The event endpoints."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tocsin.access.directory import Directory
from tocsin.events import cards, search, views
from tocsin.events.audience import is_id, own_groups, team_ids, team_objects
from tocsin.events.audience import visible_groups as readable_groups
from tocsin.events.cleaning import HistoryCleaner
from tocsin.events.form import Event, active_form, history_form
from tocsin.events.neighbours import RuleNames
from tocsin.events.schemas import EventIdsSchema, HistoryDeleteSchema, ViewSchema
from tocsin.events.search import FUTURE, Cursor, EventFilter
from tocsin.http.context import NULL
from tocsin.http.schemas import IdsSchema
from tocsin.plugin import ADMIN, ANONYMOUS, LOGIN, Body, Context, Route, forbidden, invalid, page, perm
from tocsin.template import Limits, Reason, TemplateEngine, TemplateError
from tocsin.template.event import EVENT

TITLE_LIMITS = Limits(source=2048, output=1024, steps=500)
MOST_WORDS = 32


def routes(*, open_details: bool) -> list[Route]:
    """Return the rows of the event endpoints; ``open_details`` lets anyone see single events."""
    detail = ANONYMOUS if open_details else LOGIN
    ids = Body(IdsSchema, name="models.IdsForm")
    view = Body(ViewSchema, name="models.AlertAggrView")
    return [
        page.get("/alert-cur-events/list", list_active, LOGIN),
        page.post("/alert-cur-events/list", list_active, LOGIN, body=Body(EventIdsSchema, optional=True)),
        page.get("/alert-cur-events/card", list_cards, LOGIN),
        page.post("/alert-cur-events/card/details", card_details, LOGIN, body=ids),
        page.get("/alert-cur-events/stats", stats, LOGIN),
        page.get("/alert-cur-event/:eid", get_active, detail),
        page.delete("/alert-cur-events", delete_active, perm("/alert-cur-events/del"), body=ids),
        page.get("/alert-his-events/list", list_history, LOGIN),
        page.get("/alert-his-event/:eid", get_historical, detail),
        page.delete("/alert-his-events", delete_history, ADMIN, body=Body(HistoryDeleteSchema)),
        page.get("/event-tagkeys", tag_keys, LOGIN),
        page.get("/event-tagvalues", tag_values, LOGIN),
        page.get("/alert-aggr-views", list_views, LOGIN),
        page.post("/alert-aggr-views", add_view, LOGIN, body=view),
        page.put("/alert-aggr-views", put_view, LOGIN, body=view),
        page.delete("/alert-aggr-views", delete_views, LOGIN, body=ids),
    ]


def list_active(ctx: Context) -> Any:
    """A page of active events; ids may come in the body, for thousands of them."""
    given = tuple((ctx.body or {}).get("event_ids") or ()) or tuple(ctx.query_ids("event_ids"))
    limit, offset = ctx.page()
    events, total = search.active(
        event_filter(ctx, ids=given, severities=tuple(ctx.query_ids("severity"))), limit, offset
    )
    return {"list": shown_active(ctx, events), "total": total}


def list_cards(ctx: Context) -> Any:
    """Active events gathered by an aggregation view."""
    view = ctx.query_int("view_id", 0)
    if not view:
        raise invalid("query param[view_id] is necessary")
    rule = views.rule_of(view, ctx.user)
    title = template_title(rule) if "{{" in rule else cards.title_rule(rule)
    wanted = event_filter(ctx, severities=tuple(ctx.query_ids("severity")))
    events, _ = search.active(wanted, search.CARD_LIMIT)
    return cards.cards(events, title)


def template_title(rule: str) -> cards.Title:
    """Return the title function of a view whose rule is a template; what fails becomes the title.

    A title that takes too much work fails the request: it would be taken for each of thousands of events.
    """
    engine = TemplateEngine(limits=TITLE_LIMITS)

    def title(event: Event) -> str:
        try:
            return engine.render("card title", rule, EVENT.wrap(event))
        except TemplateError as error:
            if error.reason is Reason.LIMIT:
                raise invalid(f"rule of the view: {error}") from None
            return f"failed to execute card title: {error}"

    return title


def card_details(ctx: Context) -> Any:
    """The active events of a card."""
    ids = tuple(ctx.body["ids"] or ())
    if not ids:
        return NULL
    events, _ = search.active(EventFilter(ids=ids, groups=visible_groups(ctx)), search.CARD_LIMIT)
    return shown_active(ctx, events)


def stats(ctx: Context) -> Any:
    """Numbers of active and recent events."""
    return search.counts(visible_groups(ctx), ctx.core.clock())


def get_active(ctx: Context) -> Any:
    """One active event."""
    return _detailed(ctx, search.one_active(ctx.param_int("eid")))


def get_historical(ctx: Context) -> Any:
    """One historical event, in the form of an active one."""
    return _detailed(ctx, search.one_historical(ctx.param_int("eid")))


def _detailed(ctx: Context, event: Event) -> Any:
    """Return an event that the caller may read, with the names of the notification rules that it goes to."""
    require_read(ctx, event)
    rules = ctx.core.get(RuleNames).names(event["notify_rule_ids"] or ()) if ctx.core.has(RuleNames) else []
    return {**active_form(event), "notify_rules": rules or None}


def delete_active(ctx: Context) -> None:
    """Remove active events of groups the caller may write to; those of a deleted one are for Admins."""
    ids = tuple(ctx.body["ids"] or ())
    if not ids:
        raise invalid("ids empty")
    events, _ = search.active(EventFilter(ids=ids), len(ids))
    writable = ctx.core.get(Directory).writable_group_ids(ctx.user)
    if not ctx.user.is_admin and any(event["group_id"] not in writable | {0} for event in events):
        raise forbidden()
    search.delete_active(event["id"] for event in events)


def list_history(ctx: Context) -> Any:
    """A page of historical events."""
    severity = ctx.query_int("severity", -1)
    wanted = event_filter(ctx, severities=() if severity < 0 else (severity,))
    limit, offset = ctx.page()
    after = Cursor(ctx.query_int("cursor_time", 0), ctx.query_int("cursor_id", 0))
    cursor = after if after.time > 0 and after.id > 0 else None
    events, total = search.history(wanted, ctx.query_int("is_recovered", -1), limit, offset, cursor)
    rows = [history_form(event) for event in events]
    for row in rows:
        row["notify_groups_obj"] = teams_of(ctx, row)
    return {"list": rows, "total": total}


def delete_history(ctx: Context) -> Any:
    """Start removing old history in the background."""
    if ctx.body["timestamp"] <= 0:
        raise invalid(f"timestamp: got {ctx.body['timestamp']}, expected seconds since the epoch")
    before = min(ctx.body["timestamp"], int(ctx.core.clock()))
    ctx.core.get(HistoryCleaner).start(before, tuple(ctx.body["severities"] or ()))
    return "Alert history events deletion started"


def tag_keys(ctx: Context) -> Any:
    """Tag keys of recent active events."""
    return search.tag_keys(visible_groups(ctx), ctx.query_int("bgid", 0), ctx.core.clock())


def tag_values(ctx: Context) -> Any:
    """The most frequent values of one tag among recent active events."""
    key = ctx.query_required("key")
    return search.tag_values(key, visible_groups(ctx), ctx.query_int("bgid", 0), ctx.core.clock())


def list_views(ctx: Context) -> Any:
    """The caller's aggregation views and the public ones."""
    return views.visible(ctx.user)


def add_view(ctx: Context) -> Any:
    """Add a private aggregation view."""
    return views.add(ctx.body, ctx.user, int(ctx.core.clock()))


def put_view(ctx: Context) -> None:
    """Change an aggregation view."""
    views.change(ctx.body, ctx.user, int(ctx.core.clock()))


def delete_views(ctx: Context) -> None:
    """Delete aggregation views."""
    if not ctx.body["ids"]:
        raise invalid("ids empty")
    views.remove(ctx.body["ids"], ctx.user)


def visible_groups(ctx: Context) -> Collection[int] | None:
    """Return the business groups whose events the caller sees, ``None`` for all, as the service API does."""
    if ctx.caller is None:
        return None
    directory = ctx.core.get(Directory)
    if ctx.query_bool("my_groups"):
        return own_groups(directory, ctx.user)
    return readable_groups(directory, ctx.user)


def event_filter(ctx: Context, *, ids: tuple[int, ...] = (), severities: tuple[int, ...] = ()) -> EventFilter:
    """Return the filter of the list parameters that all event lists share."""
    now = int(ctx.core.clock())
    start, end, hours = ctx.query_int("stime", 0), ctx.query_int("etime", 0), ctx.query_int("hours", 0)
    if hours:
        end = now + FUTURE
        start = min(max(now - 3600 * hours, 0), end)
    elif start and not end:
        end = now + FUTURE
    group, groups = ctx.query_int("bgid", 0), visible_groups(ctx)
    if group and groups is not None and group not in groups:
        raise forbidden("business group ID not allowed")
    cates = ctx.query("cate", "$all")
    words = tuple(ctx.query("query").split())
    if len(words) > MOST_WORDS:
        raise invalid(f"query: got {len(words)} words, expected at most {MOST_WORDS}")
    return EventFilter(
        start=start,
        end=end,
        severities=severities,
        words=words,
        prods=_items(ctx.query("prods") or ctx.query("rule_prods")),
        cates=() if cates == "$all" else _items(cates),
        datasource_ids=tuple(int(i) if is_id(i) else 0 for i in ctx.query("datasource_ids").replace(",", " ").split()),
        rule_id=ctx.query_int("rid", 0),
        group_id=group,
        groups=groups,
        ids=ids,
    )


def require_read(ctx: Context, event: Event) -> None:
    """Raise ``forbidden`` unless the caller reaches the event's business group; a deleted one leaves it to Admins.

    Without a login to ask for (``[Center.AnonymousAccess] AlertDetail``) everybody may see the event.
    """
    if ctx.route.access == ANONYMOUS:
        return
    groups = visible_groups(ctx)
    if groups is not None and event["group_id"] not in groups:
        raise forbidden()


def shown_active(ctx: Context, events: list[Event]) -> list[Event]:
    """Return events in active form with their teams."""
    shown = [active_form(event) for event in events]
    for event in shown:
        teams = teams_of(ctx, event)
        if teams:
            event["notify_groups_obj"] = teams
    return shown


def teams_of(ctx: Context, event: Event) -> list[dict[str, Any]]:
    """Return the team objects of an event's legacy ``notify_groups``."""
    wanted = team_ids(event.get("notify_groups", ()))
    return team_objects(ctx.core.get(Directory), wanted) if wanted else []


def _items(text: str) -> tuple[str, ...]:
    return tuple(item for item in text.split(",") if item)
