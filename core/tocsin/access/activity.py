"""Remembers when users and tokens were last active, with few writes."""

from __future__ import annotations

import logging
from collections.abc import Callable

import peewee

from tocsin.access.models import User, UserToken
from tocsin.http.metrics import Metrics
from tocsin.plugin import Table

log = logging.getLogger(__name__)


class Activity:
    """Writes ``last_active_time`` and ``last_used`` at most once a minute per row and process.

    These times do not count as changes: they bump no version.  A failed write is counted and costs no request.
    """

    INTERVAL = 60
    REMEMBERED = 20_000

    def __init__(self, clock: Callable[[], float], metrics: Metrics) -> None:
        self._clock = clock
        self._written: dict[tuple[str, int], int] = {}
        self._errors = metrics.counter(
            "svc_center_activity_write_errors_total", "Times of last use that were not kept."
        )
        self._failing = False

    def user(self, user_id: int) -> None:
        """Note that a user is active now."""
        self._note(User, "last_active_time", user_id)

    def token(self, token_id: int) -> None:
        """Note that a personal token is used now."""
        self._note(UserToken, "last_used", token_id)

    def _note(self, table: type[Table], column: str, row_id: int) -> None:
        now, key = int(self._clock()), (column, row_id)
        if now - self._written.get(key, 0) < self.INTERVAL:
            return
        if len(self._written) >= self.REMEMBERED:
            self._written.clear()
        self._written[key] = now
        old = getattr(table, column)
        try:
            table.update({old: now}).where((table.id == row_id) & (old <= now - self.INTERVAL)).execute()
            self._failing = False
        except peewee.DatabaseError:
            self._errors.inc()
            if not self._failing:
                log.warning("the time of last use cannot be written", exc_info=True)
            self._failing = True
