"""Alerting as a capability of core: the rule resource in every worker, the engine in its process."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tocsin.access.directory import Directory
from tocsin.access.neighbours import GroupHooks, HostLookup, HostViewer
from tocsin.alerting import routes, service_routes
from tocsin.alerting.builder import GroupNames, Surroundings
from tocsin.alerting.engine import Engine, Submit, asker
from tocsin.alerting.judge import QueryJudge
from tocsin.alerting.membership import Membership, instance_name
from tocsin.alerting.memory import Memory
from tocsin.alerting.metrics import AlertMetrics
from tocsin.alerting.models import AlertRule, EngineBeat, PendingAlert, RuleFault
from tocsin.alerting.roster import Roster
from tocsin.alerting.rules import AlertRules
from tocsin.alerting.runner import EngineRunner, Lanes
from tocsin.alerting.settings import AlertSettings
from tocsin.datasources.catalog import Catalog
from tocsin.datasources.pool import DatasourcePool
from tocsin.events.journal import EventJournal
from tocsin.plugin import DatasourceType, Feature, Route, create
from tocsin.template import TemplateEngine, field_functions

if TYPE_CHECKING:
    from tocsin.app.core import Core

log = logging.getLogger(__name__)


def alerting_types(core: Core) -> dict[str, DatasourceType]:
    """Return the installed datasource types that rules can ask."""
    types: dict[str, DatasourceType] = core.plugins.of(DatasourceType)
    return {name: kind for name, kind in types.items() if "alerting" in kind.capabilities}


def make_membership(core: Core) -> Membership:
    """Return this process's part in its engine cluster."""
    wanted = core.settings[AlertSettings].heartbeat
    return Membership(core.db, instance_name(wanted.ip, core.http.port), wanted.cluster(core.process), core.clock)


def make_roster(core: Core, membership: Membership, metrics: AlertMetrics) -> Roster:
    """Return the roster of this engine."""
    return Roster(
        core.get(AlertRules),
        core.get(Catalog),
        membership,
        core.snapshots,
        metrics,
        core.get(DatasourcePool).query_key,
        core.get(EventJournal).announce,
    )


def make_engine(core: Core, roster: Roster, metrics: AlertMetrics, submit: Submit) -> Engine:
    """Return the engine over the services of ``core``."""
    settings, pool = core.settings[AlertSettings], core.get(DatasourcePool)
    zone = dt.datetime.now().astimezone().tzinfo or dt.UTC
    around = Surroundings(
        TemplateEngine(field_functions(core.clock, zone)),
        GroupNames(core.get(Directory).group_names),
        hosts_groups(core),
        described_hosts(core),
        asker(pool, settings.query_timeout),
    )
    memory = Memory(core.db, core.get(EventJournal))
    return Engine(
        roster,
        memory,
        pool,
        metrics,
        around,
        submit,
        query_timeout=settings.query_timeout,
        unknown_after=settings.unknown_after,
    )


def hosts_groups(core: Core) -> Callable[[str], Sequence[int]]:
    """Return the look-up of a host's business groups; without the targets capability no host is known."""
    if core.has(HostLookup):
        return core.get(HostLookup).groups_of_host
    return lambda ident: ()


def described_hosts(core: Core) -> Callable[[Collection[str]], Mapping[str, Any]]:
    """Return the look-up of hosts as the API shows them; without the targets capability no host is known."""
    if core.has(HostViewer):
        return core.get(HostViewer).described
    return lambda idents: {}


class Alerting(Feature):
    """Alert rules and their evaluation."""

    name = "alerting"
    processes = frozenset(("center", "alert"))
    settings = (AlertSettings,)
    tables = (AlertRule, PendingAlert, RuleFault, EngineBeat)
    migrations = (create(AlertRule, PendingAlert, RuleFault, EngineBeat),)

    def setup(self, core: Core) -> None:
        """Offer the rule resource, and keep business groups that own rules from being deleted."""
        journal = core.get(EventJournal)

        def judge() -> QueryJudge:
            return QueryJudge(core.get(Catalog), core.get(DatasourcePool), core.clock)

        rules = AlertRules(core.db, core.snapshots, journal, lambda: alerting_types(core), core.clock, judge)
        core.provide(rules)
        core.get(GroupHooks).refuse_while("alert rules", 1, rules.count)

    def routes(self, core: Core) -> Iterable[Route]:
        """Return the rows of the rule and engine endpoints; the alert process only evaluates."""
        if core.process != "center":
            return
        yield from routes.routes()
        if core.http.api_for_service.enable:
            yield from service_routes.service_rows()

    def start(self, core: Core, role: str) -> None:
        """Start the engine in the engine process."""
        if role != "engine":
            return
        settings, metrics = core.settings[AlertSettings], AlertMetrics(core.metrics)
        membership = make_membership(core)
        if not membership.cluster:
            log.warning("this engine evaluates nothing: Alert.Heartbeat.EngineName names no engine cluster")
        core.get(EventJournal).instance = membership.instance
        lanes = Lanes(core, settings.query_concurrency)
        roster = make_roster(core, membership, metrics)
        engine = make_engine(core, roster, metrics, lanes.submit)
        beat = settings.heartbeat.interval_ms / 1000
        runner = EngineRunner(
            core, engine, roster, membership, lanes, metrics, beat_seconds=beat, delay=settings.engine_delay
        )
        core.provide(runner)
        runner.start()

    def stop(self, core: Core, role: str) -> None:
        """Stop the engine."""
        if role == "engine":
            core.get(EngineRunner).stop()


FEATURE = Alerting()
