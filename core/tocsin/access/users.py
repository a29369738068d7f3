"""Users: making, changing, finding and removing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import peewee

from tocsin.access.directory import TEAMS, TOKENS, USERS, Directory, KnownUser, State
from tocsin.access.models import TeamMember, User, UserToken
from tocsin.access.names import (
    check_characters,
    check_email,
    check_length,
    check_name,
    check_phone,
    check_role,
    visible,
)
from tocsin.access.passwords import Passwords
from tocsin.access.points import ADMIN
from tocsin.access.refusals import refused, taken
from tocsin.plugin import ApiError, Caller, forbidden, invalid, not_found
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots

ORDERABLE = frozenset(
    (
        "id",
        "username",
        "nickname",
        "phone",
        "email",
        "create_at",
        "update_at",
        "last_active_time",
        "create_by",
        "belong",
    )
)


@dataclass(frozen=True)
class UserFilter:
    """Which users a list shows; times are Unix seconds and bound ``last_active_time`` when both are set."""

    text: str = ""
    usernames: list[str] = field(default_factory=list)
    phones: list[str] = field(default_factory=list)
    emails: list[str] = field(default_factory=list)
    start: int = 0
    end: int = 0


class Users:
    """Changes users and keeps what refers to them consistent."""

    def __init__(
        self,
        database: Database,
        snapshots: Snapshots,
        directory: Directory,
        passwords: Passwords,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._directory = directory
        self._passwords = passwords
        self._clock = clock

    def require_reach(self, caller: Caller, user_id: int = 0, roles: Iterable[str] = ()) -> None:
        """Raise ``forbidden`` for what is left to administrators: making one, and touching one.

        Otherwise whoever manages users could make themselves one.
        """
        if caller.is_admin:
            return
        known = self._directory.state().users.get(user_id)
        if ADMIN in map(str.strip, roles) or (known is not None and ADMIN in known.roles):
            raise forbidden()

    def create(self, given: Mapping[str, Any], operator: str) -> int:
        """Make a user from ``username``, ``password``, ``roles`` and the profile fields; return the id.

        A missing ``password`` key makes a user without a local password; ``belong`` names the provider of such a user.
        """
        username = check_name("Username", given["username"], 64)
        password = given.get("password")
        hashed = "" if password is None else self._passwords.hash(self._passwords.checked(password))
        now = int(self._clock())
        row = {
            **_profile(given, ("nickname", "phone", "email", "portrait", "contacts")),
            "roles": joined_roles(given["roles"]),
            "username": username,
            "password": hashed,
            "belong": given.get("belong", ""),
        }
        stamps = {"create_at": now, "update_at": now, "create_by": operator, "update_by": operator}
        try:
            with self._database.atomic():
                made = User.create(**row, **stamps)
                self._snapshots.bump(USERS)
        except peewee.IntegrityError:
            raise taken("Username already exists") from None
        return int(made.id)

    def provide(self, username: str, roles: Iterable[str], operator: str, belong: str = "") -> KnownUser:
        """Return the user called ``username``, made without a local password when there is none."""
        known = self._directory.state().users_by_name.get(username)
        if known is not None:
            return known
        given = {"username": username, "nickname": username, "roles": list(roles), "belong": belong}
        try:
            self.create(given, operator)
        except ApiError as error:
            if error.code != "conflict":  # a conflict: another request made the same user meanwhile
                raise
        found = self._directory.state().users_by_name.get(username)
        if found is None:
            raise taken("Username already exists")
        return found

    def update(self, user_id: int, given: Mapping[str, Any], operator: str) -> None:
        """Write those of nickname, phone, email, portrait, contacts and roles that ``given`` carries."""
        change = _profile(given, [name for name in PROFILE if name in given])
        if "roles" in given:
            change["roles"] = joined_roles(given["roles"])
        with self._database.atomic():
            self._snapshots.bump(USERS)  # first: of two administrators who demote each other one must wait
            row = self._row(user_id)
            if "roles" in given and ADMIN not in change["roles"].split():
                self._keep_an_admin(row, "Cannot take the role Admin from the last admin user")
            User.update(**change, **self._stamp(operator)).where(User.id == user_id).execute()

    def set_password(self, user_id: int, password: str, operator: str) -> None:
        """Give a user a new local password; running sessions go on."""
        self._row(user_id)
        self._write_password(user_id, self._passwords.hash(self._passwords.checked(password)), operator)

    def change_password(self, user_id: int, old: str, new: str) -> None:
        """Replace a user's own password after checking the old one."""
        row = self._row(user_id)
        if not row.password:
            raise refused(f"SSO user({row.username}) cannot change password locally, ask an administrator to set one")
        if not self._passwords.verify(row.password, old):
            raise refused("Incorrect old password")
        self._write_password(user_id, self._passwords.hash(self._passwords.checked(new, "newpass")), row.username)

    def delete(self, user_id: int) -> None:
        """Remove a user with memberships and tokens; an unknown id is fine, the last administrator stays."""
        with self._database.atomic():
            self._snapshots.bump(USERS, TEAMS, TOKENS)  # first: it makes a second removal wait for this one
            row = User.get_or_none(User.id == user_id)
            if row is None:
                return
            self._keep_an_admin(row, "Cannot delete the last admin user")
            UserToken.delete().where(UserToken.username == row.username).execute()
            TeamMember.delete().where(TeamMember.user_id == user_id).execute()
            User.delete().where(User.id == user_id).execute()

    def profile(self, user_id: int) -> dict[str, Any]:
        """Return a user for the API."""
        return user_json(self._row(user_id))

    def all(self) -> list[dict[str, Any]]:
        """Return every user, by user name."""
        return [user_json(row) for row in User.select().order_by(User.username)]

    def find(
        self, wanted: UserFilter, *, limit: int, offset: int, order: str = "username", descending: bool = False
    ) -> tuple[list[dict[str, Any]], int]:
        """Return a page of users with their teams and groups, and how many match.

        The total does not regard the exact lists of names, phones and e-mails.
        """
        condition = _condition(wanted)
        total = User.select().where(condition).count()
        for column, values in (
            (User.username, wanted.usernames),
            (User.phone, wanted.phones),
            (User.email, wanted.emails),
        ):
            if values:
                condition &= column.in_(values)
        key = getattr(User, order if order in ORDERABLE else "username")
        rows = User.select().where(condition).order_by(key.desc() if descending else key, User.id)
        state = self._directory.state()
        return [_with_places(user_json(row), state) for row in rows.limit(limit).offset(offset)], total

    def install_date(self) -> int:
        """Return when ``root`` was made, Unix seconds; 0 without root."""
        row = User.get_or_none(User.username == "root")
        return int(row.create_at) if row else 0

    def _row(self, user_id: int) -> User:
        row = User.get_or_none(User.id == user_id)
        if row is None:
            raise not_found("No such user")
        return row

    def _write_password(self, user_id: int, hashed: str, operator: str) -> None:
        with self._database.atomic():
            User.update(password=hashed, **self._stamp(operator)).where(User.id == user_id).execute()

    def _stamp(self, operator: str) -> dict[str, Any]:
        return {"update_at": int(self._clock()), "update_by": operator}

    @staticmethod
    def _keep_an_admin(row: User, message: str) -> None:
        """Refuse a change that would leave no administrator."""
        if ADMIN not in row.roles.split():
            return
        others: Any = User.select(User.roles).where((User.id != row.id) & User.roles.contains(ADMIN)).tuples()
        if not any(ADMIN in roles.split() for (roles,) in others):
            raise invalid(message)


