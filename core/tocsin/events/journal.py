"""Writes event changes: history, active table and outbox move together, in one transaction, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import peewee

from tocsin.events.form import Event, packed, unpacked
from tocsin.events.models import ActiveEvent, EventSequence, HistoryEvent, OutboxEvent
from tocsin.events.outbox import Outbox
from tocsin.store.database import Database

T = TypeVar("T")
SEARCHED = 16_000
"""Characters of names and tags that can be searched for; the event itself is kept whole."""
CHUNK = 50
"""Rows per statement; keeps the number of bound values below every database's limit."""


class Kind(Enum):
    """What happens to an event."""

    FIRE = "alert"
    RECOVER = "recovery"
    CLOSE = "close"
    """It ends without having recovered: its rule was switched off or deleted."""


@dataclass
class Change:
    """One event to record.

    ``previous_id`` is the id of the active row that it replaces as far as the writer knows, 0 for a new alert.
    ``notify`` puts it into the outbox.  :meth:`EventJournal.record` sets ``event["id"]``.
    """

    kind: Kind
    event: Event
    previous_id: int = 0
    notify: bool = True


class EventJournal:
    """The one writer of event tables."""

    def __init__(self, database: Database, outbox: Outbox, instance: str = "") -> None:
        self._database = database
        self._outbox = outbox
        self.instance = instance

    def record(self, changes: Sequence[Change], now: int) -> list[Change]:
        """Record changes in order and return those left out because another engine got there first.

        A change is left out when the active row of its hash is not the one it replaces, or when that one has ended.  A
        row that is missing without a sequel in history was deleted by hand and does not count.  Call it inside
        ``Database.atomic`` to add more to the transaction; then call :meth:`announce` after the commit.
        """
        if not changes:
            return []
        with self._database.atomic():
            newest = self._newest(changes)
            stale = [c for c in changes if newest.get(c.event["hash"], c.previous_id) != c.previous_id]
            kept = [c for c in changes if c not in stale] if stale else list(changes)
            for change, number in zip(kept, self._take_ids(len(kept)), strict=True):
                change.event["id"] = number
            self._write(kept, now)
        return stale

    def announce(self, changes: Iterable[Change]) -> None:
        """Wake the outbox's consumer if one of the recorded changes is to be notified."""
        if any(change.notify for change in changes):
            self._outbox.ready.set()

    def close(self, events: Iterable[Event], reason: str, now: int) -> list[Change]:
        """End active events without recovery, with the reason in the annotation ``close_reason``."""
        changes = []
        for event in events:
            closed = {**event, "is_recovered": True, "recover_time": now, "last_eval_time": now}
            closed["annotations"] = {**event["annotations"], "close_reason": reason}
            changes.append(Change(Kind.CLOSE, closed, event["id"], notify=notifies_closing(event)))
        self.record(changes, now)
        return changes

    def mark_anomaly_times(self, times: dict[str, int]) -> None:
        """Set ``last_anomaly_time`` of active events by hash."""
        for value in set(times.values()):
            for hashes in chunks([key for key, time in times.items() if time == value], CHUNK):
                ActiveEvent.update(last_anomaly_time=value).where(ActiveEvent.hash.in_(hashes)).execute()

    def _newest(self, changes: Sequence[Change]) -> dict[str, int]:
        """Return the id that each hash's next change has to replace: of its active row, else of its last history."""
        found: dict[str, int] = {}
        for part in chunks([change.event["hash"] for change in changes], CHUNK):
            active: Any = ActiveEvent.select(ActiveEvent.hash, ActiveEvent.id).where(ActiveEvent.hash.in_(part))
            found.update(active.tuples())
        gone = [c.event["hash"] for c in changes if c.previous_id and c.event["hash"] not in found]
        for part in chunks(gone, CHUNK):
            last = peewee.fn.MAX(HistoryEvent.id)
            past: Any = HistoryEvent.select(HistoryEvent.hash, last).where(HistoryEvent.hash.in_(part))
            found.update(past.group_by(HistoryEvent.hash).tuples())
        return found

    def _take_ids(self, count: int) -> range:
        if not count:
            return range(0)
        EventSequence.update(next_id=EventSequence.next_id + count).execute()
        end: int = EventSequence.select(EventSequence.next_id).scalar()
        return range(end - count, end)

    def _write(self, changes: list[Change], now: int) -> None:
        for part in chunks(changes, CHUNK):
            bodies = [packed(change.event) for change in part]
            HistoryEvent.insert_many([_history_row(c, b) for c, b in zip(part, bodies, strict=True)]).execute()
            ActiveEvent.delete().where(ActiveEvent.hash.in_([c.event["hash"] for c in part])).execute()
            active = [_active_row(c, b) for c, b in zip(part, bodies, strict=True) if c.kind is Kind.FIRE]
            if active:
                ActiveEvent.insert_many(active).execute()
            leaving = [
                {
                    "id": change.event["id"],
                    "instance": self.instance,
                    "hash": change.event["hash"],
                    "created_at": now,
                    "body": body,
                }
                for change, body in zip(part, bodies, strict=True)
                if change.notify
            ]
            if leaving:
                OutboxEvent.insert_many(leaving).execute()


