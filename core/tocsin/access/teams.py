"""Teams (user groups) and their members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import peewee

from tocsin.access.directory import GROUPS, TEAMS, Directory
from tocsin.access.models import BusiGroup, BusiGroupMember, Team, TeamMember, User
from tocsin.access.names import check_characters, check_length, check_name
from tocsin.access.refusals import taken
from tocsin.access.users import user_json
from tocsin.plugin import Caller, invalid, not_found
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots


class Teams:
    """Makes, changes, lists and removes teams."""

    def __init__(
        self, database: Database, snapshots: Snapshots, directory: Directory, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._directory = directory
        self._clock = clock

    def visible(self, caller: Caller, text: str, limit: int) -> list[dict[str, Any]]:
        """Return the teams a caller sees, by name: Admin all, others those they are in or made.

        ``text`` is part of the name; for Admin, when no name has it, the user name of a member.
        """
        if not caller.is_admin:
            own = Team.id.in_(list(self._directory.team_ids(caller))) | (Team.create_by == caller.username)
            return self._listed(own & Team.name.contains(text), limit)
        found = self._listed(Team.name.contains(text), limit)
        user = self._directory.state().users_by_name.get(text) if text and not found else None
        if user is not None:
            teams = self._directory.state().rights(user).teams
            found = self._listed(Team.id.in_(list(teams)), limit)
        return found

    def detail(self, team_id: int) -> dict[str, Any]:
        """Return a team with its business groups, and its members."""
        row = self._row(team_id)
        bound = BusiGroupMember.select(BusiGroupMember.busi_group_id).where(BusiGroupMember.user_group_id == team_id)
        groups = BusiGroup.select().where(BusiGroup.id.in_(bound)).order_by(BusiGroup.name)
        team = team_json(row)
        team["busi_groups"] = [{**g.as_dict(), "update_by_nickname": "", "user_groups": None} for g in groups]
        return {"users": self._members(team_id), "user_group": team}

    def with_members(self, ids: list[int]) -> list[dict[str, Any]]:
        """Return teams with their members, all teams when ``ids`` is empty; an unknown id raises ``not_found``."""
        condition = Team.id.in_(ids) if ids else Team.id > 0
        rows = list(Team.select().where(condition).order_by(Team.id))
        if len(rows) < len(set(ids)):
            raise not_found("No such UserGroup")
        return [{**team_json(row), "users": self._members(row.id)} for row in rows]

    def memberships(self) -> list[dict[str, int]]:
        """Return every membership with the key names of the service API."""
        rows: Any = TeamMember.select(TeamMember.group_id, TeamMember.user_id).order_by(TeamMember.id).tuples()
        return [{"GroupId": group, "UserId": user} for group, user in rows]

    def create(self, name: str, note: str, caller: Caller) -> int:
        """Make a team whose first member is the caller; return its id."""
        change = _checked(name, note)
        now = int(self._clock())
        stamps = {"create_at": now, "create_by": caller.username, "update_at": now, "update_by": caller.username}
        try:
            with self._database.atomic():
                row = Team.create(**change, **stamps)
                TeamMember.create(group_id=row.id, user_id=caller.id)
                self._snapshots.bump(TEAMS)
        except peewee.IntegrityError:
            raise taken("UserGroup already exists") from None
        return int(row.id)

    def update(self, team_id: int, name: str, note: str, operator: str) -> None:
        """Overwrite a team's name and note."""
        self._row(team_id)
        try:
            self._write(team_id, _checked(name, note), operator)
        except peewee.IntegrityError:
            raise taken("UserGroup already exists") from None

    def delete(self, team_id: int) -> None:
        """Remove a team with its memberships and its bindings to business groups."""
        with self._database.atomic():
            TeamMember.delete().where(TeamMember.group_id == team_id).execute()
            BusiGroupMember.delete().where(BusiGroupMember.user_group_id == team_id).execute()
            Team.delete().where(Team.id == team_id).execute()
            self._snapshots.bump(TEAMS, GROUPS)

    def add_members(self, team_id: int, user_ids: Iterable[int], operator: str) -> None:
        """Add users to a team; unknown ones and those who are in it already are skipped."""
        wanted = _ids(user_ids)
        with self._database.atomic():
            self._row(team_id)
            known: Any = User.select(User.id).where(User.id.in_(wanted)).tuples()
            for (user_id,) in list(known):
                TeamMember.insert(group_id=team_id, user_id=user_id).on_conflict_ignore().execute()
            self._write(team_id, {}, operator)

    def remove_members(self, team_id: int, user_ids: Iterable[int], operator: str) -> None:
        """Take users out of a team."""
        wanted = _ids(user_ids)
        with self._database.atomic():
            self._row(team_id)
            TeamMember.delete().where((TeamMember.group_id == team_id) & TeamMember.user_id.in_(wanted)).execute()
            self._write(team_id, {}, operator)

    def _write(self, team_id: int, change: dict[str, Any], operator: str) -> None:
        with self._database.atomic():
            stamps = {"update_at": int(self._clock()), "update_by": operator}
            Team.update(**change, **stamps).where(Team.id == team_id).execute()
            self._snapshots.bump(TEAMS)

    def _listed(self, condition: Any, limit: int) -> list[dict[str, Any]]:
        state = self._directory.state()
        found = []
        for row in Team.select().where(condition).order_by(Team.name).limit(limit):
            by = state.users_by_name.get(row.update_by)
            found.append({**team_json(row), "update_by_nickname": by.nickname if by else ""})
        return found

    @staticmethod
    def _members(team_id: int) -> list[dict[str, Any]]:
        members = TeamMember.select(TeamMember.user_id).where(TeamMember.group_id == team_id)
        return [user_json(row) for row in User.select().where(User.id.in_(members)).order_by(User.username)]

    @staticmethod
    def _row(team_id: int) -> Team:
        row = Team.get_or_none(Team.id == team_id)
        if row is None:
            raise not_found("No such UserGroup")
        return row


def _checked(name: str, note: str) -> dict[str, str]:
    note = check_characters("Note", check_length("Note", note, 255))
    return {"name": check_name("Name", name, 128), "note": note}


def _ids(user_ids: Iterable[int]) -> list[int]:
    wanted = list(user_ids)
    if not wanted:
        raise invalid("ids empty")
    return wanted


def team_json(row: Team) -> dict[str, Any]:
    """Return a team for the API."""
    return {**row.as_dict(), "update_by_nickname": "", "users": None, "busi_groups": None}