PROFILE: tuple[str, ...] = ("nickname", "phone", "email", "portrait", "contacts")
"""Fields that people may change on their own profile."""


def _profile(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return checked column values of the profile fields called ``names``; missing ones become empty."""
    checks: dict[str, Callable[[Any], Any]] = {
        "nickname": lambda v: check_characters("Nickname", check_length("Nickname", v, 64)),
        "phone": check_phone,
        "email": check_email,
        "portrait": lambda v: check_length("Portrait", v, 255),
        "contacts": lambda v: orjson.dumps({key: visible(text) for key, text in v.items()}).decode(),
    }
    return {name: checks[name](given.get(name) or ({} if name == "contacts" else "")) for name in names}


def joined_roles(roles: Iterable[str]) -> str:
    """Return role names as they are stored; raise ``invalid`` without any."""
    names = list(dict.fromkeys(check_role(role) for role in roles))
    if not names:
        raise invalid("roles empty")
    return check_length("Roles", " ".join(names), 255)


def _condition(wanted: UserFilter) -> Any:
    condition: Any = User.id > 0
    if wanted.text:
        text = wanted.text
        condition &= (
            User.username.contains(text)
            | User.nickname.contains(text)
            | User.phone.contains(text)
            | User.email.contains(text)
        )
    if wanted.start and wanted.end:
        condition &= User.last_active_time.between(wanted.start, wanted.end)
    return condition


def _with_places(user: dict[str, Any], state: State) -> dict[str, Any]:
    """Return a user with the names of their teams and of the business groups these reach."""
    known = state.users.get(user["id"])
    rights = state.rights(known) if known else None
    teams = [state.teams[i] for i in rights.teams if i in state.teams] if rights else []
    groups = [state.groups[i] for i in rights.readable if i in state.groups] if rights else []
    user["user_groups"] = [{"id": t.id, "name": t.name} for t in sorted(teams, key=lambda t: t.name)]
    user["busi_groups"] = [{"id": g.id, "name": g.name} for g in sorted(groups, key=lambda g: g.name)]
    return user


def user_json(row: User) -> dict[str, Any]:
    """Return a user for the API; the password is no part of it."""
    value = row.as_dict()
    del value["password"]
    roles = row.roles.split()
    return {
        **value,
        "roles": roles,
        "contacts": orjson.loads(row.contacts or "{}"),
        "admin": ADMIN in roles,
        "user_groups": None,
        "busi_groups": None,
    }