def notifies_closing(event: Event) -> bool:
    """Return whether the end of a rule is announced: only where its ``extra_config.notify_on_disable`` asks for it."""
    extra = event["extra_config"]
    return bool(event["notify_recovered"]) and isinstance(extra, dict) and bool(extra.get("notify_on_disable"))


def active_events(rule_id: int | None = None, datasource_id: int | None = None) -> list[tuple[Event, int]]:
    """Return active events with their ``last_anomaly_time``, all or those of one rule on one datasource."""
    query = ActiveEvent.select()
    if rule_id is not None:
        query = query.where(ActiveEvent.rule_id == rule_id)
    if datasource_id is not None:
        query = query.where(ActiveEvent.datasource_id == datasource_id)
    return [(loaded(row), row.last_anomaly_time) for row in query]


def firing_rules() -> set[int]:
    """Return the ids of the rules that have active events."""
    return {row.rule_id for row in ActiveEvent.select(ActiveEvent.rule_id).distinct()}


def firing_pairs() -> set[tuple[int, int]]:
    """Return ``(rule id, datasource id)`` of everything that has active events."""
    rows = ActiveEvent.select(ActiveEvent.rule_id, ActiveEvent.datasource_id).distinct()
    return {(row.rule_id, row.datasource_id) for row in rows}


def loaded(row: Any) -> Event:
    """Return the event of a row of the active, history or outbox table."""
    event = unpacked(row.body)
    event["id"] = row.id
    return event


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield ``items`` in pieces of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _searchable(text: str) -> str:
    """Return what a column holds of a text: PostgreSQL takes no NUL, MariaDB's ``TEXT`` ends at 64 KiB."""
    return text.replace("\0", "")[:SEARCHED]


def _columns(event: Event, body: str) -> dict[str, Any]:
    named = ("id", "hash", "rule_id", "datasource_id", "group_id", "severity", "cate", "rule_prod")
    return {
        **{name: event[name] for name in named},
        "rule_name": _searchable(event["rule_name"]),
        "tags": _searchable(",,".join(event["tags"])),
        "trigger_time": event["trigger_time"],
        "body": body,
    }


def _active_row(change: Change, body: str) -> dict[str, Any]:
    event = change.event
    kept = {name: event[name] for name in ("notify_cur_number", "last_sent_time")}
    return {**_columns(event, body), **kept, "last_anomaly_time": 0}


def _history_row(change: Change, body: str) -> dict[str, Any]:
    event = change.event
    ended = change.kind is not Kind.FIRE
    return {**_columns(event, body), "is_recovered": int(ended), "last_eval_time": event["last_eval_time"]}
