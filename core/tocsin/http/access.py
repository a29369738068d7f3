"""Who may call a route: requirements that a route row states and the middleware chain is derived from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

TOKEN_MODE = "tocsin.token_mode"  # noqa: S105 - the name of an environ key
"""WSGI environ key of calls from within the process: they carry the caller's own credentials, so that behind an
authenticating proxy, too, these count and not the proxy's header.  No client can set it."""


class Need(Enum):
    """One requirement on the caller of a route."""

    ANONYMOUS = "anonymous"
    LOGIN = "login"
    ADMIN = "admin"
    POINT = "permission point"
    GROUP_READ = "business-group read"
    GROUP_WRITE = "business-group write"
    TEAM_WRITE = "team write"
    SERVICE = "service basic auth"
    AGENT = "agent basic auth"
    LOCAL = "local only"


@dataclass(frozen=True)
class Access:
    """Requirements that must all hold, in the order in which they are checked."""

    needs: tuple[tuple[Need, str], ...]

    def __and__(self, other: Access) -> Access:
        return Access(self.needs + tuple(n for n in other.needs if n not in self.needs))

    def __str__(self) -> str:
        return " + ".join(f"{need.value} {arg}" if need is Need.POINT else need.value for need, arg in self.needs)

    @property
    def point(self) -> str:
        """The permission point this access asks for, or an empty text."""
        return next((arg for need, arg in self.needs if need is Need.POINT), "")


def perm(point: str) -> Access:
    """Ask for a logged-in caller one of whose roles holds ``point``; Admin passes."""
    return Access(((Need.LOGIN, ""), (Need.POINT, point)))


def group_read(param: str = "id") -> Access:
    """Ask for membership in any team bound to the business group in path parameter ``param``; Admin passes."""
    return Access(((Need.LOGIN, ""), (Need.GROUP_READ, param)))


def group_write(param: str = "id") -> Access:
    """Ask for membership in a team bound with ``rw`` to the business group in path parameter ``param``."""
    return Access(((Need.LOGIN, ""), (Need.GROUP_WRITE, param)))


def team_write(param: str = "id") -> Access:
    """Ask for Admin, the creator or a member of the team in path parameter ``param``."""
    return Access(((Need.LOGIN, ""), (Need.TEAM_WRITE, param)))


ANONYMOUS = Access(((Need.ANONYMOUS, ""),))
LOGIN = Access(((Need.LOGIN, ""),))
ADMIN = Access(((Need.LOGIN, ""), (Need.ADMIN, "")))
SERVICE = Access(((Need.SERVICE, ""),))
AGENT = Access(((Need.AGENT, ""),))
AGENTS_ONLY = "agents only"
COLLECTOR = Access(((Need.AGENT, AGENTS_ONLY),))
"""Like ``AGENT``, but accounts of the service API are not taken."""
LOCAL = Access(((Need.LOCAL, ""),))


@dataclass(frozen=True)
class Caller:
    """The logged-in user of a request."""

    id: int
    username: str
    roles: tuple[str, ...]
    via: str = "jwt"
    """How they proved it: ``jwt``, ``token``, ``proxy`` or ``oauth``."""

    @property
    def is_admin(self) -> bool:
        """Whether the role Admin is among the caller's roles."""
        return "Admin" in self.roles


class Gatekeeper(Protocol):
    """What the HTTP layer asks the access capability; one implementation serves every surface."""

    def identify(self, context: Any) -> Caller | None:
        """Return the caller that the request's credentials prove, or ``None``."""

    def holds(self, caller: Caller, point: str) -> bool:
        """Return whether one of the caller's roles holds the permission point."""

    def in_group(self, caller: Caller, group_id: int, *, write: bool) -> bool:
        """Return whether the caller's teams reach the business group; raise ``not_found`` when there is none."""

    def in_team(self, caller: Caller, team_id: int) -> bool:
        """Return whether the caller may change the team; raise ``not_found`` when there is none."""
