"""Notification as a capability of core."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tocsin.access.configs import Site
from tocsin.access.directory import Directory
from tocsin.app.calls import PluginCalls
from tocsin.app.sections import CenterSettings
from tocsin.datasources.settings import AnonymousAccess, DatasourceSettings
from tocsin.events.journal import EventJournal
from tocsin.events.neighbours import RuleNames
from tocsin.events.outbox import Outbox
from tocsin.notify import records, routes
from tocsin.notify.channels import Channels
from tocsin.notify.dispatch import Dispatcher, Planner
from tocsin.notify.lanes import Lanes
from tocsin.notify.metrics import NotifyMetrics
from tocsin.notify.models import TABLES
from tocsin.notify.providers import Providers
from tocsin.notify.rendering import Renderer
from tocsin.notify.rules import NotifyRules
from tocsin.notify.sending import Sender
from tocsin.notify.settings import SendSettings
from tocsin.notify.templates import MessageTemplates
from tocsin.notify.trials import Trials
from tocsin.notify.worker import Worker
from tocsin.plugin import ChannelType, Feature, Job, Route, create
from tocsin.template import TemplateEngine, field_functions

if TYPE_CHECKING:
    from tocsin.app.core import Core

DAY = 86_400
STOP_SECONDS = 10.0
LOCAL_URL = "http://127.0.0.1:17000"
"""What tests and previews take for the site's address where none is configured."""


def clean_records(core: Core) -> None:
    """Delete records older than ``[Center] CleanNotifyRecordDay``."""
    days = core.settings[CenterSettings].record_days
    if days > 0:
        records.delete_before(core.db, int(core.clock()) - days * DAY)


class Notify(Feature):
    """Notification rules, channels, message templates, and the sending of notifications."""

    name = "notify"
    processes = frozenset(("center", "alert"))
    settings = (SendSettings,)
    tables = TABLES
    migrations = (create(*TABLES),)
    jobs = (Job("record-clean", clean_records, cron="0 1 * * *"),)

    def setup(self, core: Core) -> None:
        """Offer the resources and what sends."""
        providers, directory = Providers(core.plugins.of(ChannelType)), core.get(Directory)
        channels = Channels(core.db, core.snapshots, core.vault, providers, core.clock)
        templates = MessageTemplates(core.db, core.snapshots, directory, providers, core.clock)
        rules = NotifyRules(core.db, core.snapshots, core.vault, directory, channels, core.clock)
        settings, metrics, zone = core.settings[SendSettings], NotifyMetrics(core.metrics), local_zone()
        renderer = Renderer(TemplateEngine(field_functions(core.clock, zone)), providers, metrics)
        calls = PluginCalls(core.metrics, settings.max_overdue)
        networks = core.settings[DatasourceSettings].networks()
        sender = Sender(renderer, calls, settings, denied_networks=networks, release=core.release)
        around = (channels, templates, renderer, sender, directory, providers)
        trials = Trials(*around, zone=zone, domain=lambda: site_url(core) or LOCAL_URL, clock=core.clock)
        core.provide(rules, RuleNames)
        for offered in (providers, channels, templates, rules, metrics, renderer, sender, trials):
            core.provide(offered)

    def seed(self, core: Core) -> None:
        """Write the channels and message templates that installed plugins bring along."""
        if core.process == "center":
            core.get(Channels).seed()
            core.get(MessageTemplates).seed()

    def routes(self, core: Core) -> Iterable[Route]:
        """Return the rows of the center; the alert process only sends."""
        if core.process != "center":
            return
        yield from routes.page_rows(open_records=core.settings[AnonymousAccess].alert_detail)
        if core.http.api_for_service.enable:
            yield from routes.service_rows()

    def start(self, core: Core, role: str) -> None:
        """Start sending in the engine process."""
        if role != "engine":
            return
        lanes = make_lanes(core)
        dispatcher = make_dispatcher(core, lanes)
        core.provide(lanes)
        core.provide(dispatcher)
        dispatcher.start()

    def stop(self, core: Core, role: str) -> None:
        """Finish the attempts under way; what waits stays stored."""
        if role == "engine":
            core.get(Dispatcher).stop(STOP_SECONDS)
            core.get(Lanes).stop(STOP_SECONDS)


def local_zone() -> dt.tzinfo:
    """Return the server's time zone."""
    return dt.datetime.now().astimezone().tzinfo or dt.UTC


def site_url(core: Core) -> str:
    """Return the address under which people reach the user interface, without a slash at its end."""
    return core.get(Site).info().site_url.rstrip("/")


def make_lanes(core: Core) -> Lanes:
    """Return the lanes with the worker over the services of ``core``."""
    metrics, channels, journal = core.get(NotifyMetrics), core.get(Channels), core.get(EventJournal)
    worker = Worker(
        core.db,
        core.vault,
        channels,
        core.get(MessageTemplates).all,
        core.get(Renderer),
        core.get(Sender),
        metrics,
        instance=lambda: journal.instance,
        domain=lambda: site_url(core),
        clock=core.clock,
    )
    return Lanes(
        worker, changed=lambda channel, size: metrics.queue.labels(str(channel)).set(size), release=core.release
    )


def make_dispatcher(core: Core, lanes: Lanes) -> Dispatcher:
    """Return the dispatcher over the services of ``core``."""
    channels, sender, journal = core.get(Channels), core.get(Sender), core.get(EventJournal)
    planner = Planner(
        core.get(NotifyRules),
        channels,
        sender,
        core.get(Directory),
        core.get(Providers),
        local_zone(),
        core.get(MessageTemplates),
    )
    return Dispatcher(
        core.db,
        core.vault,
        core.get(Outbox),
        planner,
        sender,
        channels,
        lanes,
        core.get(NotifyMetrics),
        instance=lambda: journal.instance,
        clock=core.clock,
        queue_size=core.settings[SendSettings].queue_size,
    )


FEATURE = Notify()
