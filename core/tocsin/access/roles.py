"""Roles and the permission points they hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import peewee

from tocsin.access.directory import ROLES, USERS, Directory
from tocsin.access.models import Role, RoleOperation, User
from tocsin.access.names import check_length, check_role
from tocsin.access.points import ADMIN, ALL_POINTS
from tocsin.access.refusals import refused, taken
from tocsin.plugin import Caller
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots

ADMIN_IS_FIXED = "admin role can not be modified"


class Roles:
    """Makes, changes, lists and removes roles; users and points refer to a role by its name."""

    def __init__(self, database: Database, snapshots: Snapshots, directory: Directory) -> None:
        self._database = database
        self._snapshots = snapshots
        self._directory = directory

    def all(self) -> list[dict[str, Any]]:
        """Return every role."""
        return [row.as_dict() for row in Role.select().order_by(Role.id)]

    def create(self, name: str, note: str) -> int:
        """Make a role without points and return its id."""
        try:
            with self._database.atomic():
                row = Role.create(name=check_role(name), note=check_length("Note", note, 255))
                self._snapshots.bump(ROLES)
        except peewee.IntegrityError:
            raise taken("role name already exists") from None
        return int(row.id)

    def update(self, role_id: int, name: str, note: str) -> None:
        """Rename a role or change its note; its points and users follow it."""
        name, note = check_role(name), check_length("Note", note, 255)
        try:
            with self._database.atomic():
                self._snapshots.bump(ROLES, USERS)
                row = self._changeable(role_id)
                if name != row.name:
                    RoleOperation.update(role_name=name).where(RoleOperation.role_name == row.name).execute()
                    self._replace_in_users(row.name, [name])
                Role.update(name=name, note=note).where(Role.id == role_id).execute()
        except peewee.IntegrityError:
            raise taken("role name already exists") from None

    def delete(self, role_id: int) -> None:
        """Remove a role, its points, and its name from every user; an unknown id is fine."""
        with self._database.atomic():
            self._snapshots.bump(ROLES, USERS)
            row = Role.get_or_none(Role.id == role_id)
            if row is None:
                return
            self._changeable(role_id)
            RoleOperation.delete().where(RoleOperation.role_name == row.name).execute()
            self._replace_in_users(row.name, [])
            Role.delete().where(Role.id == role_id).execute()

    def points(self, role_id: int) -> list[str]:
        """Return the points of a role; Admin holds every one."""
        row = self._row(role_id)
        return list(ALL_POINTS) if row.name == ADMIN else sorted(self._directory.state().points_of([row.name]))

    def set_points(self, role_id: int, points: Iterable[str]) -> None:
        """Replace the complete set of a role's points."""
        wanted = {check_length("operation", point, 191) for point in points}
        with self._database.atomic():
            self._snapshots.bump(ROLES)
            row = self._changeable(role_id)
            RoleOperation.delete().where(RoleOperation.role_name == row.name).execute()
            for point in sorted(wanted):
                RoleOperation.create(role_name=row.name, operation=point)

    def points_of_caller(self, caller: Caller) -> list[str]:
        """Return the union of the points of all the caller's roles; Admin holds every one."""
        if caller.is_admin:
            return list(ALL_POINTS)
        return sorted(self._directory.points(caller))

    def points_by_role(self, caller: Caller) -> dict[str, list[str]]:
        """Return the points of each of the caller's roles."""
        state = self._directory.state_of(caller)
        return {role: list(ALL_POINTS) if role == ADMIN else sorted(state.points_of([role])) for role in caller.roles}

    @staticmethod
    def _replace_in_users(old: str, new: list[str]) -> None:
        rows: Any = User.select(User.id, User.roles).where(User.roles.contains(old)).tuples()
        for user_id, roles in list(rows):
            names = roles.split()
            if old in names:
                kept = [n for name in names for n in (new if name == old else [name])]
                User.update(roles=check_length("Roles", " ".join(dict.fromkeys(kept)), 255)).where(
                    User.id == user_id
                ).execute()

    @classmethod
    def _changeable(cls, role_id: int) -> Role:
        row = cls._row(role_id)
        if row.name == ADMIN:
            raise refused(ADMIN_IS_FIXED, "forbidden")
        return row

    @staticmethod
    def _row(role_id: int) -> Role:
        row = Role.get_or_none(Role.id == role_id)
        if row is None:
            raise refused("role not found", "not_found")
        return row
