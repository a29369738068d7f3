"""Notification records: what became of every send, for the people who ask why nobody came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import peewee

from tocsin.notify.models import NotifyRecordRow
from tocsin.store.database import Database

SUCCESS, FAILURE, SUPPRESSED = 1, 2, 3
UNMASKED = frozenset(("email", "script", "mute"))
"""Channels whose targets hold nothing secret."""
STARRED = 8
LONGEST_DETAILS = 4096
CLEANED_AT_ONCE = 1000
Json = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """The outcome of one send."""

    event_id: int
    status: int
    notify_rule_id: int = 0
    sub_id: int = 0
    channel: str = ""
    target: str = ""
    usernames: str = ""
    details: str = ""

    def with_details(self, earlier: str, line: str) -> Record:
        """Return the record with the line of one more attempt."""
        return replace(self, details="; ".join(part for part in (earlier, line) if part))


def write(record: Record, now: int, record_id: int = 0) -> int:
    """Store a record, or replace the one with ``record_id``, and return its id."""
    row = {name: storable(value) if isinstance(value, str) else value for name, value in asdict(record).items()}
    if record_id and NotifyRecordRow.update(**row).where(NotifyRecordRow.id == record_id).execute():
        return record_id
    return int(NotifyRecordRow.insert(**row, created_at=now).execute())


def storable(text: str) -> str:
    """Return a text from outside as every database takes it: no NUL, nothing that is no Unicode, not without end."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:LONGEST_DETAILS]


def details_of(record_id: int) -> str:
    """Return the details of a record, an empty text when there is none."""
    row = NotifyRecordRow.get_or_none(NotifyRecordRow.id == record_id) if record_id else None
    return str(row.details) if row else ""


def add_foreign(rows: Iterable[Mapping[str, Any]], now: int) -> None:
    """Store the records of another engine."""
    for row in rows:
        NotifyRecordRow.insert(**{**row, "created_at": row["created_at"] or now}).execute()


def of_event(event_id: int) -> Json:
    """Return the records of an event as ``{"sub_rules", "notifies"}``, those of one receiver merged."""
    rows = NotifyRecordRow.select().where(NotifyRecordRow.event_id == event_id).order_by(NotifyRecordRow.id)
    merged: dict[tuple[int, str, str], Json] = {}
    for row in rows:
        key = (row.sub_id, row.channel, row.target)
        shown = merged.get(key)
        if shown is None:
            merged[key] = {
                "notify_rule_id": row.notify_rule_id,
                "target": masked(row.channel, row.target),
                "username": row.usernames,
                "status": row.status,
                "detail": row.details,
            }
        else:
            shown["status"] = max(shown["status"], row.status)
            shown["detail"] = ", ".join(part for part in (shown["detail"], row.details) if part)
    notifies: dict[str, list[Json]] = {}
    subscriptions: dict[int, Json] = {}
    for (sub_id, channel, _), shown in merged.items():
        place = notifies
        if sub_id:
            blank: Json = {"sub_id": sub_id, "notify_rule_id": shown["notify_rule_id"], "notifies": {}}
            place = subscriptions.setdefault(sub_id, blank)["notifies"]
        place.setdefault(channel, []).append(shown)
    return {"sub_rules": list(subscriptions.values()), "notifies": notifies}


def masked(channel: str, target: str) -> str:
    """Return a target without the end that makes it usable."""
    if channel in UNMASKED:
        return target
    return target[:-STARRED] + "*" * min(len(target), STARRED)


def used() -> Json:
    """Return whether there is any record, and the time of the newest."""
    newest = NotifyRecordRow.select(peewee.fn.MAX(NotifyRecordRow.created_at)).scalar()
    return {"used": newest is not None, "last_at": int(newest or 0)}


def delete_before(database: Database, time: int) -> int:
    """Delete records made before ``time`` in small transactions; return how many."""
    total = 0
    while True:
        old: Any = NotifyRecordRow.select(NotifyRecordRow.id).where(NotifyRecordRow.created_at < time)
        ids = [row_id for (row_id,) in old.limit(CLEANED_AT_ONCE).tuples()]
        if not ids:
            return total
        with database.atomic():
            total += NotifyRecordRow.delete().where(NotifyRecordRow.id.in_(ids)).execute()
