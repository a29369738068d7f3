"""Page API of logins, users, personal tokens, roles and settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.access import schemas
from tocsin.access.configs import Configs, Site
from tocsin.access.directory import Directory
from tocsin.access.gatekeeper import AccessGatekeeper
from tocsin.access.groups import Groups
from tocsin.access.login import Login
from tocsin.access.points import CATALOGUE
from tocsin.access.roles import Roles
from tocsin.access.sessions import Sessions
from tocsin.access.tokens import Tokens
from tocsin.access.users import UserFilter, Users
from tocsin.http.i18n import translate
from tocsin.plugin import ADMIN, ANONYMOUS, LOGIN, Body, Context, Route, invalid, not_found, page, perm, unauthorized

DAY = 86400


def login(ctx: Context) -> dict[str, Any]:
    """Exchange user name and password for a pair of session tokens."""
    if ctx.core.http.proxy_auth.enable:
        return _proxied(ctx)
    user = ctx.core.get(Login).check(ctx.body["username"], ctx.body["password"])
    return {"user": ctx.core.get(Users).profile(user.id), **ctx.core.get(Sessions).open(user)}


def refresh(ctx: Context) -> dict[str, Any]:
    """Exchange a refresh token for a new pair."""
    if ctx.core.http.proxy_auth.enable:
        return _proxied(ctx)
    return dict(ctx.core.get(Sessions).renew(ctx.body["refresh_token"]))


def _proxied(ctx: Context) -> dict[str, Any]:
    """Answer for a user whom the proxy has already logged in: there is no session of ours."""
    caller = ctx.core.gatekeeper.identify(ctx)
    if caller is None:
        raise unauthorized()
    return {"user": ctx.core.get(Users).profile(caller.id), "access_token": "", "refresh_token": ""}


def logout(ctx: Context) -> str:
    """End the session of the bearer token."""
    if ctx.core.http.proxy_auth.enable:
        raise invalid("logout is not supported when proxy auth is enabled")
    session = ctx.core.get(AccessGatekeeper).session(ctx)
    if session is None or session.user_id != ctx.user.id:
        raise invalid("failed to parse jwt token")
    ctx.core.get(Sessions).close(session)
    return ""


def show_captcha(ctx: Context) -> dict[str, bool]:
    """Tell that the login asks for no captcha."""
    return {"show": False}


def rsa_config(ctx: Context) -> dict[str, Any]:
    """Tell that passwords are sent as they are; protect them with TLS."""
    return {"OpenRSA": False, "RSAPublicKey": ""}


def sso_config(ctx: Context) -> dict[str, str]:
    """Return the display name of each enabled single-sign-on provider."""
    names = ("oidc", "cas", "oauth", "dingTalk", "feishu")
    return {f"{name}DisplayName": "" for name in names}


def perms_by_role(ctx: Context) -> dict[str, list[str]]:
    """Return the caller's permission points by role."""
    return ctx.core.get(Roles).points_by_role(ctx.user)


def own_profile(ctx: Context) -> dict[str, Any]:
    """Return the caller."""
    return ctx.core.get(Users).profile(ctx.user.id)


def change_own_profile(ctx: Context) -> None:
    """Overwrite the caller's profile fields."""
    ctx.core.get(Users).update(ctx.user.id, ctx.body, ctx.operator)


def change_own_password(ctx: Context) -> None:
    """Replace the caller's password."""
    ctx.core.get(Users).change_password(ctx.user.id, ctx.body["oldpass"], ctx.body["newpass"])


def own_perms(ctx: Context) -> list[str]:
    """Return the union of the caller's permission points."""
    return ctx.core.get(Roles).points_of_caller(ctx.user)


def own_tokens(ctx: Context) -> list[dict[str, Any]]:
    """List the caller's tokens, masked."""
    return ctx.core.get(Tokens).of_user(ctx.user.username)


def create_token(ctx: Context) -> dict[str, Any]:
    """Make a token and show it."""
    return ctx.core.get(Tokens).create(ctx.user.username, ctx.body["token_name"])


