"""Reading events: filters, lists, cards and counts."""

from __future__ import annotations

import datetime as dt
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import peewee

from tocsin.events.form import Event, tag_map
from tocsin.events.journal import loaded
from tocsin.events.models import ActiveEvent, HistoryEvent
from tocsin.plugin import not_found

CARD_LIMIT = 50_000
FUTURE = 86_400
"""Events may carry the time stamps of sources whose clocks are ahead; an open end reaches a day into the future."""


@dataclass(frozen=True)
class EventFilter:
    """What a list of events is narrowed to; empty members do not narrow.

    ``groups`` are the business groups the caller may see, ``None`` for all.
    """

    start: int = 0
    end: int = 0
    severities: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    prods: tuple[str, ...] = ()
    cates: tuple[str, ...] = ()
    datasource_ids: tuple[int, ...] = ()
    rule_id: int = 0
    group_id: int = 0
    groups: Collection[int] | None = None
    ids: tuple[int, ...] = ()

    def conditions(self, table: Any, time_column: Any) -> list[Any]:
        """Return the filter as peewee conditions on ``table``; ``time_column`` is what ``start`` and ``end`` bound."""
        found = []
        if self.start and self.end:
            found.append(time_column.between(self.start, self.end))
        lists = (
            (table.severity, self.severities),
            (table.rule_prod, self.prods),
            (table.cate, self.cates),
            (table.datasource_id, self.datasource_ids),
            (table.id, self.ids),
        )
        found += [column.in_(values) for column, values in lists if values]
        found += [(table.rule_name.contains(word)) | (table.tags.contains(word)) for word in self.words]
        if self.rule_id:
            found.append(table.rule_id == self.rule_id)
        if self.group_id:
            found.append(table.group_id == self.group_id)
        if self.groups is not None:
            found.append(table.group_id.in_(sorted(self.groups)))
        return found


def active(wanted: EventFilter, limit: int, offset: int = 0) -> tuple[list[Event], int]:
    """Return a page of active events, newest trigger first, and how many there are in all."""
    query = _where(ActiveEvent.select(), wanted.conditions(ActiveEvent, ActiveEvent.trigger_time))
    ordered = query.order_by(ActiveEvent.trigger_time.desc(), ActiveEvent.id.desc())
    return [loaded(row) for row in ordered.limit(limit).offset(offset)], query.count()


@dataclass(frozen=True)
class Cursor:
    """The place after which a page of history starts, for deep paging."""

    time: int
    id: int


def history(
    wanted: EventFilter, recovered: int, limit: int, offset: int = 0, after: Cursor | None = None
) -> tuple[list[Event], int]:
    """Return a page of historical events, newest evaluation first, and how many there are in all.

    ``recovered`` is 0, 1 or -1 for both.  The time window always applies: without one nothing is found.
    """
    conditions = wanted.conditions(HistoryEvent, HistoryEvent.last_eval_time)
    if not wanted.start or not wanted.end:
        conditions.append(HistoryEvent.last_eval_time.between(wanted.start, wanted.end))
    if recovered >= 0:
        conditions.append(HistoryEvent.is_recovered == recovered)
    query = _where(HistoryEvent.select(), conditions)
    total = query.count()
    ordered = query.order_by(HistoryEvent.last_eval_time.desc(), HistoryEvent.id.desc()).limit(limit)
    if after is not None:
        earlier = (HistoryEvent.last_eval_time == after.time) & (HistoryEvent.id < after.id)
        ordered = ordered.where((HistoryEvent.last_eval_time < after.time) | earlier)
    else:
        ordered = ordered.offset(offset)
    return [_historical(row) for row in ordered], total


def one_active(event_id: int) -> Event:
    """Return an active event; raise ``not_found``."""
    row = ActiveEvent.get_or_none(ActiveEvent.id == event_id)
    if row is None:
        raise not_found("no such active event")
    event = loaded(row)
    event["last_eval_time"] = event["trigger_time"]
    return event


def one_historical(event_id: int) -> Event:
    """Return a historical event; raise ``not_found``."""
    row = HistoryEvent.get_or_none(HistoryEvent.id == event_id)
    if row is None:
        raise not_found("No such alert event")
    event = _historical(row)
    event["trigger_values"] = event["trigger_value"]
    return event


