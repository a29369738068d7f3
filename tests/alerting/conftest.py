"""A store of metrics with a virtual present, and an engine on a virtual clock."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tocsin.alerting.engine import Engine
from tocsin.alerting.feature import make_engine, make_membership, make_roster
from tocsin.alerting.membership import Membership
from tocsin.alerting.metrics import AlertMetrics
from tocsin.alerting.rules import AlertRules
from tocsin.events.journal import EventJournal
from tocsin.events.outbox import Outbox, OutboxItem
from tocsin.plugin import (
    Datasource,
    DatasourceConfig,
    DatasourceError,
    DatasourceType,
    MetricQuery,
    Series,
    hookimpl,
)
from tocsin.plugin.testkit._app import AppFactory, TestApp, dat
from tocsin.plugin.testkit.components import PATIENCE

START = 1_700_000_010.0
"""A Tuesday, 22:13:30 UTC; on the grid of 15 s."""
QUERY = re.compile(r"(?P<metric>\w+)(?:\s*(?P<operator>[<>]=?|==)\s*(?P<bound>-?[\d.]+))?")
COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
}


class Clock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@dataclass
class Store(Datasource):
    """Series with a present value; understands ``metric`` and ``metric > number``."""

    values: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)
    failure: str = ""
    refusal: str = ""
    asked: list[str] = field(default_factory=list)
    gate: threading.Event | None = None

    def put(self, value: float, **labels: str) -> None:
        self.values[tuple(sorted(labels.items()))] = value

    def drop(self, **labels: str) -> None:
        del self.values[tuple(sorted(labels.items()))]

    def check(self, timeout: float) -> None:
        return

    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        text = query.spec["query"]
        self.asked.append(text)
        if self.gate is not None:
            self.gate.wait(PATIENCE)
        if self.refusal:
            raise DatasourceError(self.refusal, refused=True)
        if self.failure:
            raise DatasourceError(self.failure)
        match = QUERY.fullmatch(text)
        assert match, text
        found = []
        for labels, value in self.values.items():
            holds = not match["operator"] or COMPARE[match["operator"]](value, float(match["bound"]))
            if dict(labels).get("__name__") == match["metric"] and holds:
                found.append(Series(dict(labels), [query.start], [value]))
        return found

    def query_key(self, spec: Mapping[str, Any]) -> str:
        return str(spec["query"])


class StoreType(DatasourceType):
    name = "fake"
    title = "Fake"
    capabilities = frozenset(("metrics", "alerting"))

    def __init__(self) -> None:
        self.stores: dict[str, Store] = {}

    def connect(self, config: DatasourceConfig) -> Datasource:
        return self.stores.setdefault(config.name, Store())

    def check_query(self, spec: Mapping[str, Any]) -> str | None:
        text = str(spec.get("query"))
        return None if QUERY.fullmatch(text) else f"1:1: cannot parse {text!r}"


class StorePlugin:
    """A plugin module."""

    def __init__(self) -> None:
        self.type = StoreType()

    @hookimpl
    def tocsin_datasource_types(self) -> list[DatasourceType]:
        return [self.type]


class LogsOnly(DatasourceType):
    """A type that no rule can ask."""

    name = "logs-only"

    def connect(self, config: DatasourceConfig) -> Datasource:
        raise DatasourceError("never connected")


class World:
    """One installation: an application, datasources, and an engine that is driven by hand."""

    def __init__(self, app: TestApp, stores: StoreType, clock: Callable[[], float], *, engine: bool = True) -> None:
        self.app = app
        self.core = app.core
        self.clock: Any = clock
        self._stores = stores
        self.rules = self.core.get(AlertRules)
        self.outbox = self.core.get(Outbox)
        self.seen: set[int] = set()
        self.group = self.busi_group("Payments")
        if engine:
            self.engine, self.membership = self.make_engine()

    def busi_group(self, name: str, **teams: str) -> int:
        """Make a business group with new teams bound to it, like ``rw="owners"``, and return its id."""
        members = [
            {"user_group_id": int(dat(self.app.root.post("/api/svc/user-groups", {"name": team}))), "perm_flag": flag}
            for flag, team in {"rw": f"team of {name}", **teams}.items()
        ]
        return int(dat(self.app.root.post("/api/svc/busi-groups", {"name": name, "members": members})))

    def datasource(self, name: str = "main", **more: Any) -> int:
        """Save a datasource and return its id."""
        body = {"name": name, "plugin_type": "fake", "cluster_name": "default", "force_save": True, **more}
        return int(dat(self.app.root.post("/api/svc/datasource/upsert", body))["id"])

    def store(self, name: str = "main") -> Store:
        """Return the series of a datasource."""
        return self._stores.stores.setdefault(name, Store())

    def rule(self, name: str = "cpu", query: str = "cpu > 80", **more: Any) -> int:
        """Create a rule through the API and return its id."""
        config = {"queries": [{"prom_ql": query, "severity": 2}]}
        body = {
            "name": name,
            "cate": "fake",
            "datasource_queries": [{"match_type": 2, "op": "in", "values": []}],
            "rule_config": config,
            "cron_pattern": "@every 15s",
            "notify_version": 1,
            "notify_rule_ids": [1],
            "notify_recovered": 1,
            **more,
        }
        answer = dat(self.app.root.post(f"/api/svc/busi-group/{self.group}/alert-rules", [body]))
        assert answer == {name: ""}, answer
        return next(rule["id"] for rule in self.rules.in_groups([self.group]) if rule["name"] == name)

    def make_engine(self, ip: str = "10.0.0.1") -> tuple[Engine, Membership]:
        """Return an engine with nothing in memory, as after a crash of the process."""
        membership = make_membership(self.core)
        membership.instance = f"{ip}:17000"
        metrics = AlertMetrics(self.core.metrics)
        roster = make_roster(self.core, membership, metrics)
        self.core.get(EventJournal).instance = membership.instance
        self.outbox.others = membership.others
        self._roster = roster
        membership.beat(roster.bound())
        engine = make_engine(self.core, roster, metrics, lambda _, function: function())
        engine.refresh(self.clock())
        return engine, membership

    def restart(self) -> None:
        """Lose everything in memory."""
        self.engine, self.membership = self.make_engine()

    def heartbeat(self) -> None:
        """Let the engine see which datasources it has."""
        self.membership.beat(self._roster.bound())

    def advance(self, seconds: float) -> None:
        """Let time pass, evaluating whatever is due on the way."""
        end = self.clock.now + seconds
        while True:
            self.engine.step(self.clock.now)
            self.engine.settle(0)
            self.engine.settle(0)  # what was rendered apart
            if self.clock.now >= end:
                return
            self.clock.now += self.engine.wait_time(self.clock.now, end - self.clock.now)

    def handed_over(self) -> list[OutboxItem]:
        """Return the events that notification gets and has not seen yet."""
        items = [item for item in self.outbox.pending(1000) if item.id not in self.seen]
        self.seen.update(item.id for item in items)
        return items

    def active(self, **query: Any) -> list[dict[str, Any]]:
        """Return the active events as the API lists them."""
        answer = self.app.root.get("/api/svc/alert-cur-events/list", query={"limit": 1000, **query})
        return list(dat(answer)["list"])

    def history(self, **query: Any) -> list[dict[str, Any]]:
        """Return history as the API lists it, newest first."""
        answer = self.app.root.get("/api/svc/alert-his-events/list", query={"limit": 1000, "hours": 24, **query})
        return list(dat(answer)["list"])

    def metric(self, name: str, **labels: str) -> float:
        """Return a self metric, 0 when it never changed."""
        return self.core.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def plugin() -> StorePlugin:
    return StorePlugin()


@pytest.fixture
def world(make_app: AppFactory, plugin: StorePlugin, clock: Clock) -> World:
    app = make_app(plugins=[plugin], clock=clock)
    return World(app, plugin.type, clock)


@pytest.fixture
def world_with(make_app: AppFactory, plugin: StorePlugin, clock: Clock) -> Callable[..., World]:
    """Return a factory of worlds with one datasource and the given settings sections."""

    def make(**settings: Any) -> World:
        world = World(make_app(plugins=[plugin], clock=clock, settings=settings), plugin.type, clock)
        world.datasource()
        world.heartbeat()
        return world

    return make


@pytest.fixture
def payments(world: World) -> World:
    """An installation with one datasource and one rule: ``cpu > 80``, every 15 s."""
    world.datasource()
    world.heartbeat()
    return world


@pytest.fixture
def make_world() -> Callable[[TestApp, StorePlugin], World]:
    """Return a factory of worlds whose engine runs by itself."""

    def make(app: TestApp, plugin: StorePlugin) -> World:
        world = World(app, plugin.type, app.core.clock, engine=False)
        world.datasource()
        return world

    return make
