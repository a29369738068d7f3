"""The two tables of saved views."""

from __future__ import annotations

import peewee

from tocsin.plugin import Table


class SavedView(Table):
    """A filter of a list page; ``gids`` is a JSON array of team ids, ``content`` (column ``filter``) is opaque."""

    name = peewee.CharField(255)
    page = peewee.CharField(64, index=True)
    content = peewee.TextField(default="", column_name="filter")
    public_cate = peewee.IntegerField(default=0)
    gids = peewee.TextField(default="")
    create_at = peewee.BigIntegerField()
    create_by = peewee.CharField(64)
    update_at = peewee.BigIntegerField()
    update_by = peewee.CharField(64)

    class Meta:
        table_name = "saved_view"


class Favorite(Table):
    """One user's mark on one view."""

    view_id = peewee.IntegerField()
    user_id = peewee.IntegerField(index=True)
    create_at = peewee.BigIntegerField()

    class Meta:
        table_name = "user_view_favorite"
        indexes = ((("view_id", "user_id"), True),)
