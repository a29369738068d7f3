"""The feature: rows, thin handlers and what comes in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from marshmallow import EXCLUDE, Schema, fields, validate

from tocsin.plugin import LOGIN, Body, Context, Feature, People, Route, create, page
from tocsin_feature_saved_views import views
from tocsin_feature_saved_views.models import Favorite, SavedView


class ViewSchema(Schema):
    """A view as clients send it; computed fields that come along are ignored."""

    class Meta:
        unknown = EXCLUDE

    name = fields.String(load_default="", validate=validate.Length(max=255))
    page = fields.String(load_default="", validate=validate.Length(max=64))
    filter = fields.String(load_default="")
    public_cate = fields.Integer(
        load_default=views.ONLY_ME,
        strict=True,
        validate=validate.OneOf((views.ONLY_ME, views.TEAMS, views.EVERYBODY)),
    )
    gids = fields.List(fields.Integer(strict=True), load_default=None, allow_none=True)


def _now(context: Context) -> int:
    return int(context.core.clock())


def list_views(context: Context) -> Any:
    """Return the views of a page."""
    return views.visible(context.user, context.core.get(People), context.query_required("page"))


def add_view(context: Context) -> Any:
    """Store a new view."""
    with context.core.db.atomic():
        return views.add(context.user, context.body, _now(context))


def change_view(context: Context) -> None:
    """Change a view."""
    with context.core.db.atomic():
        views.change(context.user, context.param_int("id"), context.body, _now(context))


def remove_view(context: Context) -> None:
    """Remove a view."""
    with context.core.db.atomic():
        views.remove(context.user, context.param_int("id"))


def mark_view(context: Context) -> None:
    """Mark a view as a favourite."""
    views.mark(context.user, context.core.get(People), context.param_int("id"), _now(context))


def unmark_view(context: Context) -> None:
    """Take the mark off again."""
    views.unmark(context.user, context.param_int("id"))


class SavedViews(Feature):
    """Filters of list pages, kept under a name."""

    name = "saved-views"
    tables = (SavedView, Favorite)
    migrations = (create(SavedView, Favorite),)

    def routes(self, core: Any) -> Iterable[Route]:
        """Return the rows."""
        yield page.get("/saved-views", list_views, LOGIN)
        yield page.post("/saved-views", add_view, LOGIN, body=Body(ViewSchema))
        yield page.put("/saved-view/:id", change_view, LOGIN, body=Body(ViewSchema))
        yield page.delete("/saved-view/:id", remove_view, LOGIN)
        yield page.post("/saved-view/:id/favorite", mark_view, LOGIN)
        yield page.delete("/saved-view/:id/favorite", unmark_view, LOGIN)
