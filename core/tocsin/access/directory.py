"""Users, teams, roles and business groups as of now, held in memory: what every request is checked against.

:meth:`Directory.state` costs one small query; the parts that did not change since are the same objects as before.
A :class:`State` is immutable: a request that took one sees one consistent picture to its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tocsin.access.models import BusiGroup, BusiGroupMember, RoleOperation, Team, TeamMember, User, UserToken
from tocsin.plugin import Caller, People
from tocsin.store.snapshots import Snapshots

USERS, TEAMS, ROLES, GROUPS, TOKENS = "users", "teams", "roles", "busi_groups", "tokens"
"""Names of the parts for ``core.snapshots.bump``."""


@dataclass(frozen=True, slots=True)
class KnownUser:
    """A user without anything secret."""

    id: int
    username: str
    nickname: str
    phone: str
    email: str
    roles: tuple[str, ...]
    contacts: Mapping[str, str]
    maintainer: bool

    @property
    def is_admin(self) -> bool:
        """Whether the role Admin is among the roles."""
        return "Admin" in self.roles


@dataclass(frozen=True, slots=True)
class KnownTeam:
    """A team with the ids of its members."""

    id: int
    name: str
    note: str
    create_by: str
    members: frozenset[int]


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A business group with the teams bound to it: team id -> may write."""

    id: int
    name: str
    label_enable: bool
    label_value: str
    teams: Mapping[int, bool]


@dataclass(frozen=True, slots=True)
class Rights:
    """What one user may do: points held, teams, business groups that can be read or written."""

    points: frozenset[str]
    teams: frozenset[int]
    readable: frozenset[int]
    writable: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Users:
    by_id: Mapping[int, KnownUser]
    by_name: Mapping[str, KnownUser]


