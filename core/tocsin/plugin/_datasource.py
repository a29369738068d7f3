"""Kinds of datasource."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tocsin.plugin._errors import DatasourceError

if TYPE_CHECKING:
    from marshmallow import Schema

    from tocsin.app.core import Core
    from tocsin.http.routes import Route

Labels = Mapping[str, str]


@dataclass(frozen=True)
class DatasourceConfig:
    """One configured datasource, secrets in clear: what a type needs to reach it.

    ``settings`` and ``http`` and ``auth`` are the stored JSON objects of the same names.
    """

    id: int
    name: str
    type: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    http: Mapping[str, Any] = field(default_factory=dict)
    auth: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricQuery:
    """A question to a store of metrics.

    ``spec`` is the engine-specific part as stored in a rule or sent by a client (``{"query": "up"}`` for PromQL).
    Times are in seconds since the epoch; an instant query has ``start == end`` and ``step == 0``.
    """

    spec: Mapping[str, Any]
    start: float
    end: float
    step: float = 0.0
    timeout: float = 30.0

    @property
    def is_instant(self) -> bool:
        """Whether one point per series is asked for."""
        return self.step == 0


@dataclass(frozen=True)
class Series:
    """One answered series: labels and parallel columns of times (seconds) and values."""

    labels: Labels
    timestamps: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True)
class LogQuery:
    """A question to a store of logs; ``spec`` is engine-specific, times are in seconds since the epoch."""

    spec: Mapping[str, Any]
    start: float
    end: float
    limit: int = 500
    timeout: float = 30.0


@dataclass(frozen=True)
class LogPage:
    """Answered log lines, newest first, and how many there are in all."""

    rows: Sequence[Mapping[str, Any]]
    total: int


@dataclass(frozen=True)
class HttpTarget:
    """Where and how the core may pass a client's request through to a datasource that speaks HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    username: str = ""
    password: str = ""
    verify_tls: bool = True
    timeout: float = 30.0


class Datasource(ABC):
    """A connected datasource; used by several threads at once.

    Every call may raise :class:`~tocsin.plugin.DatasourceError`, whose text is shown to the user.
    """

    @abstractmethod
    def check(self, timeout: float) -> None:
        """Return when the datasource answers with these settings, raise otherwise."""

    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        """Answer a metric query."""
        raise DatasourceError("this datasource has no metrics")

    def query_logs(self, query: LogQuery) -> LogPage:
        """Answer a log query."""
        raise DatasourceError("this datasource has no logs")

    def query_key(self, spec: Mapping[str, Any]) -> str:
        """Return a text that is equal for specs which ask the same question, so that rules can share one query."""
        return repr(sorted(spec.items()))

    def http_target(self) -> HttpTarget | None:
        """Return where ``/proxy/:id/*`` may pass requests to, or ``None`` when this type is not reached by HTTP."""
        return None

    def close(self) -> None:
        """Give up connections."""


class DatasourceType(ABC):
    """A kind of datasource, like ``prometheus``."""

    name: ClassVar[str] = ""
    """The plugin type stored with each datasource."""
    title: ClassVar[str] = ""
    category: ClassVar[str] = "timeseries"
    """``timeseries``, ``logging``, ``sql`` or ``tracing``."""
    capabilities: ClassVar[frozenset[str]] = frozenset()
    """What the type supports: ``metrics``, ``logs``, ``proxy``, ``alerting``."""

    def settings_schema(self) -> type[Schema] | None:
        """Return the marshmallow schema of the type's ``settings`` object, or ``None`` when it has none."""
        return None

    @abstractmethod
    def connect(self, config: DatasourceConfig) -> Datasource:
        """Return a datasource for these settings without using the network; raise for settings that cannot work."""

    def routes(self, core: Core) -> Iterable[Route]:
        """Return extra page routes of this type."""
        return ()
