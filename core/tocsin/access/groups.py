"""Business groups and the teams bound to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import peewee

from tocsin.access.directory import GROUPS, Directory
from tocsin.access.models import BusiGroup, BusiGroupMember, Team
from tocsin.access.names import check_length, check_name
from tocsin.access.neighbours import GroupHooks
from tocsin.access.refusals import refused, taken
from tocsin.access.teams import team_json
from tocsin.plugin import Caller, invalid, not_found
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots


class Groups:
    """Makes, changes, lists and removes business groups."""

    def __init__(
        self,
        database: Database,
        snapshots: Snapshots,
        directory: Directory,
        hooks: GroupHooks,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._directory = directory
        self._hooks = hooks
        self._clock = clock

    def all(self) -> list[dict[str, Any]]:
        """Return every group, by name."""
        return self._listed(BusiGroup.id > 0, None)

    def visible(self, caller: Caller, text: str, limit: int, *, everything: bool = False) -> list[dict[str, Any]]:
        """Return the groups a caller may read whose name has ``text``, by name; Admin and ``everything`` get all."""
        condition = BusiGroup.name.contains(text) if text else BusiGroup.id > 0
        if not (caller.is_admin or everything):
            condition &= BusiGroup.id.in_(list(self._directory.readable_group_ids(caller)))
        return self._listed(condition, limit)

    def of_ids(self, ids: Iterable[int], limit: int) -> list[dict[str, Any]]:
        """Return groups by id, ordered by name."""
        return self._listed(BusiGroup.id.in_(list(ids)), limit)

    def detail(self, group_id: int) -> dict[str, Any]:
        """Return a group with the teams bound to it, ``ro`` first."""
        row = self._row(group_id)
        bindings = list(
            BusiGroupMember.select()
            .where(BusiGroupMember.busi_group_id == group_id)
            .order_by(BusiGroupMember.perm_flag, BusiGroupMember.id)
        )
        teams = {t.id: t for t in Team.select().where(Team.id.in_([b.user_group_id for b in bindings]))}
        bound = [
            {
                "user_group": team_json(teams[b.user_group_id]) if b.user_group_id in teams else None,
                "perm_flag": b.perm_flag,
            }
            for b in bindings
        ]
        return {**group_json(row), "user_groups": bound or None}

    def create(self, given: Mapping[str, Any], members: list[dict[str, Any]], operator: str) -> int:
        """Make a group and bind ``members`` (``user_group_id``, ``perm_flag``) to it; return its id."""
        if not members:
            raise invalid("members empty")
        if not any(member["perm_flag"] == "rw" for member in members):
            raise invalid("At least one team have rw permission")
        change = _checked(given)
        now = int(self._clock())
        stamps = {"create_at": now, "create_by": operator, "update_at": now, "update_by": operator}
        try:
            with self._database.atomic():
                self._snapshots.bump(GROUPS)
                self._check_label(change, 0)
                row = BusiGroup.create(**change, **stamps)
                self._bind(row.id, members)
        except peewee.IntegrityError:
            raise taken("BusiGroup already exists") from None
        return int(row.id)

    def update(self, group_id: int, given: Mapping[str, Any], operator: str) -> None:
        """Overwrite name and label of a group; without a change nothing is written."""
        change = _checked(given)
        row = self._row(group_id)
        if all(getattr(row, name) == value for name, value in change.items()):
            return
        try:
            with self._database.atomic():
                self._snapshots.bump(GROUPS)
                self._check_label(change, group_id)
                self._write(group_id, change, operator)
        except peewee.IntegrityError:
            raise taken("BusiGroup already exists") from None

    def delete(self, group_id: int) -> None:
        """Remove a group that owns nothing any more, with its bindings."""
        with self._database.atomic():
            self._snapshots.bump(GROUPS)
            self._hooks.check_empty(group_id)
            BusiGroupMember.delete().where(BusiGroupMember.busi_group_id == group_id).execute()
            BusiGroup.delete().where(BusiGroup.id == group_id).execute()

    def bind_teams(self, group_id: int, members: list[dict[str, Any]], operator: str) -> None:
        """Bind teams to a group, or change how they are bound."""
        _same_group(group_id, members)
        with self._database.atomic():
            self._snapshots.bump(GROUPS)
            self._row(group_id)
            self._bind(group_id, members)
            self._write(group_id, {}, operator)

    def unbind_teams(self, group_id: int, members: list[dict[str, Any]], operator: str) -> None:
        """Take teams off a group; all or none, and never the last one."""
        _same_group(group_id, members)
        teams = [member["user_group_id"] for member in members]
        of_group = BusiGroupMember.busi_group_id == group_id
        with self._database.atomic():
            self._snapshots.bump(GROUPS)
            self._row(group_id)
            BusiGroupMember.delete().where(of_group & BusiGroupMember.user_group_id.in_(teams)).execute()
            if not BusiGroupMember.select().where(of_group).exists():
                raise refused("the business group must retain at least one team", "conflict")
            self._write(group_id, {}, operator)

    def _bind(self, group_id: int, members: list[dict[str, Any]]) -> None:
        wanted = {member["user_group_id"]: member["perm_flag"] for member in members}
        if Team.select().where(Team.id.in_(list(wanted))).count() < len(wanted):
            raise refused("Some UserGroup id not exists")
        of_group = BusiGroupMember.busi_group_id == group_id
        BusiGroupMember.delete().where(of_group & BusiGroupMember.user_group_id.in_(list(wanted))).execute()
        for team_id, flag in wanted.items():
            BusiGroupMember.create(busi_group_id=group_id, user_group_id=team_id, perm_flag=flag)

    def _check_label(self, change: Mapping[str, Any], group_id: int) -> None:
        """Refuse a label value that another labelled group has: hosts could not be told apart by it."""
        same = (BusiGroup.label_enable == 1) & (BusiGroup.label_value == change["label_value"])
        if change["label_enable"] and BusiGroup.select().where(same & (BusiGroup.id != group_id)).exists():
            raise taken("BusiGroup already exists")

    def _write(self, group_id: int, change: Mapping[str, Any], operator: str) -> None:
        stamps = {"update_at": int(self._clock()), "update_by": operator}
        BusiGroup.update(**change, **stamps).where(BusiGroup.id == group_id).execute()

    def _listed(self, condition: Any, limit: int | None) -> list[dict[str, Any]]:
        users = self._directory.state().users_by_name
        rows = BusiGroup.select().where(condition).order_by(BusiGroup.name).limit(limit)
        return [
            {**group_json(row), "update_by_nickname": users[row.update_by].nickname if row.update_by in users else ""}
            for row in rows
        ]

    @staticmethod
    def _row(group_id: int) -> BusiGroup:
        row = BusiGroup.get_or_none(BusiGroup.id == group_id)
        if row is None:
            raise not_found("No such BusiGroup")
        return row


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    enabled = given["label_enable"]
    value = check_length("label_value", given["label_value"].strip(), 191) if enabled else ""
    if enabled and not value:
        raise refused("label_value: got an empty text, expected a value while label_enable is 1")
    return {"name": check_name("Name", given["name"], 191), "label_enable": enabled, "label_value": value}


def _same_group(group_id: int, members: list[dict[str, Any]]) -> None:
    if any(member["busi_group_id"] != group_id for member in members):
        raise invalid("business group id invalid")


def group_json(row: BusiGroup) -> dict[str, Any]:
    """Return a business group for the API."""
    return {**row.as_dict(), "update_by_nickname": "", "user_groups": None}
