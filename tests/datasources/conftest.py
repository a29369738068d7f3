"""A datasource type for tests: speaks HTTP through the client of the plugin API, and records its life."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tocsin.plugin import (
    Datasource,
    DatasourceConfig,
    DatasourceError,
    DatasourceType,
    HttpClient,
    HttpError,
    MetricQuery,
    Series,
    hookimpl,
)
from tocsin.plugin.testkit import AppFactory, TestApp, dat


@dataclass
class Journal:
    """What happened to the datasources of a test type."""

    opened: list[DatasourceConfig] = field(default_factory=list)
    closed: list[DatasourceConfig] = field(default_factory=list)
    asked: list[MetricQuery] = field(default_factory=list)
    check: Callable[[float], None] = lambda _: None
    answer: Callable[[MetricQuery], Sequence[Series]] = lambda _: []


class StoreSource(Datasource):
    def __init__(self, config: DatasourceConfig, journal: Journal, speaks_http: bool) -> None:
        self._speaks_http = speaks_http
        self._config = config
        self._journal = journal
        self._client = config.client()

    def check(self, timeout: float) -> None:
        self._journal.check(timeout)

    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        self._journal.asked.append(query)
        if query.spec["query"] == "fetch":
            try:
                self._client.request("GET", "/fetched", timeout=query.timeout)
            except HttpError as error:
                raise DatasourceError(str(error)) from None
        return self._journal.answer(query)

    def http_target(self) -> HttpClient | None:
        return self._client if self._speaks_http else None

    def close(self) -> None:
        self._journal.closed.append(self._config)
        self._client.close()


class StoreType(DatasourceType):
    name = "store"
    title = "A store"
    number = 7
    capabilities = frozenset(("metrics", "proxy"))

    speaks_http = True

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def connect(self, config: DatasourceConfig) -> Datasource:
        if config.settings.get("broken"):
            raise DatasourceError("settings.broken: this never works", refused=True)
        self.journal.opened.append(config)
        return StoreSource(config, self.journal, self.speaks_http)

    def public_settings(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"flavour": settings.get("flavour")}


class StorePlugin:
    def __init__(self, journal: Journal) -> None:
        self.type = StoreType(journal)

    @hookimpl
    def tocsin_datasource_types(self) -> list[DatasourceType]:
        return [self.type]


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def plugin(journal: Journal) -> StorePlugin:
    return StorePlugin(journal)


@pytest.fixture
def app(make_app: AppFactory, plugin: StorePlugin) -> TestApp:
    return make_app(plugins=[plugin], start="http")


@pytest.fixture
def save(app: TestApp) -> Callable[..., int]:
    """Save a datasource of the test type and return its id."""

    def saved(name: str = "s", url: str = "http://127.0.0.1:9", **more: Any) -> int:
        body = {"name": name, "plugin_type": "store", "http": {"url": url}, **more}
        return int(dat(app.root.post("/api/svc/datasource/upsert", body))["id"])

    return saved


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Something that a call can wait for; opened when the test ends."""
    event = threading.Event()
    yield event
    event.set()
