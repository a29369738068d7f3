"""Who sees which events: members of the business group they belong to, and Admins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.access.directory import Directory
from tocsin.plugin import Caller

ID_DIGITS = 18
"""Decimal digits that always fit into 64 bits."""


def visible_groups(directory: Directory, caller: Caller) -> frozenset[int] | None:
    """Return the business groups whose objects the caller may read; ``None`` means all."""
    return None if caller.is_admin else directory.readable_group_ids(caller)


def own_groups(directory: Directory, caller: Caller) -> frozenset[int]:
    """Return the business groups that the caller's own teams are bound to, for an Admin too."""
    teams = directory.team_ids(caller)
    return frozenset(group.id for group in directory.state().groups.values() if teams & group.teams.keys())


def team_ids(texts: Iterable[str]) -> list[int]:
    """Return the ids among texts that name teams the old way; what is no id is left out."""
    return [int(text) for text in texts if is_id(text)]


def is_id(text: str) -> bool:
    """Return whether a text is an id in decimal digits, as people write it and a database holds it."""
    return text.isascii() and text.isdigit() and len(text) <= ID_DIGITS


def team_objects(directory: Directory, ids: Iterable[int]) -> list[dict[str, Any]]:
    """Return the teams with these ids as they appear in rules and events; unknown ones are left out."""
    known = directory.state().teams
    found = [known[team] for team in ids if team in known]
    return [{"id": team.id, "name": team.name, "note": team.note, "create_by": team.create_by} for team in found]
