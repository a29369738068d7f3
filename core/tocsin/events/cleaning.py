"""Removal of old history: by hand in the background, and every night by age."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

from tocsin.events.models import ActiveEvent, HistoryEvent
from tocsin.store.database import Database

log = logging.getLogger(__name__)
BATCH = 500
PAUSE_SECONDS = 0.1
"""Between batches, so that a large clean-up leaves the database to others."""


def delete_before(
    database: Database, before: int, severities: Collection[int], stopping: threading.Event, batch: int = BATCH
) -> int:
    """Delete historical rows last evaluated before ``before``, except those of active events; return how many."""
    kept = ActiveEvent.select(ActiveEvent.id)
    old = HistoryEvent.select(HistoryEvent.id).where(
        HistoryEvent.last_eval_time < before, HistoryEvent.id.not_in(kept)
    )  # fmt: skip
    if severities:
        old = old.where(HistoryEvent.severity.in_(list(severities)))
    deleted = 0
    while not stopping.is_set():
        ids = [row.id for row in old.order_by(HistoryEvent.id).limit(batch)]
        if not ids:
            break
        with database.atomic():
            deleted += HistoryEvent.delete().where(HistoryEvent.id.in_(ids)).execute()
        stopping.wait(PAUSE_SECONDS)
    return deleted


class HistoryCleaner:
    """Runs one clean-up at a time in a thread of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = threading.Event()
        self._running = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, before: int, severities: tuple[int, ...]) -> None:
        """Begin to delete; a clean-up that is under way is waited for by the new one."""
        self._thread = threading.Thread(target=self._run, args=(before, severities), name="history-clean", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait for the latest clean-up to end."""
        if self._thread is not None:
            self._thread.join(timeout)

    def stop(self) -> None:
        """End a clean-up after its present batch."""
        self._stopping.set()
        self.join(5.0)

    def _run(self, before: int, severities: tuple[int, ...]) -> None:
        with self._running:
            try:
                deleted = delete_before(self._database, before, severities, self._stopping)
                log.info("history: %d events from before %d deleted", deleted, before)
            except Exception:
                log.exception("history: the clean-up of events from before %d failed", before)
            finally:
                self._database.release()
