"""Tells who sent a request and what they may do, for every surface of the service."""

from __future__ import annotations

import logging

from tocsin.access.activity import Activity
from tocsin.access.directory import Directory, KnownCaller, KnownUser, State
from tocsin.access.keys import Keys
from tocsin.access.sessions import Session, Sessions
from tocsin.access.users import Users
from tocsin.app.sections import HttpSettings
from tocsin.http.access import TOKEN_MODE, Caller
from tocsin.http.context import Context
from tocsin.http.errors import ApiError, not_found
from tocsin.http.metrics import Metrics

log = logging.getLogger(__name__)
AGENT_ENTRIES = frozenset(("mcp", "a2a"))
"""First segments of paths whose clients always send a token."""


class AccessGatekeeper:
    """The one implementation of :class:`~tocsin.http.access.Gatekeeper`."""

    def __init__(
        self,
        settings: HttpSettings,
        directory: Directory,
        sessions: Sessions,
        keys: Keys,
        users: Users,
        activity: Activity,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._sessions = sessions
        self._keys = keys
        self._users = users
        self._activity = activity
        self._refused = metrics.counter(
            "svc_center_auth_refused_total", "Requests refused for lack of a valid credential.", ("reason",)
        )
        for reason in ("missing", "token", "session", "proxy"):
            self._refused.labels(reason)

    def identify(self, context: Context) -> Caller | None:
        """Return the caller that the credentials prove, or ``None``.

        A valid personal token wins; an invalid one leaves the decision to the bearer token.  Behind an authenticating
        proxy only its header counts, except where clients always send a token.
        """
        if self._settings.proxy_auth.enable and not _always_token(context):
            caller, reason = self._by_proxy(context), "proxy"
        else:
            caller, reason = self._by_credentials(context)
        if caller is None:
            self._refused.labels(reason).inc()
            return None
        self._activity.user(caller.id)
        return caller

    def session(self, context: Context) -> Session | None:
        """Return the session of the request's bearer token."""
        token = _bearer(context)
        return self._sessions.check(token) if token else None

    def holds(self, caller: Caller, point: str) -> bool:
        """Return whether one of the caller's roles holds the permission point; Admin holds every one."""
        return caller.is_admin or point in self._directory.points(caller)

    def in_group(self, caller: Caller, group_id: int, *, write: bool) -> bool:
        """Return whether the caller's teams reach the business group; raise ``not_found`` when there is none."""
        if group_id not in self._directory.state_of(caller).groups:
            raise not_found("No such BusiGroup")
        if write:
            return group_id in self._directory.writable_group_ids(caller)
        return group_id in self._directory.readable_group_ids(caller)

    def in_team(self, caller: Caller, team_id: int) -> bool:
        """Return whether the caller is Admin, made the team or is in it; raise ``not_found`` when there is none."""
        team = self._directory.state_of(caller).teams.get(team_id)
        if team is None:
            raise not_found("No such UserGroup")
        return caller.is_admin or team.create_by == caller.username or caller.id in team.members

    def _by_credentials(self, context: Context) -> tuple[Caller | None, str]:
        given = self._settings.token_auth
        token = context.request.get_header(given.header) if given.enable else None
        if token:
            caller = self._by_token(token)
            if caller is not None:
                return caller, ""
        bearer = _bearer(context)
        if bearer:
            return self._by_session(bearer), "session"
        return None, "token" if token else "missing"

    def _by_token(self, token: str) -> Caller | None:
        state = self._directory.state()
        found = state.tokens.get(self._keys.token_hash(token))
        user = state.users_by_name.get(found[1]) if found else None
        if found is None or user is None:
            return None
        self._activity.token(found[0])
        return _caller(user, "token", state)

    def _by_session(self, bearer: str) -> Caller | None:
        session = self._sessions.check(bearer)
        if session is None:
            return None
        state = self._directory.state()
        user = state.users.get(session.user_id)
        return _caller(user, "jwt", state) if user and user.username == session.username else None

    def _by_proxy(self, context: Context) -> Caller | None:
        settings = self._settings.proxy_auth
        name = _decoded(context.request.get_header(settings.header) or "").strip()
        if not name:
            return None
        try:
            user = self._users.provide(name, settings.default_roles, "system")
        except ApiError as error:
            log.warning("the proxy sent a user name that cannot be taken: %s", error.message)
            return None
        return _caller(user, "proxy", self._directory.state())


def _caller(user: KnownUser, via: str, state: State) -> Caller:
    return KnownCaller(user.id, user.username, user.roles, via, state)


def _always_token(context: Context) -> bool:
    return TOKEN_MODE in context.request.env or context.route.full_path.split("/")[1] in AGENT_ENTRIES


def _bearer(context: Context) -> str:
    scheme, _, token = (context.request.get_header("Authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _decoded(header: str) -> str:
    """Return a header's text: WSGI hands over bytes as Latin-1, names are UTF-8."""
    try:
        return header.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return header
