"""The targets capability as a feature of core."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from tocsin.access.directory import Directory
from tocsin.access.groups import Groups
from tocsin.access.neighbours import GroupHooks, HostLookup, HostViewer
from tocsin.access.seeds import installed
from tocsin.access.statistics import Statistics
from tocsin.alerting.settings import AlertSettings
from tocsin.app.sections import CacheSettings
from tocsin.ingest.hosts import HostRegister, TargetLabels
from tocsin.ingest.settings import PushgwSettings
from tocsin.plugin import Feature, Route
from tocsin.targets.book import LabelBook
from tocsin.targets.center import Center
from tocsin.targets.collector_routes import collector_routes, forwarding_routes, gateway_routes
from tocsin.targets.gate import Gate
from tocsin.targets.heartbeat import Heartbeats, Relay
from tocsin.targets.hosts import Hosts
from tocsin.targets.install.routes import install_routes
from tocsin.targets.metrics import TargetMetrics
from tocsin.targets.mirror import Mirror
from tocsin.targets.models import MIGRATIONS, TABLES, TargetRow
from tocsin.targets.pulse import Beats, Pulse
from tocsin.targets.routes import page_routes
from tocsin.targets.service_routes import process_routes, service_routes
from tocsin.targets.settings import CenterApiSettings
from tocsin.targets.views import HostViews

if TYPE_CHECKING:
    from tocsin.app.core import Core

log = logging.getLogger(__name__)
HOSTS = "hosts-of-center.json"
"""File in the data directory with what a gateway last knew of a center's hosts."""
SEEING = ("center", "pushgw")
"""The processes that hear of hosts."""


class Targets(Feature):
    """Hosts, their heartbeats, and what is attached to their series."""

    name = "targets"
    processes = frozenset(("center", "alert", "pushgw"))
    settings = (PushgwSettings, AlertSettings, CenterApiSettings)
    tables = TABLES
    migrations = MIGRATIONS

    def setup(self, core: Core) -> None:
        """Build the services and offer them to access, ingest and the engine."""
        metrics, directory = TargetMetrics(core.metrics), core.get(Directory)
        hosts, pulse = Hosts(core.db, core.snapshots, core.clock), Pulse(core.cache)
        heartbeat, gate = core.settings[AlertSettings].heartbeat, Gate(max(1, core.http.threads // 2))
        register: Callable[[Collection[str]], int] = hosts.register
        labels: TargetLabels
        if core.process == "pushgw" and core.settings[CenterApiSettings].addresses:
            center = Center(core.settings[CenterApiSettings], core.metrics)
            relay = Relay(center, metrics, gate, core.clock, heartbeat.cluster(core.process))
            mirror = Mirror(center, core.data_directory / HOSTS, core.snapshots.log("targets"))
            core.provide(relay)
            core.provide(mirror)
            register, labels = relay.name_hosts, mirror
        else:
            labels = LabelBook(core.snapshots, directory, metrics, gate)
        beats = Beats(core.cache, core.settings[PushgwSettings], metrics, register, core.clock)
        for offered in (metrics, hosts, pulse, beats):
            core.provide(offered)
        # A gateway that shares the center's database takes heartbeats in its place, so they are for the same engines.
        engine_name = heartbeat.cluster("center")
        core.provide(Heartbeats(hosts, beats, directory, metrics, gate, core.clock, engine_name))
        views = HostViews(hosts, pulse, core.get(Groups), directory, core.clock)
        core.provide(views)
        core.provide(views, HostViewer)
        core.provide(hosts, HostLookup)
        core.provide(labels, TargetLabels)
        core.provide(beats, HostRegister)
        core.get(GroupHooks).refuse_while("targets", 5, hosts.count_in_group)
        core.get(Statistics).add("target", TargetRow)

    def join(self, core: Core) -> None:
        """Read the center's hosts, or say when signs of life are kept where the center may not see them, nor we its own."""
        if core.has(Mirror):
            core.get(Mirror).check()
        elif core.db.kind != "sqlite" and core.settings[CacheSettings].kind != "standalone":
            log.warning(
                "[Redis] names no server: when hosts were seen is shared with the center only through its Data.Dir"
            )

    def routes(self, core: Core) -> Iterable[Route]:
        """Return the rows of the center, and what collectors use in a gateway; the engine only reads."""
        metrics = core.get(TargetMetrics)
        if core.process in SEEING:
            yield from process_routes()
        if core.process == "pushgw" and core.http.api_for_agent.enable:
            yield from _gateway_routes(core, metrics)
        if core.process != "center":
            return
        yield from page_routes()
        yield from install_routes()
        if core.http.api_for_agent.enable:
            yield from collector_routes(metrics)
        if core.http.api_for_service.enable:
            yield from service_routes()
            yield from gateway_routes(metrics)

    def start(self, core: Core, role: str) -> None:
        """Start writing signs of life in a worker, and look at labels: the last known ones may soon be all there is."""
        if role == "http" and core.process in SEEING:
            labels = core.get(TargetLabels)

            def after() -> None:
                labels.changes(0)
                core.release()

            core.get(Beats).start(after)
            if core.has(Mirror):
                core.get(Mirror).start()

    def stop(self, core: Core, role: str) -> None:
        """Write what is pending and stop."""
        if role == "http" and core.process in SEEING:
            if core.has(Mirror):
                core.get(Mirror).stop()
            core.get(Beats).stop()


def _gateway_routes(core: Core, metrics: TargetMetrics) -> Iterable[Route]:
    """Return the rows of heartbeats if there is a center to pass them on to, or one that sees what is stored here."""
    if core.has(Relay):
        yield from forwarding_routes(metrics)
        return
    try:
        known = installed(core)
    finally:
        core.db.close()  # the workers are forked after this; none must inherit a connection
    if known:
        yield from collector_routes(metrics)
    else:
        log.warning("POST /v1/svc/heartbeat is not served: no center has set up this process's database")


FEATURE = Targets()
