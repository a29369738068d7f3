"""The hand-over of events to notification: at least once, in order, surviving crashes.

The engine writes an event into the outbox in the transaction that makes it active, repeats it, ends it or closes it.
Notification is the one consumer; it runs in the engine process and works like this::

    outbox = core.get(Outbox)
    while not stopping.is_set():
        outbox.wait(1.0)                                   # set after each commit that added events; 1 s is the safety net
        items = outbox.pending(100, in_flight)             # oldest first, without the ids that are being worked on
        for item in items:
            hand item.event to the notification rules of item.event["notify_rule_ids"] ...
        outbox.acknowledge(ids)                            # once every send is decided and recorded

``item.id`` is the id of the event's historical row: unique per firing, repeat and recovery, the same when an item is
handed over again after a crash.  It is the key to deduplicate by.  An item that is never acknowledged comes again for
ever, so acknowledge what cannot be sent once the failure is on record.

``item.event`` is the event as a JSON object (:mod:`tocsin.events.form`): ``is_recovered`` tells a recovery (or a
closing, which has the annotation ``close_reason``) from a firing; with ``is_recovered`` and ``notify_recovered == 0``
nothing is to be sent.  ``rule_name``, ``rule_note`` and ``annotations`` are already rendered.  Events silenced by a
notify-only mute are not put here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from tocsin.events.form import Event, unpacked
from tocsin.events.models import OutboxEvent


@dataclass(frozen=True)
class OutboxItem:
    """One event to notify."""

    id: int
    event: Event
    created_at: int


class Outbox:
    """Events waiting for notification.

    ``others`` returns the engine instances beside this one that are alive; the engine sets it, so that each event is
    handed over by the engine that wrote it, and by another one when that died.
    """

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.others: Callable[[], Collection[str]] = tuple

    def wait(self, timeout: float) -> bool:
        """Wait until events were added or ``timeout`` seconds went by; return whether events were added."""
        added = self.ready.wait(timeout)
        self.ready.clear()
        return added

    def pending(self, limit: int = 100, in_flight: Collection[int] = ()) -> list[OutboxItem]:
        """Return up to ``limit`` events, oldest first, that are neither acknowledged nor among ``in_flight``."""
        query = OutboxEvent.select().order_by(OutboxEvent.id).limit(limit + len(in_flight))
        others = self.others()
        if others:
            query = query.where(OutboxEvent.instance.not_in(list(others)))
        rows = [row for row in query if row.id not in in_flight]
        return [OutboxItem(row.id, {**unpacked(row.body), "id": row.id}, row.created_at) for row in rows[:limit]]

    def acknowledge(self, ids: Iterable[int]) -> int:
        """Forget events whose notification is settled; return how many of them were still there."""
        settled, found = list(ids), 0
        for start in range(0, len(settled), 500):
            found += OutboxEvent.delete().where(OutboxEvent.id.in_(settled[start : start + 500])).execute()
        return found

    def size(self) -> int:
        """Return how many events wait, here and on other engines."""
        return int(OutboxEvent.select().count())