def reveal_token(ctx: Context) -> dict[str, Any]:
    """Show one of the caller's tokens."""
    return ctx.core.get(Tokens).reveal(ctx.user.username, ctx.param_int("id"))


def delete_token(ctx: Context) -> None:
    """Delete one of the caller's tokens."""
    ctx.core.get(Tokens).delete(ctx.user.username, ctx.param_int("id"))


def list_users(ctx: Context) -> dict[str, Any]:
    """List users page by page."""
    limit, offset = ctx.page()
    found, total = ctx.core.get(Users).find(
        _user_filter(ctx),
        limit=limit,
        offset=offset,
        order=ctx.query("order", "username"),
        descending=ctx.query_bool("desc"),
    )
    return {"list": found, "total": total, "admin": ctx.user.is_admin}


def _user_filter(ctx: Context) -> UserFilter:
    now = int(ctx.core.clock())
    start, end, hours = ctx.query_int("stime", 0), ctx.query_int("etime", 0), ctx.query_int("hours", 0)
    if hours:
        end = now + DAY
        start = min(max(now - hours * 3600, 1), end)
    elif start and not end:
        end = now + DAY
    names, phones, emails = (
        [part for part in ctx.query(key).split(",") if part] for key in ("usernames", "phones", "emails")
    )
    return UserFilter(ctx.query("query"), names, phones, emails, start, end)


def create_user(ctx: Context) -> None:
    """Make a user."""
    users = ctx.core.get(Users)
    users.require_reach(ctx.user, roles=ctx.body["roles"])
    users.create(ctx.body, ctx.operator)


def user_profile(ctx: Context) -> dict[str, Any]:
    """Return a user."""
    return ctx.core.get(Users).profile(ctx.param_int("id"))


def change_user(ctx: Context) -> None:
    """Overwrite a user's profile and roles."""
    users, user_id = ctx.core.get(Users), ctx.param_int("id")
    users.require_reach(ctx.user, user_id, ctx.body["roles"])
    users.update(user_id, ctx.body, ctx.operator)


def reset_password(ctx: Context) -> None:
    """Give a user a new password."""
    users, user_id = ctx.core.get(Users), ctx.param_int("id")
    users.require_reach(ctx.user, user_id)
    users.set_password(user_id, ctx.body["password"], ctx.operator)


def delete_user(ctx: Context) -> None:
    """Remove a user."""
    users, user_id = ctx.core.get(Users), ctx.param_int("id")
    users.require_reach(ctx.user, user_id)
    users.delete(user_id)


def groups_of_user(ctx: Context) -> list[dict[str, Any]]:
    """List the business groups that a user can read."""
    directory, username = ctx.core.get(Directory), ctx.query("username")
    user_id = ctx.query_int("userid", 0)
    if not user_id and not username:
        raise invalid("userid or username required")
    known = directory.state().users.get(user_id) if user_id else directory.state().users_by_name.get(username)
    caller = directory.caller(known.username) if known else None
    if caller is None:
        raise not_found("No such user")
    return ctx.core.get(Groups).visible(caller, "", 10_000)


def install_date(ctx: Context) -> int:
    """Return when the installation was made."""
    return ctx.core.get(Users).install_date()


def list_roles(ctx: Context) -> list[dict[str, Any]]:
    """List roles."""
    return ctx.core.get(Roles).all()


def create_role(ctx: Context) -> None:
    """Make a role."""
    ctx.core.get(Roles).create(ctx.body["name"], ctx.body["note"])


def change_role(ctx: Context) -> None:
    """Rename a role or change its note."""
    ctx.core.get(Roles).update(ctx.body["id"], ctx.body["name"], ctx.body["note"])


def delete_role(ctx: Context) -> None:
    """Remove a role."""
    ctx.core.get(Roles).delete(ctx.param_int("id"))


def role_points(ctx: Context) -> list[str]:
    """List a role's permission points."""
    return ctx.core.get(Roles).points(ctx.param_int("id"))