@dataclass(frozen=True, slots=True)
class _Teams:
    by_id: Mapping[int, KnownTeam]
    of_user: Mapping[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class _Groups:
    by_id: Mapping[int, KnownGroup]
    of_team: Mapping[int, Mapping[int, bool]]


Tokens = Mapping[str, tuple[int, str]]
"""Keyed hash of a personal token -> id of its row and name of its owner."""


@dataclass(frozen=True)
class State:
    """One consistent picture of who exists and who may do what."""

    _users: _Users
    _teams: _Teams
    _points: Mapping[str, frozenset[str]]
    _groups: _Groups
    tokens: Tokens
    _rights: dict[int, Rights] = field(default_factory=dict)

    @property
    def users(self) -> Mapping[int, KnownUser]:
        """Every user by id."""
        return self._users.by_id

    @property
    def users_by_name(self) -> Mapping[str, KnownUser]:
        """Every user by user name."""
        return self._users.by_name

    @property
    def teams(self) -> Mapping[int, KnownTeam]:
        """Every team by id."""
        return self._teams.by_id

    @property
    def groups(self) -> Mapping[int, KnownGroup]:
        """Every business group by id."""
        return self._groups.by_id

    def points_of(self, roles: Iterable[str]) -> frozenset[str]:
        """Return the union of the points that roles hold; Admin stores none."""
        return frozenset[str]().union(*(self._points.get(role, frozenset()) for role in roles))

    def rights(self, user: KnownUser) -> Rights:
        """Return what a user may do; worked out once per user and state."""
        found = self._rights.get(user.id)
        if found is None:
            found = self._rights[user.id] = self._work_out(user)
        return found

    def _work_out(self, user: KnownUser) -> Rights:
        teams = self._teams.of_user.get(user.id, frozenset())
        readable, writable = set(), set()
        for team in teams:
            for group, write in self._groups.of_team.get(team, {}).items():
                readable.add(group)
                if write:
                    writable.add(group)
        return Rights(self.points_of(user.roles), teams, frozenset(readable), frozenset(writable))


@dataclass(frozen=True)
class KnownCaller(Caller):
    """A caller together with the state in which the credentials were checked."""

    state: State | None = field(default=None, compare=False, repr=False)


class Directory(People):
    """The service that answers questions about users, teams and business groups."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._users = snapshots.make("users", (USERS,), _load_users)
        self._teams = snapshots.make("user_groups", (TEAMS,), _load_teams)
        self._points = snapshots.make("role_operations", (ROLES,), _load_points)
        self._groups = snapshots.make("busi_groups", (GROUPS,), _load_groups)
        self._tokens = snapshots.make("user_tokens", (TOKENS,), _load_tokens)
        self._held: State | None = None

    def state(self) -> State:
        """Return the picture as of now."""
        now = self._snapshots.versions()
        fresh = (self._users.at(now), self._teams.at(now), self._points.at(now), self._groups.at(now))
        tokens = self._tokens.at(now)
        held = self._held
        if held is not None:
            same = (held._users, held._teams, held._points, held._groups, held.tokens)
            if all(a is b for a, b in zip(same, (*fresh, tokens), strict=True)):
                return held
        made = State(*fresh, tokens)
        if not self._snapshots.in_transaction():
            self._held = made
        return made

    def state_of(self, caller: Caller) -> State:
        """Return the state a caller was identified in, or the present one for a caller made otherwise."""
        held = caller.state if isinstance(caller, KnownCaller) else None
        return held or self.state()

    def caller(self, username: str, via: str = "service") -> Caller | None:
        """Return a caller who acts as the user called ``username``, or ``None`` when there is no such user."""
        state = self.state()
        user = state.users_by_name.get(username)
        return KnownCaller(user.id, user.username, user.roles, via, state) if user else None

    def users_by_ids(self, ids: Iterable[int]) -> list[KnownUser]:
        """Return the users with these ids, in their order; unknown ids are left out."""
        known = self.state().users
        return [known[i] for i in ids if i in known]

    def members_of_teams(self, ids: Iterable[int]) -> list[KnownUser]:
        """Return the members of any of these teams once each, by user name."""
        state = self.state()
        members = {m for team in ids if team in state.teams for m in state.teams[team].members}
        return sorted((state.users[m] for m in members if m in state.users), key=lambda u: u.username)

    def points(self, caller: Caller) -> frozenset[str]:
        """Return the permission points that the caller's roles hold; Admin stores none and passes every check."""
        return self._rights(caller).points

    def team_ids(self, caller: Caller) -> frozenset[int]:
        """Return the ids of the teams the caller is a member of."""
        return self._rights(caller).teams

    def readable_group_ids(self, caller: Caller) -> frozenset[int]:
        """Return the ids of the business groups the caller may read; Admin gets all."""
        return frozenset(self.state_of(caller).groups) if caller.is_admin else self._rights(caller).readable

    def writable_group_ids(self, caller: Caller) -> frozenset[int]:
        """Return the ids of the business groups the caller may change; Admin gets all."""
        return frozenset(self.state_of(caller).groups) if caller.is_admin else self._rights(caller).writable

    def group_names(self) -> dict[int, str]:
        """Return the name of every business group by id."""
        return {group.id: group.name for group in self.state().groups.values()}

    def nickname(self, username: str) -> str:
        """Return the display name of a user name, or an empty text when there is no such user."""
        user = self.state().users_by_name.get(username)
        return user.nickname if user else ""

    def _rights(self, caller: Caller) -> Rights:
        state = self.state_of(caller)
        user = state.users.get(caller.id)
        return state.rights(user) if user else Rights(frozenset(), frozenset(), frozenset(), frozenset())


def _load_users() -> _Users:
    rows: Any = User.select(
        User.id, User.username, User.nickname, User.phone, User.email, User.roles, User.contacts, User.maintainer
    ).tuples()
    users = [
        KnownUser(uid, name, nick, phone, email, tuple(roles.split()), orjson.loads(contacts or "{}"), bool(maintainer))
        for uid, name, nick, phone, email, roles, contacts, maintainer in rows
    ]
    return _Users({u.id: u for u in users}, {u.username: u for u in users})


def _load_teams() -> _Teams:
    members: dict[int, set[int]] = defaultdict(set)
    of_user: dict[int, set[int]] = defaultdict(set)
    memberships: Any = TeamMember.select(TeamMember.group_id, TeamMember.user_id).tuples()
    for team, user in memberships:
        members[team].add(user)
        of_user[user].add(team)
    rows: Any = Team.select(Team.id, Team.name, Team.note, Team.create_by).tuples()
    teams = {tid: KnownTeam(tid, name, note, create_by, frozenset(members[tid])) for tid, name, note, create_by in rows}
    return _Teams(teams, {user: frozenset(ids) for user, ids in of_user.items()})


def _load_points() -> dict[str, frozenset[str]]:
    points: dict[str, set[str]] = defaultdict(set)
    rows: Any = RoleOperation.select(RoleOperation.role_name, RoleOperation.operation).tuples()
    for role, point in rows:
        points[role].add(point)
    return {role: frozenset(held) for role, held in points.items()}


def _load_groups() -> _Groups:
    teams: dict[int, dict[int, bool]] = defaultdict(dict)
    of_team: dict[int, dict[int, bool]] = defaultdict(dict)
    columns = (BusiGroupMember.busi_group_id, BusiGroupMember.user_group_id, BusiGroupMember.perm_flag)
    bindings: Any = BusiGroupMember.select(*columns).tuples()
    for group, team, flag in bindings:
        teams[group][team] = of_team[team][group] = flag == "rw"
    rows: Any = BusiGroup.select(BusiGroup.id, BusiGroup.name, BusiGroup.label_enable, BusiGroup.label_value).tuples()
    groups = {gid: KnownGroup(gid, name, bool(on), value, dict(teams[gid])) for gid, name, on, value in rows}
    return _Groups(groups, dict(of_team))


def _load_tokens() -> dict[str, tuple[int, str]]:
    rows: Any = UserToken.select(UserToken.token_hash, UserToken.id, UserToken.username).tuples()
    return {token_hash: (token_id, username) for token_hash, token_id, username in rows}
