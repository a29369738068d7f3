"""Page API of hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tocsin.plugin import LOGIN, Body, Context, Route, forbidden, invalid, page, perm
from tocsin.targets import conditions, schemas
from tocsin.targets.hosts import Hosts
from tocsin.targets.pulse import Beats, Pulse
from tocsin.targets.views import HostViews

Answer = dict[str, Any]


def wanted_hosts(ctx: Context) -> Any:
    """Return the condition of the query parameter ``gids``, or of what the caller may see without it."""
    group_ids = ctx.query_ids("gids")
    for group_id in group_ids:
        if group_id != conditions.UNGROUPED:
            ctx.require_group(group_id, write=False)
    return conditions.in_groups(group_ids) if group_ids else ctx.core.get(HostViews).visible(ctx.user)


def list_hosts(ctx: Context) -> Answer:
    """List hosts page by page."""
    limit, offset = ctx.page(30)
    condition = wanted_hosts(ctx) & conditions.matching(ctx.query("query")) & conditions.named(ctx.query("hosts"))
    return ctx.core.get(HostViews).page(
        condition,
        order=ctx.query("order", "ident"),
        desc=ctx.query_bool("desc"),
        limit=limit,
        offset=offset,
        downtime=ctx.query_int("downtime", 0),
    )


def host_statistics(ctx: Context) -> Answer:
    """Return numbers about hosts."""
    return ctx.core.get(HostViews).statistics(wanted_hosts(ctx))


def query_hosts(ctx: Context) -> Answer:
    """List the hosts that a host query finds; a caller of the page API gets those they may see."""
    limit = max(ctx.body["limit"], 0)
    offset = (max(ctx.body["p"], 1) - 1) * limit
    if offset >= 1 << 63:
        raise invalid(f"p: got {ctx.body['p']}, expected a page that can exist")
    return ctx.core.get(HostViews).matching(_seen_by(ctx) & conditions.of_queries(ctx.body["queries"]), limit, offset)


def extra_meta(ctx: Context) -> Answer:
    """Return what else a host's collector said about it."""
    ident = ctx.query_required("ident")
    if ctx.caller is not None and not ctx.caller.is_admin:
        groups = ctx.core.get(Hosts).groups_of_host(ident)
        if groups and not any(_reaches(ctx, group, write=False) for group in groups):
            raise forbidden()
    return {"ident": ident, "extend_info": ctx.core.get(Pulse).extended(ident)}


def list_tags(ctx: Context) -> list[str]:
    """List the tags of hosts."""
    names = ctx.query("idents").replace(",", " ").split()
    condition = _seen_by(ctx) & (conditions.of_names(names) if names else conditions.everything())
    return ctx.core.get(HostViews).tags(condition, of_hosts=not ctx.query_bool("ignore_host_tag"))


def see_hosts(ctx: Context) -> None:
    """Write when hosts were seen, and register those that are not known."""
    _writable(ctx, ctx.body["lst"], free_ungrouped=True)
    now = int(ctx.core.clock())
    when = ctx.body["now"] or now
    if not 0 < when <= now + 60:
        raise invalid(f"now: got {when}, expected Unix seconds that are not in the future")
    beats = ctx.core.get(Beats)
    beats.note(ctx.body["lst"], when, "update")
    beats.flush()


def add_tags(ctx: Context) -> dict[str, str]:
    """Give hosts more tags."""
    idents, failures = chosen(ctx)
    return failures | ctx.core.get(Hosts).add_tags(idents, ctx.body["tags"])


def remove_tags(ctx: Context) -> dict[str, str]:
    """Take tags away from hosts."""
    idents, failures = chosen(ctx)
    ctx.core.get(Hosts).remove_tags(idents, ctx.body["tags"])
    return failures


def set_note(ctx: Context) -> dict[str, str]:
    """Write the note of hosts."""
    idents, failures = chosen(ctx)
    ctx.core.get(Hosts).set_note(idents, ctx.body["note"])
    return failures


def change_groups(ctx: Context) -> dict[str, str]:
    """Bind hosts to business groups, or take them out."""
    hosts, groups, action, tags = ctx.core.get(Hosts), ctx.body["bgids"], ctx.body["action"], ctx.body["tags"]
    if action not in ("add", "del", "reset"):
        raise invalid(f"invalid action: got {action!r}, expected add, del or reset")
    idents, failures = hosts.resolve(ctx.body["idents"], ctx.body["host_ips"])
    for group in groups:
        ctx.require_group(group, write=True)
    _writable(ctx, idents, free_ungrouped=True, everywhere=action == "reset")
    if action == "add":
        hosts.bind(idents, groups, tags)
    elif action == "del":
        hosts.unbind(idents, groups)
    else:
        hosts.rebind(idents, groups, tags)
    return failures


def delete_hosts(ctx: Context) -> dict[str, str]:
    """Forget hosts."""
    idents, failures = chosen(ctx)
    ctx.core.get(Hosts).delete(idents)
    return failures


def chosen(ctx: Context) -> tuple[list[str], dict[str, str]]:
    """Return the hosts that the body names, all of which the caller may change, and what of it is unknown."""
    idents, failures = ctx.core.get(Hosts).resolve(ctx.body["idents"], ctx.body["host_ips"])
    _writable(ctx, idents)
    return idents, failures


def _writable(ctx: Context, idents: Sequence[str], *, free_ungrouped: bool = False, everywhere: bool = False) -> None:
    """Refuse a caller of the page API who may not change each of these hosts.

    That takes write access to one of the host's groups, or to all of them with ``everywhere``; a host in no group is
    the administrators' unless ``free_ungrouped`` is set. Callers of the service API may change all.
    """
    if ctx.caller is None or ctx.caller.is_admin:
        return
    bound = ctx.core.get(Hosts).bindings(idents)
    for ident in idents:
        reached = [_reaches(ctx, group, write=True) for group in bound.get(ident, ())]
        if not (free_ungrouped if not reached else all(reached) if everywhere else any(reached)):
            raise forbidden()


def _reaches(ctx: Context, group: int, *, write: bool) -> bool:
    return ctx.core.gatekeeper.in_group(ctx.user, group, write=write)


def _seen_by(ctx: Context) -> Any:
    """Return the condition of what the caller may see; the service API sees all."""
    return conditions.everything() if ctx.caller is None else ctx.core.get(HostViews).visible(ctx.caller)


TAGS = Body(schemas.TagsBody, name="targetTagsForm")
NOTE = Body(schemas.NoteBody, name="targetNoteForm")
HOSTS = Body(schemas.HostsBody, name="identsForm")
QUERY = Body(schemas.HostListBody, name="targetListForm")
SEEN = Body(schemas.SeenBody, name="targetUpdate")


def page_routes() -> Iterable[Route]:
    """Return the rows of the page API."""
    put = perm("/targets/put")
    yield from (
        page.get("/targets", list_hosts, LOGIN),
        page.get("/targets/stats", host_statistics, LOGIN),
        page.post("/target/list", query_hosts, LOGIN, body=QUERY),
        page.get("/target/extra-meta", extra_meta, LOGIN),
        page.get("/targets/tags", list_tags, LOGIN),
        page.post("/target-update", see_hosts, LOGIN, body=SEEN),
        page.post("/targets/tags", add_tags, put, body=TAGS),
        page.delete("/targets/tags", remove_tags, put, body=TAGS),
        page.put("/targets/note", set_note, put, body=NOTE),
        page.put("/targets/bgids", change_groups, put, body=Body(schemas.GroupsBody, name="targetBgidsForm")),
        page.delete("/targets", delete_hosts, perm("/targets/del"), body=HOSTS),
    )
