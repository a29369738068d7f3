"""Service API of users, teams, business groups and settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.access import schemas
from tocsin.access.configs import Configs
from tocsin.access.directory import Directory
from tocsin.access.groups import Groups
from tocsin.access.statistics import Statistics
from tocsin.access.teams import Teams
from tocsin.access.tokens import Tokens
from tocsin.access.users import Users
from tocsin.plugin import SERVICE, ApiError, Body, Context, Route, invalid, not_found, service


def list_users(ctx: Context) -> list[dict[str, Any]]:
    """List every user."""
    return ctx.core.get(Users).all()


def create_user(ctx: Context) -> None:
    """Make a user."""
    ctx.core.get(Users).create(ctx.body, ctx.operator)


def change_user(ctx: Context) -> None:
    """Change the fields of a user that the body carries."""
    given = {name: value for name, value in ctx.body.items() if value is not None}
    ctx.core.get(Users).update(ctx.param_int("id"), given, ctx.operator)


def delete_user(ctx: Context) -> None:
    """Remove a user."""
    ctx.core.get(Users).delete(ctx.param_int("id"))


def user_token(ctx: Context) -> dict[str, Any]:
    """Return a user's first personal token, made when there is none."""
    if ctx.body["raw_token"]:
        raise ApiError("oauth is not enabled", "unavailable")
    if not ctx.body["username"]:
        raise invalid("raw_token or username required")
    user = ctx.core.get(Directory).state().users_by_name.get(ctx.body["username"])
    if user is None:
        raise not_found("user not found")
    return ctx.core.get(Tokens).first_of(user.username, "user-token")


def list_teams(ctx: Context) -> list[dict[str, Any]]:
    """List teams with their members."""
    return ctx.core.get(Teams).with_members(ctx.query_ids("ids"))


def list_memberships(ctx: Context) -> list[dict[str, int]]:
    """List who is in which team."""
    return ctx.core.get(Teams).memberships()


def list_groups(ctx: Context) -> list[dict[str, Any]]:
    """List every business group."""
    return ctx.core.get(Groups).all()


def config_row(ctx: Context) -> dict[str, Any] | None:
    """Return one row of the settings."""
    return ctx.core.get(Configs).row(ctx.param_int("id"))


def list_configs(ctx: Context) -> list[dict[str, Any]]:
    """List rows of the settings page by page."""
    limit, offset = ctx.page(10)
    return ctx.core.get(Configs).rows(prefix=ctx.query("prefix"), limit=limit, offset=offset)


def read_config(ctx: Context) -> str:
    """Return a setting."""
    return ctx.core.get(Configs).readable(ctx.query_required("key"))


def all_configs(ctx: Context) -> list[dict[str, Any]]:
    """List every setting of the service."""
    return ctx.core.get(Configs).built_in()


def change_configs(ctx: Context) -> None:
    """Change rows of the settings."""
    ctx.core.get(Configs).update_rows(ctx.body, ctx.operator or "default")


def add_configs(ctx: Context) -> None:
    """Insert rows of the settings."""
    ctx.core.get(Configs).add_rows(ctx.body, ctx.operator or "default")


def delete_configs(ctx: Context) -> None:
    """Delete rows of the settings."""
    ctx.core.get(Configs).delete_rows(ctx.body["ids"])


def statistic(ctx: Context) -> dict[str, int]:
    """Tell how many objects of a kind there are and when the last one changed."""
    return ctx.core.get(Statistics).of(ctx.query("name"))


def service_routes() -> Iterable[Route]:
    """Return the rows of the service API."""
    changes = Body(schemas.ConfigChangeBody, many=True, name="models.Configs")
    additions = Body(schemas.ConfigRowBody, many=True, name="models.Configs")
    yield from (
        service.get("/users", list_users, SERVICE),
        service.post("/users", create_user, SERVICE, body=Body(schemas.UserBody, name="userAddForm")),
        service.put("/user/:id", change_user, SERVICE, body=Body(schemas.UserChangeBody, name="userProfileForm")),
        service.delete("/user/:id", delete_user, SERVICE),
        service.post("/user-token", user_token, SERVICE, body=Body(schemas.UserTokenBody, name="userTokenForm")),
        service.get("/user-groups", list_teams, SERVICE),
        service.get("/user-group-members", list_memberships, SERVICE),
        service.get("/busi-groups", list_groups, SERVICE),
        service.get("/config/:id", config_row, SERVICE),
        service.get("/configs", list_configs, SERVICE),
        service.get("/config", read_config, SERVICE),
        service.get("/all-configs", all_configs, SERVICE),
        service.put("/configs", change_configs, SERVICE, body=changes),
        service.post("/configs", add_configs, SERVICE, body=additions),
        service.delete("/configs", delete_configs, SERVICE, body=Body(schemas.IdsBody, name="idsForm")),
        service.get("/statistic", statistic, SERVICE),
    )
