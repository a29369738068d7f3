"""Derives the checks of a route from its row; handlers never check access of their own route."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tocsin.http.access import AGENTS_ONLY, Need
from tocsin.http.context import Context, Guard
from tocsin.http.errors import ApiError, forbidden, invalid, unauthorized
from tocsin.http.schemas import checked

if TYPE_CHECKING:
    from tocsin.http.routes import Body, Route

LOOPBACK = frozenset(("127.0.0.1", "::1", ""))
"""Peers that count as local; a unix socket has no address."""


def guards_of(route: Route) -> tuple[Guard, ...]:
    """Return the checks of a row in the order in which they run."""
    guards = [_GUARDS[need](argument) for need, argument in route.access.needs]
    if route.body is not None:
        guards.append(_body(route.body))
    return tuple(guards)


def _anonymous(_: str) -> Guard:
    return lambda context: None


def _login(_: str) -> Guard:
    def check(context: Context) -> None:
        context.caller = context.core.gatekeeper.identify(context)
        if context.caller is None:
            raise unauthorized()

    return check


def _admin(_: str) -> Guard:
    def check(context: Context) -> None:
        if not context.user.is_admin:
            raise forbidden()

    return check


def _point(point: str) -> Guard:
    def check(context: Context) -> None:
        if not context.user.is_admin and not context.core.gatekeeper.holds(context.user, point):
            raise forbidden()

    return check


def _group(write: bool) -> Callable[[str], Guard]:
    def with_param(param: str) -> Guard:
        return lambda context: context.require_group(context.param_int(param), write=write)

    return with_param


def _team(param: str) -> Guard:
    def check(context: Context) -> None:
        if not context.core.gatekeeper.in_team(context.user, context.param_int(param)):
            raise forbidden()

    return check


def _service(_: str) -> Guard:
    def check(context: Context) -> None:
        context.service_user = basic_auth(context, context.core.http.api_for_service.basic_auth)

    return check


def _agent(which: str) -> Guard:
    def check(context: Context) -> None:
        agents = context.core.http.api_for_agent.basic_auth
        if agents:
            others = {} if which == AGENTS_ONLY else context.core.http.api_for_service.basic_auth
            context.service_user = basic_auth(context, {**others, **agents})

    return check


def _local(_: str) -> Guard:
    def check(context: Context) -> None:
        if context.remote not in LOOPBACK:
            raise forbidden()

    return check


def basic_auth(context: Context, accounts: Mapping[str, str]) -> str:
    """Return the user name of valid basic credentials; raise 401 with a challenge otherwise.

    Every account is compared, in constant time, so that the answer's timing tells nothing about user names.
    """
    scheme, _, encoded = (context.request.get_header("Authorization") or "").partition(" ")
    try:
        given = base64.b64decode(encoded, validate=True) if scheme.lower() == "basic" else b""
    except ValueError:  # no base64, or a header that is not ASCII
        given = b""
    found = ""
    for user, password in accounts.items():
        if hmac.compare_digest(given, f"{user}:{password}".encode()):
            found = user
    if not found:
        challenge = {"WWW-Authenticate": 'Basic realm="Authorization Required"'}
        raise ApiError("", "unauthorized", status=401, headers=challenge)
    return found


def _body(spec: Body) -> Guard:
    schema = spec.schema() if spec.schema else None

    def check(context: Context) -> None:
        if spec.optional and not context.raw_body.strip():
            context.body = [] if spec.many else {}
            return
        context.body = _typed(spec, context.json())
        if schema is not None:
            context.body = checked(schema, context.body, many=spec.many)

    return check


def _typed(spec: Body, value: Any) -> Any:
    """Return a body of the row's type; the error for another one is worded as its compatible clients know it."""
    wanted = f"[]{spec.name}" if spec.many else spec.name
    if not isinstance(value, list if spec.many else dict):
        raise _mismatch(value, wanted)
    if spec.many and spec.schema is None:
        for element in value:
            if type(element) is not spec.item:
                raise _mismatch(element, spec.name)
    return value


def _mismatch(value: Any, wanted: str) -> ApiError:
    names = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    kind = names.get(type(value), "number")
    return invalid(f"json body invalid: json: cannot unmarshal {kind} into Go value of type {wanted}")


_GUARDS: dict[Need, Callable[[str], Guard]] = {
    Need.ANONYMOUS: _anonymous,
    Need.LOGIN: _login,
    Need.ADMIN: _admin,
    Need.POINT: _point,
    Need.GROUP_READ: _group(write=False),
    Need.GROUP_WRITE: _group(write=True),
    Need.TEAM_WRITE: _team,
    Need.SERVICE: _service,
    Need.AGENT: _agent,
    Need.LOCAL: _local,
}
