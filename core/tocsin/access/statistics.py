"""How many objects of a kind there are and when the last of them changed; other services watch this for changes."""

from __future__ import annotations

from typing import Any

import peewee

from tocsin.plugin import Table, invalid


class Statistics:
    """Counts for ``/v1/svc/statistic``; each capability adds its own tables in its ``setup``."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[type[Table], Any]] = {}

    def add(self, name: str, table: type[Table], condition: Any = None) -> None:
        """Offer the rows of ``table`` (those that meet ``condition``) under ``name``; it needs ``update_at``."""
        self._tables[name] = (table, condition)

    def of(self, name: str) -> dict[str, int]:
        """Return ``Total`` and ``LastUpdated`` (Unix seconds, 0 without rows)."""
        if name not in self._tables:
            raise invalid("invalid name")
        table, condition = self._tables[name]
        query = table.select(peewee.fn.COUNT(table.id), peewee.fn.MAX(table.update_at))  # type: ignore[attr-defined]
        total, latest = (query.where(condition) if condition is not None else query).tuples().first()
        return {"Total": int(total), "LastUpdated": int(latest or 0)}
