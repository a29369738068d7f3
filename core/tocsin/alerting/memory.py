"""What the engine keeps in the database: reading states back, and writing the steps of many rules at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tocsin.alerting.models import PendingAlert, RuleFault
from tocsin.alerting.scheduler import Key
from tocsin.alerting.state import Fault, Firing, State, Step
from tocsin.alerting.triggers import remembered
from tocsin.events.journal import CHUNK, Change, EventJournal, active_events, chunks
from tocsin.store.database import Database

FAULT_TEXT = 1000
"""Characters kept of what a datasource said."""
SINGLY = 20
"""Up to so many states are read one by one, more in one sweep."""


def faults_of(rule_ids: Collection[int]) -> dict[int, list[dict[str, Any]]]:
    """Return what keeps rules from being evaluated, as their answers show it, by rule."""
    wanted, found = set(rule_ids), defaultdict(list)
    for row in RuleFault.select().order_by(RuleFault.since):
        if row.rule_id in wanted:
            shown = {"datasource_id": row.datasource_id, "since": row.since, "error": row.error}
            found[row.rule_id].append(shown)
    return found


def _state(firing: Mapping[str, Firing], pending: Mapping[str, int], now: int) -> State:
    return State(firing, pending, remembered(one.event for one in firing.values()), now)


class Memory:
    """Loads and saves the states of rules."""

    def __init__(self, database: Database, journal: EventJournal) -> None:
        self._database = database
        self._journal = journal

    def load(self, keys: Collection[Key], now: int) -> dict[Key, State]:
        """Return the stored state of each key.

        How long the condition has been gone before now is unknown where it still held at the last look; the wait for
        a recovery then begins at ``now``.
        """
        firing: dict[Key, dict[str, Firing]] = defaultdict(dict)
        pending: dict[Key, dict[str, int]] = defaultdict(dict)
        for event, last in self._events(keys):
            firing[event["rule_id"], event["datasource_id"]][event["hash"]] = Firing(event, last)
        for row in self._pending(keys):
            pending[row.rule_id, row.datasource_id][row.hash] = row.first_eval_time
        return {key: _state(firing.get(key, {}), pending.get(key, {}), now) for key in keys}

    def save(self, steps: Sequence[tuple[Key, Step]], now: int) -> list[Change]:
        """Write steps in one transaction and return the changes that another engine had already made obsolete."""
        changes = [change for _, step in steps for change in step.changes]
        removed = [key for _, step in steps for key in step.pending_removed]
        added = [
            {"rule_id": rule, "datasource_id": source, "hash": key, "first_eval_time": time}
            for (rule, source), step in steps
            for key, time in step.pending_added.items()
        ]
        times = {key: time for _, step in steps for key, time in step.anomaly_times.items()}
        with self._database.atomic():
            stale = self._journal.record(changes, now)
            for part in chunks([*removed, *(row["hash"] for row in added)], CHUNK):
                PendingAlert.delete().where(PendingAlert.hash.in_(list(part))).execute()
            for rows in chunks(added, CHUNK):
                PendingAlert.insert_many(list(rows)).execute()
            self._journal.mark_anomaly_times(times)
        self._journal.announce(changes)
        return stale

    def faults(self, keys: Collection[Key]) -> dict[Key, Fault]:
        """Return what kept the keys from being evaluated when the engine last knew."""
        wanted = set(keys)
        rows = {(row.rule_id, row.datasource_id): Fault(row.since, row.error) for row in RuleFault.select()}
        return {key: fault for key, fault in rows.items() if key in wanted}

    def save_faults(self, changed: Mapping[Key, Fault | None]) -> None:
        """Write which keys cannot be evaluated and which can again."""
        with self._database.atomic():
            for rule, source in changed:
                RuleFault.delete().where((RuleFault.rule_id == rule) & (RuleFault.datasource_id == source)).execute()
            rows = [
                {"rule_id": rule, "datasource_id": source, "since": fault.since, "error": fault.error[:FAULT_TEXT]}
                for (rule, source), fault in changed.items()
                if fault is not None
            ]
            for part in chunks(rows, CHUNK):
                RuleFault.insert_many(list(part)).execute()

    def _events(self, keys: Collection[Key]) -> Iterable[Any]:
        if len(keys) > SINGLY:
            return active_events()
        return [found for rule, source in keys for found in active_events(rule, source)]

    def _pending(self, keys: Collection[Key]) -> Iterable[Any]:
        if len(keys) > SINGLY:
            return PendingAlert.select()
        return [
            row
            for rule, source in keys
            for row in PendingAlert.select().where(
                (PendingAlert.rule_id == rule) & (PendingAlert.datasource_id == source)
            )
        ]
