"""Page API of teams and business groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.access import schemas
from tocsin.access.directory import Directory
from tocsin.access.groups import Groups
from tocsin.access.neighbours import ActiveEventCount, HostLookup
from tocsin.access.teams import Teams
from tocsin.plugin import LOGIN, Body, Context, Route, group_read, group_write, invalid, page, perm, team_write


def list_teams(ctx: Context) -> list[dict[str, Any]]:
    """List the teams the caller sees."""
    limit, _ = ctx.page(1500)
    return ctx.core.get(Teams).visible(ctx.user, ctx.query("query"), limit)


def create_team(ctx: Context) -> int:
    """Make a team."""
    return ctx.core.get(Teams).create(ctx.body["name"], ctx.body["note"], ctx.user)


def team_detail(ctx: Context) -> dict[str, Any]:
    """Return a team with its members."""
    return ctx.core.get(Teams).detail(ctx.param_int("id"))


def change_team(ctx: Context) -> None:
    """Overwrite a team's name and note."""
    ctx.core.get(Teams).update(ctx.param_int("id"), ctx.body["name"], ctx.body["note"], ctx.operator)


def delete_team(ctx: Context) -> None:
    """Remove a team."""
    ctx.core.get(Teams).delete(ctx.param_int("id"))


def add_members(ctx: Context) -> None:
    """Add users to a team."""
    ctx.core.get(Teams).add_members(ctx.param_int("id"), ctx.body["ids"], ctx.operator)


def remove_members(ctx: Context) -> None:
    """Take users out of a team."""
    ctx.core.get(Teams).remove_members(ctx.param_int("id"), ctx.body["ids"], ctx.operator)


def list_groups(ctx: Context) -> list[dict[str, Any]]:
    """List the business groups the caller may read; a query that no name has is tried as a host."""
    limit, _ = ctx.page(300)
    groups, text, everything = ctx.core.get(Groups), ctx.query("query"), ctx.query_bool("all")
    found = groups.visible(ctx.user, text, limit, everything=everything)
    if found or not text or not ctx.core.has(HostLookup):
        return found
    of_host = set(ctx.core.get(HostLookup).groups_of_host(text))
    readable = ctx.core.get(Directory).readable_group_ids(ctx.user)
    return groups.of_ids(of_host, limit) if of_host & readable else []


def create_group(ctx: Context) -> int:
    """Make a business group."""
    return ctx.core.get(Groups).create(ctx.body, ctx.body["members"] or [], ctx.operator)


def group_detail(ctx: Context) -> dict[str, Any]:
    """Return a business group with its teams."""
    return ctx.core.get(Groups).detail(ctx.param_int("id"))


def change_group(ctx: Context) -> None:
    """Overwrite a business group's name and label."""
    ctx.core.get(Groups).update(ctx.param_int("id"), ctx.body, ctx.operator)


def delete_group(ctx: Context) -> None:
    """Remove an empty business group."""
    ctx.core.get(Groups).delete(ctx.param_int("id"))


def bind_teams(ctx: Context) -> None:
    """Bind teams to a business group."""
    ctx.core.get(Groups).bind_teams(ctx.param_int("id"), ctx.body, ctx.operator)


def unbind_teams(ctx: Context) -> None:
    """Take teams off a business group."""
    ctx.core.get(Groups).unbind_teams(ctx.param_int("id"), ctx.body, ctx.operator)


def group_permission(ctx: Context) -> bool:
    """Tell whether the caller may read (``ro``) or change (``rw``) a business group."""
    wanted = ctx.params["perm"]
    if wanted not in ("ro", "rw"):
        raise invalid(f"perm: got {wanted!r}, expected 'ro' or 'rw'")
    reaches = ctx.core.gatekeeper.in_group(ctx.user, ctx.param_int("id"), write=wanted == "rw")
    return ctx.user.is_admin or reaches


def host_tags(ctx: Context) -> list[str]:
    """List the tags of the hosts in business groups that the caller may read, the group labels first."""
    if not ctx.core.has(HostLookup):
        return []
    hosts, wanted = ctx.core.get(HostLookup), ctx.query_ids("gids")
    if ctx.user.is_admin:
        tags = (hosts.tags_of_groups(wanted) if wanted else None) or hosts.tags_of_groups(())
    else:
        readable = ctx.core.get(Directory).readable_group_ids(ctx.user)
        wanted = [group for group in wanted or readable if group in readable]
        tags = hosts.tags_of_groups(wanted) if wanted else set()
    return sorted(tags, key=lambda tag: (not tag.startswith("busigroup"), tag))


def active_events(ctx: Context) -> dict[str, int]:
    """Return the number of active events by business group."""
    wanted = ctx.query_ids("ids")
    if not wanted or not ctx.core.has(ActiveEventCount):
        return {}
    counts = ctx.core.get(ActiveEventCount).active_by_group(wanted)
    return {str(group): count for group, count in counts.items()}


def place_routes() -> Iterable[Route]:
    """Return the rows of teams and business groups."""
    team, ids = Body(schemas.TeamBody, name="userGroupForm"), Body(schemas.IdsBody, name="idsForm")
    put_team, put_group = perm("/user-groups/put") & team_write(), perm("/busi-groups/put") & group_write()
    binding = Body(schemas.GroupMemberBody, many=True, name="models.BusiGroupMember")
    unbinding = Body(schemas.GroupUnbindBody, many=True, name="models.BusiGroupMember")
    yield from (
        page.get("/user-groups", list_teams, LOGIN),
        page.post("/user-groups", create_team, perm("/user-groups/add"), body=team),
        page.get("/user-group/:id", team_detail, team_write()),
        page.put("/user-group/:id", change_team, put_team, body=team),
        page.delete("/user-group/:id", delete_team, perm("/user-groups/del") & team_write()),
        page.post("/user-group/:id/members", add_members, put_team, body=ids),
        page.delete("/user-group/:id/members", remove_members, put_team, body=ids),
        page.get("/busi-groups", list_groups, LOGIN),
        page.post(
            "/busi-groups",
            create_group,
            perm("/busi-groups/add"),
            body=Body(schemas.NewGroupBody, name="busiGroupForm"),
        ),
        page.get("/busi-group/:id", group_detail, group_read()),
        page.put("/busi-group/:id", change_group, put_group, body=Body(schemas.GroupBody, name="busiGroupForm")),
        page.delete("/busi-group/:id", delete_group, perm("/busi-groups/del") & group_write()),
        page.post("/busi-group/:id/members", bind_teams, put_group, body=binding),
        page.delete("/busi-group/:id/members", unbind_teams, put_group, body=unbinding),
        page.get("/busi-group/:id/perm/:perm", group_permission, LOGIN),
        page.get("/busi-groups/tags", host_tags, LOGIN),
        page.get("/busi-groups/alertings", active_events, LOGIN),
    )