def historical_by_ids(ids: Iterable[int]) -> list[Event]:
    """Return historical events by id, in order of id; unknown ids are left out."""
    rows = HistoryEvent.select().where(HistoryEvent.id.in_(list(ids))).order_by(HistoryEvent.id)
    return [_historical(row) for row in rows]


def delete_active(ids: Iterable[int]) -> None:
    """Remove active events; the engine shows them again when they are next notified."""
    ActiveEvent.delete().where(ActiveEvent.id.in_(list(ids))).execute()


def delete_by_hash(key: str) -> None:
    """Remove the active event with a hash."""
    ActiveEvent.delete().where(ActiveEvent.hash == key).execute()


def active_id(key: str) -> int:
    """Return the id of the active event with a hash, 0 when there is none."""
    row = ActiveEvent.get_or_none(ActiveEvent.hash == key)
    return row.id if row is not None else 0


def counts(groups: Collection[int] | None, now: float) -> dict[str, int]:
    """Return the numbers of ``/alert-cur-events/stats``; days and weeks begin in local time."""
    today = dt.datetime.fromtimestamp(now).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    monday = today - dt.timedelta(days=today.weekday())
    mine = EventFilter(groups=groups)
    firing = _where(ActiveEvent.select(), mine.conditions(ActiveEvent, ActiveEvent.trigger_time))
    past = _where(HistoryEvent.select(), mine.conditions(HistoryEvent, HistoryEvent.trigger_time))
    past = past.where(HistoryEvent.is_recovered == 0)
    return {
        "total": firing.count(),
        "total_24_ago": firing.where(ActiveEvent.trigger_time < int(now) - 86_400).count(),
        "total_today": past.where(HistoryEvent.trigger_time >= int(today.timestamp())).count(),
        "total_week": past.where(HistoryEvent.trigger_time >= int(monday.timestamp())).count(),
    }


class ActiveCounts:
    """Tells other capabilities how much is firing."""

    def active_by_group(self, group_ids: Iterable[int]) -> dict[int, int]:
        """Return how many active events each of these groups has; groups without any are left out."""
        count = peewee.fn.COUNT(ActiveEvent.id)
        query: Any = ActiveEvent.select(ActiveEvent.group_id, count).where(ActiveEvent.group_id.in_(list(group_ids)))
        return dict(query.group_by(ActiveEvent.group_id).tuples())


def active_per_rule(rule_ids: Collection[int], start: int, end: int) -> dict[int, int]:
    """Return how many active events each rule has with a trigger time in ``[start, end]``."""
    count = peewee.fn.COUNT(ActiveEvent.id)
    query: Any = ActiveEvent.select(ActiveEvent.rule_id, count).where(ActiveEvent.trigger_time.between(start, end))
    wanted = set(rule_ids)
    return {rule: number for rule, number in query.group_by(ActiveEvent.rule_id).tuples() if rule in wanted}


def tag_keys(groups: Collection[int] | None, group_id: int, now: float) -> list[str]:
    """Return the tag keys of up to 200 active events of the last day, or a usual few when nothing fires."""
    found = {key for tags in _recent_tags(groups, group_id, now, 200) for key in tags}
    return sorted(found) or ["ident", "app", "service", "instance"]


def tag_values(key: str, groups: Collection[int] | None, group_id: int, now: float) -> list[str]:
    """Return up to 20 values of a tag among active events of the last day, most frequent first."""
    seen = Counter(tags[key] for tags in _recent_tags(groups, group_id, now, 1000) if tags.get(key))
    return [value for value, _ in seen.most_common(20)]


def _recent_tags(groups: Collection[int] | None, group_id: int, now: float, limit: int) -> list[dict[str, str]]:
    start = int(now) - 86_400
    wanted = EventFilter(start=start, end=int(now) + FUTURE, group_id=group_id, groups=groups)
    query = _where(ActiveEvent.select(ActiveEvent.tags), wanted.conditions(ActiveEvent, ActiveEvent.trigger_time))
    return [tag_map(row.tags.split(",,")) for row in query.order_by(ActiveEvent.id.desc()).limit(limit)]


def _historical(row: Any) -> Event:
    event = loaded(row)
    event["is_recovered"] = bool(row.is_recovered)
    event["last_eval_time"] = row.last_eval_time
    return event


def _where(query: Any, conditions: Sequence[Any]) -> Any:
    return query.where(reduce(operator.and_, conditions)) if conditions else query
