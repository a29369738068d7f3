"""The event endpoints of the service API, used by engines that run elsewhere and by automation."""

from __future__ import annotations

from typing import Any

from tocsin.events import routes, search
from tocsin.events.audience import is_id
from tocsin.events.form import DEFAULTS, Event, active_form, new_event, tag_map
from tocsin.events.journal import Change, EventJournal, Kind, active_events
from tocsin.events.schemas import EventSchema
from tocsin.plugin import SERVICE, Body, Context, Route, invalid, service


def service_rows() -> list[Route]:
    """Return the rows of the service API."""
    return [
        service.get("/alert-cur-events", routes.list_active, SERVICE),
        service.get("/alert-cur-events-get-by-rid", of_rule, SERVICE),
        service.get("/alert-cur-events-del-by-hash", delete_by_hash, SERVICE),
        service.get("/alert-his-events", routes.list_history, SERVICE),
        service.get("/alert-his-event/:eid", get_historical, SERVICE),
        service.post("/event-persist", persist, SERVICE, body=Body(EventSchema, name="models.AlertCurEvent")),
    ]


def of_rule(ctx: Context) -> Any:
    """The active events of a rule on a datasource, for an engine that takes the rule over."""
    rule, source = ctx.query_required("rid"), ctx.query_required("dsid")
    if not is_id(rule) or not is_id(source):
        raise invalid(f"rid and dsid: got {rule!r} and {source!r}, expected numbers")
    return [active_form(event) for event, _ in active_events(int(rule), int(source))]


def delete_by_hash(ctx: Context) -> None:
    """Remove the active event with a hash."""
    search.delete_by_hash(ctx.query_required("hash"))


def get_historical(ctx: Context) -> Any:
    """One historical event."""
    return active_form(search.one_historical(ctx.param_int("eid")))


def persist(ctx: Context) -> Any:
    """Store an event of an engine that has no database; that engine notifies by itself.  Returns the event's id."""
    event: Event = new_event(**{name: value for name, value in ctx.body.items() if name in DEFAULTS})
    event["tags_map"] = tag_map(event["tags"])
    kind = Kind.RECOVER if event["is_recovered"] else Kind.FIRE
    change = Change(kind, event, search.active_id(event["hash"]), notify=False)
    if ctx.core.get(EventJournal).record([change], int(ctx.core.clock())):
        raise invalid(f"event {event['hash']} was changed by somebody else, try again")
    return event["id"]
