"""The service API of hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.access.directory import Directory
from tocsin.alerting.rules import AlertRules
from tocsin.plugin import SERVICE, Body, Context, Route, not_found, service
from tocsin.targets import conditions, routes, schemas
from tocsin.targets.hosts import Hosts
from tocsin.targets.pulse import Beats
from tocsin.targets.rule_hosts import hosts_of_rules
from tocsin.targets.views import HostViews


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


def process_routes() -> Iterable[Route]:
    """Return the row through which other processes name hosts they saw; it is there whatever is switched off."""
    yield service.post("/target-update", update, SERVICE, body=routes.SEEN)


def service_routes() -> Iterable[Route]:
    """Return the rows of the service API."""
    query = Body(schemas.HostQueryBody, many=True, name="models.HostQuery")
    yield from (
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