def set_role_points(ctx: Context) -> None:
    """Replace a role's permission points."""
    ctx.core.get(Roles).set_points(ctx.param_int("id"), ctx.body)


def catalogue(ctx: Context) -> list[dict[str, Any]]:
    """List every permission point in its group, with display texts in the caller's language."""
    return [
        {
            "name": group.name,
            "cname": translate(group.title, ctx.language),
            "ops": [{"name": point, "cname": translate(title, ctx.language)} for point, title in group.points],
        }
        for group in CATALOGUE
    ]


def site_info(ctx: Context) -> str:
    """Return the site information as stored."""
    return ctx.core.get(Site).text()


def read_config(ctx: Context) -> str:
    """Return a setting."""
    return ctx.core.get(Configs).readable(ctx.query_required("key"))


def write_config(ctx: Context) -> None:
    """Write a setting."""
    ctx.core.get(Configs).replace(ctx.body["ckey"], ctx.body["cval"], ctx.operator)


def page_routes() -> Iterable[Route]:
    """Return the rows of logins, users, tokens, roles and settings."""
    yield from (
        page.post("/auth/login", login, ANONYMOUS, body=Body(schemas.LoginBody, name="loginForm")),
        page.post("/auth/refresh", refresh, ANONYMOUS, body=Body(schemas.RefreshBody, name="refreshForm")),
        page.post("/auth/logout", logout, LOGIN),
        page.get("/auth/ifshowcaptcha", show_captcha, ANONYMOUS),
        page.get("/auth/rsa-config", rsa_config, ANONYMOUS),
        page.get("/auth/sso-config", sso_config, ANONYMOUS),
        page.get("/auth/perms", perms_by_role, LOGIN),
        page.get("/self/profile", own_profile, LOGIN),
        page.put(
            "/self/profile", change_own_profile, LOGIN, body=Body(schemas.SelfProfileBody, name="selfProfileForm")
        ),
        page.put("/self/password", change_own_password, LOGIN, body=Body(schemas.OwnPasswordBody, name="passwordForm")),
        page.get("/self/perms", own_perms, LOGIN),
        page.get("/self/token", own_tokens, LOGIN),
        page.post("/self/token", create_token, LOGIN, body=Body(schemas.TokenBody, name="models.UserToken")),
        page.get("/self/token/:id", reveal_token, LOGIN),
        page.delete("/self/token/:id", delete_token, LOGIN),
        page.get("/users", list_users, perm("/users")),
        page.post("/users", create_user, perm("/users/add"), body=Body(schemas.UserBody, name="userAddForm")),
        page.get("/user/:id/profile", user_profile, LOGIN),
        page.put(
            "/user/:id/profile", change_user, perm("/users/put"), body=Body(schemas.ProfileBody, name="userProfileForm")
        ),
        page.put(
            "/user/:id/password",
            reset_password,
            perm("/users/put"),
            body=Body(schemas.PasswordBody, name="passwordForm"),
        ),
        page.delete("/user/:id", delete_user, perm("/users/del")),
        page.get("/user/busi-groups", groups_of_user, ADMIN),
        page.get("/install-date", install_date, LOGIN),
        page.get("/roles", list_roles, LOGIN),
        page.post("/roles", create_role, perm("/roles/add"), body=Body(schemas.RoleBody, name="models.Role")),
        page.put("/roles", change_role, perm("/roles/put"), body=Body(schemas.RoleChangeBody, name="models.Role")),
        page.delete("/role/:id", delete_role, perm("/roles/del")),
        page.get("/role/:id/ops", role_points, perm("/roles")),
        page.put("/role/:id/ops", set_role_points, perm("/roles/put"), body=Body(many=True, name="string", item=str)),
        page.get("/operation", catalogue, LOGIN),
        page.get("/site-info", site_info, ANONYMOUS),
        page.get("/config", read_config, ADMIN),
        page.put("/config", write_config, ADMIN, body=Body(schemas.ConfigBody, name="models.Configs")),
    )
