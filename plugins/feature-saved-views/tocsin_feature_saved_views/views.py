"""What can be done with saved views, and who may do it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tocsin.plugin import ApiError, Caller, People, forbidden, invalid, not_found
from tocsin_feature_saved_views.models import Favorite, SavedView

ONLY_ME, TEAMS, EVERYBODY = 0, 1, 2


def visible(caller: Caller, people: People, page: str) -> list[dict[str, Any]]:
    """Return the views of a page that the caller may see: favourites first, the latest change first in each part."""
    teams = people.team_ids(caller)
    favorites = {row.view_id for row in Favorite.select(Favorite.view_id).where(Favorite.user_id == caller.id)}
    rows = SavedView.select().where(SavedView.page == page).order_by(SavedView.update_at.desc(), SavedView.id.desc())
    found = [as_json(row, people, row.id in favorites) for row in rows if _may_see(row, caller, teams)]
    return sorted(found, key=lambda view: not view["is_favorite"])


def _may_see(row: SavedView, caller: Caller, teams: frozenset[int]) -> bool:
    shared = row.public_cate == TEAMS and not teams.isdisjoint(json.loads(row.gids or "[]"))
    return shared or row.create_by == caller.username or row.public_cate == EVERYBODY


def as_json(row: SavedView, people: People, favorite: bool) -> dict[str, Any]:
    """Return a view as clients see it."""
    gids = json.loads(row.gids) if row.gids else None
    stored = row.as_dict()
    filter_text = stored.pop("content")
    nickname = people.nickname(row.update_by)
    return {**stored, "filter": filter_text, "gids": gids, "update_by_nickname": nickname, "is_favorite": favorite}


def add(caller: Caller, given: Mapping[str, Any], now: int) -> int:
    """Store a new view and return its id."""
    page = given["page"].strip()
    if not page:
        raise invalid("saved view page is blank")
    values = _checked(given, page, own_id=0)
    row = SavedView.create(
        page=page, create_at=now, create_by=caller.username, update_at=now, update_by=caller.username, **values
    )
    return int(row.id)


def change(caller: Caller, view_id: int, given: Mapping[str, Any], now: int) -> None:
    """Change a view of the caller's; its page stays."""
    row = _own(caller, view_id)
    values = _checked(given, row.page, own_id=view_id)
    SavedView.update(update_at=now, update_by=caller.username, **values).where(SavedView.id == view_id).execute()


def remove(caller: Caller, view_id: int) -> None:
    """Remove a view of the caller's and everybody's marks on it."""
    _own(caller, view_id)
    Favorite.delete().where(Favorite.view_id == view_id).execute()
    SavedView.delete().where(SavedView.id == view_id).execute()


def mark(caller: Caller, people: People, view_id: int, now: int) -> None:
    """Mark a view the caller may see as a favourite; marking twice is marking once."""
    row = SavedView.get_or_none(SavedView.id == view_id)
    if row is None or not (caller.is_admin or _may_see(row, caller, people.team_ids(caller))):
        raise not_found("saved view not found")
    Favorite.insert(view_id=view_id, user_id=caller.id, create_at=now).on_conflict_ignore().execute()


def unmark(caller: Caller, view_id: int) -> None:
    """Take the caller's mark off a view, if it is there."""
    Favorite.delete().where((Favorite.view_id == view_id) & (Favorite.user_id == caller.id)).execute()


def _own(caller: Caller, view_id: int) -> SavedView:
    row: SavedView | None = SavedView.get_or_none(SavedView.id == view_id)
    if row is None:
        raise not_found("record not found")
    if row.create_by != caller.username and not caller.is_admin:
        raise forbidden()
    return row


def _checked(given: Mapping[str, Any], page: str, *, own_id: int) -> dict[str, Any]:
    name = given["name"].strip()
    if not name:
        raise invalid("saved view name is blank")
    if given["public_cate"] == EVERYBODY:
        same = (SavedView.page == page) & (SavedView.public_cate == EVERYBODY) & (SavedView.name == name)
        if SavedView.select().where(same & (SavedView.id != own_id)).exists():
            raise ApiError("saved view name already exists in this page", "conflict")
    gids = json.dumps(given["gids"]) if given["gids"] else ""
    return {"name": name, "content": given["filter"], "public_cate": given["public_cate"], "gids": gids}
