"""Collectors' heartbeats, and the service API of hosts."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from marshmallow import ValidationError

from tocsin.access.directory import Directory
from tocsin.alerting.rules import AlertRules
from tocsin.http.access import COLLECTOR
from tocsin.http.schemas import first_fault
from tocsin.plugin import (
    GZIP,
    SERVICE,
    ApiError,
    Body,
    Context,
    DecompressError,
    Raw,
    Route,
    TooLargeError,
    inflate,
    invalid,
    not_found,
    root,
    service,
)
from tocsin.targets import conditions, routes, schemas
from tocsin.targets.heartbeat import Heartbeats
from tocsin.targets.hosts import Hosts
from tocsin.targets.metrics import TargetMetrics
from tocsin.targets.pulse import Beats
from tocsin.targets.rule_hosts import hosts_of_rules
from tocsin.targets.views import HostViews

MAX_BEAT = 8 << 20
"""Largest heartbeat in bytes, before and after decompression."""
_SCHEMA = schemas.HeartbeatBody()


def heartbeat(metrics: TargetMetrics) -> Callable[[Context], Raw]:
    """Return the handler of heartbeats; what it refuses is counted."""

    def handle(ctx: Context) -> Raw:
        try:
            beat, overwrite = _beat(ctx), ctx.query_bool("overwrite_gids")
            ctx.core.get(Heartbeats).take(beat, _remote(ctx), ctx.query("gid"), overwrite=overwrite)
        except ApiError as error:
            metrics.refused.labels(error.code).inc()
            raise
        # Collectors look into `dat` for an upgrade they are to make, so it is there although it says nothing.
        return Raw(orjson.dumps({"dat": None, "err": "", "request_id": ctx.request_id}))

    return handle


def _beat(ctx: Context) -> dict[str, Any]:
    """Return the heartbeat in the body; raise ``invalid`` naming what is wrong with it."""
    body = ctx.raw_body
    if ctx.request.get_header("Content-Encoding") == "gzip":
        try:
            body = inflate(body, MAX_BEAT, GZIP)
        except TooLargeError as error:
            raise ApiError(str(error), "too_large") from None
        except DecompressError as error:
            raise invalid(str(error)) from None
    try:
        beat: dict[str, Any] = _SCHEMA.load(ctx.parsed_json(body))
    except ValidationError as error:
        raise invalid("json body invalid: " + first_fault(error.messages)) from None
    if not beat["hostname"]:
        raise invalid("hostname is required")
    return beat


def _remote(ctx: Context) -> str:
    """Return the address of the host; a front proxy names it, and it is only shown to people."""
    forwarded = (ctx.request.get_header("X-Forwarded-For") or "").partition(",")[0].strip()
    try:
        return str(ipaddress.ip_address(forwarded))
    except ValueError:
        return ctx.remote


def update(ctx: Context) -> None:
    """Treat hosts as seen now: another process saw them."""
    ctx.core.get(Beats).note(ctx.body["lst"], int(ctx.core.clock()), "update")


def all_hosts(ctx: Context) -> list[dict[str, Any]]:
    """List every host as it is stored."""
    return ctx.core.get(HostViews).stored(conditions.everything(), groups=True)


def hosts_of_query(ctx: Context) -> list[dict[str, Any]]:
    """List the hosts that a host query finds."""
    return ctx.core.get(HostViews).stored(conditions.of_queries(ctx.body), groups=False)


def rules_hosts(ctx: Context) -> dict[str, dict[str, list[str]]]:
    """Tell which of an engine's hosts the host rules are about."""
    engine_name = ctx.query("engine_name")
    rules = ctx.core.get(AlertRules).in_groups(None) if ctx.core.has(AlertRules) else []
    found = hosts_of_rules(rules, engine_name)
    return {engine_name: found} if found else {}


def set_group(ctx: Context) -> dict[str, str]:
    """Let hosts be in one group and no other."""
    hosts, group = ctx.core.get(Hosts), ctx.body["bgid"]
    if group and group not in ctx.core.get(Directory).state().groups:
        raise not_found("No such BusiGroup")
    idents, failures = hosts.resolve(ctx.body["idents"], ctx.body["host_ips"])
    hosts.rebind(idents, [group] if group else [])
    return failures


def collector_routes(metrics: TargetMetrics) -> Iterable[Route]:
    """Return the row that collectors use. It stands with the ingest endpoints: what it refuses has an HTTP status."""
    yield root.post("/v1/svc/heartbeat", heartbeat(metrics), COLLECTOR, max_body=MAX_BEAT)


def process_routes() -> Iterable[Route]:
    """Return the row through which other processes name hosts they saw; it is there whatever is switched off."""
    yield service.post("/target-update", update, SERVICE, body=routes.SEEN)


def service_routes(metrics: TargetMetrics) -> Iterable[Route]:
    """Return the rows of the service API."""
    query = Body(schemas.HostQueryBody, many=True, name="models.HostQuery")
    yield from (
        root.post("/v1/svc/center/heartbeat", heartbeat(metrics), SERVICE, max_body=MAX_BEAT),
        service.get("/targets", all_hosts, SERVICE),
        service.get("/target/extra-meta", routes.extra_meta, SERVICE),
        service.post("/target/list", routes.query_hosts, SERVICE, body=routes.QUERY),
        service.get("/targets/tags", routes.list_tags, SERVICE),
        service.post("/targets/tags", routes.add_tags, SERVICE, body=routes.TAGS),
        service.delete("/targets/tags", routes.remove_tags, SERVICE, body=routes.TAGS),
        service.put("/targets/note", routes.set_note, SERVICE, body=routes.NOTE),
        service.put("/targets/bgid", set_group, SERVICE, body=Body(schemas.GroupBody, name="targetBgidForm")),
        service.delete("/targets", routes.delete_hosts, SERVICE, body=routes.HOSTS),
        service.get("/targets-of-alert-rule", rules_hosts, SERVICE),
        service.post("/targets-of-host-query", hosts_of_query, SERVICE, body=query),
    )
