"""Alerts without rules: events recorded as the engine records them, for tests of what happens to them afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tocsin.app.bootstrap import make_core
from tocsin.app.core import Core
from tocsin.app.registry import Plugins
from tocsin.events.form import new_event
from tocsin.events.journal import Change, EventJournal, Kind


class Alerts:
    """Fires and recovers alerts in one installation; what sends notifications there learns of them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._journal = core.get(EventJournal)

    def fire(self, **fields: Any) -> dict[str, Any]:
        """Record an alert, with ``id`` and defaults filled in: ``hash``, ``rule_name``, ``notify_rule_ids`` and so on."""
        event = new_event(**fields)
        self._record(Change(Kind.FIRE, event))
        return event

    def recover(self, event: dict[str, Any]) -> dict[str, Any]:
        """Record that an alert is over and return its last event."""
        over = {**event, "is_recovered": True, "recover_time": int(self._core.clock())}
        self._record(Change(Kind.RECOVER, over, event["id"]))
        return over

    def _record(self, change: Change) -> None:
        stale = self._journal.record([change], int(self._core.clock()))
        assert not stale, "another alert has the same hash"
        self._journal.announce([change])


@contextmanager
def alerts_in(data_directory: Path) -> Iterator[Alerts]:
    """Give the alerts of an installation that runs in other processes, from its data directory."""
    core = make_core("center", {"Data": {"Dir": str(data_directory)}}, environ={}, plugins=Plugins())
    try:
        yield Alerts(core)
    finally:
        core.close()
