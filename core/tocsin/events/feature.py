"""Events as a capability of core."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tocsin.access.neighbours import ActiveEventCount
from tocsin.app.sections import CenterSettings
from tocsin.datasources.settings import AnonymousAccess
from tocsin.events import routes, service_routes, views
from tocsin.events.cleaning import HistoryCleaner, delete_before
from tocsin.events.journal import EventJournal
from tocsin.events.models import ActiveEvent, AggregationView, EventSequence, HistoryEvent, OutboxEvent
from tocsin.events.outbox import Outbox
from tocsin.events.search import ActiveCounts
from tocsin.plugin import Feature, Job, Migration, Migrator, Route, create

if TYPE_CHECKING:
    from tocsin.app.core import Core

FIRST_ID = 1


def widen_texts(migrator: Migrator) -> None:
    """Let MariaDB and MySQL store events of more than 64 KiB; the other databases' text has no such bound."""
    if migrator.database.kind == "mysql":
        for table in (ActiveEvent, HistoryEvent, OutboxEvent):
            name = table._meta.table_name
            migrator.database.peewee.execute_sql(f"ALTER TABLE {name} MODIFY body LONGTEXT NOT NULL")


def clean_history(core: Core) -> None:
    """Delete history older than ``[Center] CleanAlertHisEventDay``."""
    days = core.settings[CenterSettings].history_days
    if days > 0:
        delete_before(core.db, int(core.clock()) - days * 86_400, (), threading.Event())


class Events(Feature):
    """Active and historical events, and the outbox to notification."""

    name = "events"
    processes = frozenset(("center", "alert"))
    tables = (ActiveEvent, HistoryEvent, OutboxEvent, EventSequence, AggregationView)
    migrations = (
        create(ActiveEvent, HistoryEvent, OutboxEvent, EventSequence, AggregationView),
        Migration(2, "bodies of any length", widen_texts),
    )
    jobs = (Job("history-clean", clean_history, cron="0 2 * * *"),)

    def setup(self, core: Core) -> None:
        """Offer the outbox, the journal and the cleaner."""
        outbox = Outbox()
        core.provide(outbox)
        core.provide(EventJournal(core.db, outbox))
        core.provide(HistoryCleaner(core.db))
        core.provide(ActiveCounts(), ActiveEventCount)

    def seed(self, core: Core) -> None:
        """Write the id sequence and the preset views."""
        with core.db.atomic():
            if not EventSequence.select().exists():
                EventSequence.create(next_id=FIRST_ID)
            views.seed_presets(int(core.clock()))

    def routes(self, core: Core) -> Iterable[Route]:
        """Return the event endpoints; the alert process only writes events."""
        if core.process != "center":
            return
        yield from routes.routes(open_details=core.settings[AnonymousAccess].alert_detail)
        if core.http.api_for_service.enable:
            yield from service_routes.service_rows()

    def stop(self, core: Core, role: str) -> None:
        """End a clean-up that is under way."""
        core.get(HistoryCleaner).stop()


FEATURE = Events()
