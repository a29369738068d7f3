"""Kinds of datasource."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from tocsin.plugin._errors import DatasourceError
from tocsin.plugin._http import HttpClient, HttpOptions, Network, TlsOptions

if TYPE_CHECKING:
    from marshmallow import Schema

    from tocsin.app.core import Core
    from tocsin.http.routes import Route

Labels = Mapping[str, str]


@dataclass(frozen=True)
class DatasourceConfig:
    """One configured datasource, secrets in clear: what a type needs to reach it.

    ``settings``, ``http`` and ``auth`` are the stored JSON objects of the same names; ``http`` has its defaults.
    """

    id: int
    name: str
    type: str
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    http: Mapping[str, Any] = field(default_factory=dict, repr=False)
    auth: Mapping[str, Any] = field(default_factory=dict, repr=False)
    from_edge: bool = False
    """Whether another process than the center asks, which may have an address of its own for the datasource."""
    denied_networks: tuple[Network, ...] = ()
    """Networks that must not be connected to; :meth:`client` sees to it."""

    @property
    def timeout(self) -> float:
        """Seconds that a call may take (``http.timeout``)."""
        return int(self.http.get("timeout") or 10_000) / 1000

    def client(self, urls: Sequence[str] = ()) -> HttpClient:
        """Return an HTTP client with the options in ``http`` and ``auth``; ``urls`` replaces the configured addresses.

        Raises :class:`~tocsin.plugin.DatasourceError` for options that cannot work.
        """
        tls = self.http.get("tls") or {}
        found = tuple(urls) or tuple(self.http.get("urls") or ()) or (str(self.http.get("url") or ""),)
        try:
            options = HttpOptions(
                urls=found,
                timeout=self.timeout,
                dial_timeout=int(self.http.get("dial_timeout") or 10_000) / 1000,
                max_idle=int(self.http.get("max_idle_conns_per_host") or 100),
                headers=dict(self.http.get("headers") or {}),
                username=str(self.auth.get("basic_auth_user") or ""),
                password=str(self.auth.get("basic_auth_password") or ""),
                tls=TlsOptions(
                    verify=not tls.get("skip_tls_verify"),
                    ca=tls.get("ca_cert") or "",
                    cert=tls.get("client_cert") or "",
                    key=tls.get("client_key") or "",
                    key_password=tls.get("client_key_password") or "",
                    server_name=tls.get("server_name") or "",
                    min_version=_known_version(tls.get("min_version")),
                    max_version=_known_version(tls.get("max_version")),
                ),
                denied=self.denied_networks,
            )
            if options.tls.ca or options.tls.cert:
                options.tls.context()  # says now what is wrong with the texts
        except ValueError as error:
            raise DatasourceError(str(error), refused=True) from None
        return HttpClient(options)


def _known_version(value: Any) -> str:
    """Return a TLS version, or nothing for one that is not known: such a value is ignored."""
    return value if value in ("1.0", "1.1", "1.2", "1.3") else ""


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
class MetadataQuery:
    """A question about what a store of metrics holds: series selected by any of ``matchers`` between two times.

    Without matchers everything is meant; ``limit`` is the largest number of answers, 0 for no limit.
    """

    matchers: Sequence[str] = ()
    start: float | None = None
    end: float | None = None
    limit: int = 0
    timeout: float = 30.0


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


class Datasource(ABC):
    """A connected datasource; used by several threads at once.

    Every call may raise :class:`~tocsin.plugin.DatasourceError`, whose text is shown to the user and holds no secret.
    A call that takes longer than its query's ``timeout`` is abandoned by the core and counted as overdue.
    """

    @abstractmethod
    def check(self, timeout: float) -> None:
        """Return when the datasource answers with these settings within ``timeout`` seconds, raise otherwise."""

    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        """Answer a metric query with numbers; an answer that is known to be incomplete is an error.

        An instant query gives one point per series, a scalar is one series without labels.
        """
        raise DatasourceError("this datasource has no metrics", refused=True)

    def query_result(self, query: MetricQuery) -> Any:
        """Answer a metric query as the JSON value that the Prometheus HTTP API calls ``result``."""
        found = self.query_metrics(query)
        if query.is_instant:
            return [{"metric": s.labels, "value": [s.timestamps[0], number_text(s.values[0])]} for s in found]
        return [
            {
                "metric": s.labels,
                "values": [[t, number_text(v)] for t, v in zip(s.timestamps, s.values, strict=True)],
            }
            for s in found
        ]

    def label_names(self, query: MetadataQuery) -> Sequence[str]:
        """Return the names of the labels of the selected series, sorted."""
        raise DatasourceError("this datasource has no labels", refused=True)

    def label_values(self, name: str, query: MetadataQuery) -> Sequence[str]:
        """Return the values of label ``name`` in the selected series, sorted."""
        raise DatasourceError("this datasource has no labels", refused=True)

    def series(self, query: MetadataQuery) -> Sequence[Labels]:
        """Return the label sets of the selected series."""
        raise DatasourceError("this datasource has no series", refused=True)

    def delete_series(self, matchers: Sequence[str], start: str, end: str, timeout: float) -> None:
        """Delete the samples of the selected series; times are Unix seconds or RFC 3339, empty for no bound."""
        raise DatasourceError("not support delete series yet", refused=True)

    def query_logs(self, query: LogQuery) -> LogPage:
        """Answer a log query."""
        raise DatasourceError("this datasource has no logs", refused=True)

    def query_key(self, spec: Mapping[str, Any]) -> str:
        """Return a text that is equal for specs which ask the same question, so that rules can share one query."""
        return repr(sorted(spec.items()))

    def http_target(self) -> HttpClient | None:
        """Return the client through which ``/proxy/:id/*`` passes requests, ``None`` for a type not reached by HTTP."""
        return None

    def close(self) -> None:
        """Give up connections; called once, when no call is under way any more."""


class DatasourceType(ABC):
    """A kind of datasource, like ``prometheus``."""

    name: ClassVar[str] = ""
    """The plugin type stored with each datasource."""
    title: ClassVar[str] = ""
    category: ClassVar[str] = "timeseries"
    """``timeseries``, ``logging``, ``loki`` or ``tracing``."""
    number: ClassVar[int] = 0
    """The ``plugin_id`` of the type in the list of types; 0 derives one from the name."""
    capabilities: ClassVar[frozenset[str]] = frozenset()
    """What the type supports: ``metrics``, ``logs``, ``proxy``, ``alerting``, ``dashboard``, ``variable``."""

    def settings_schema(self) -> type[Schema] | None:
        """Return the marshmallow schema of the type's ``settings`` object, or ``None`` when it has none."""
        return None

    @abstractmethod
    def connect(self, config: DatasourceConfig) -> Datasource:
        """Return a datasource for these settings without using the network; raise for settings that cannot work."""

    def addresses(self, config: DatasourceConfig) -> Mapping[str, str]:
        """Return the URLs in a configuration by name of their field; core checks them before it saves.

        Addresses that are no URLs (host and port of a database) are left out.
        """
        urls = {f"http.urls[{i}]": str(url) for i, url in enumerate(config.http.get("urls") or ())}
        if config.http.get("url"):
            urls["http.url"] = str(config.http["url"])
        return urls

    def public_settings(self, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what of ``settings`` everybody may see in the brief listing: no secrets."""
        return None

    def check_query(self, spec: Mapping[str, Any]) -> str | None:
        """Return what is wrong with a query's text, with its position where known, or ``None``; uses no network.

        Asked when a rule is saved, with the same ``spec`` that :class:`MetricQuery` will carry.
        """
        return None

    def routes(self, core: Core) -> Iterable[Route]:
        """Return extra page routes of this type."""
        return ()


class DatasourceRegistry(ABC):
    """The datasource resource as a plugin sees it: ``core.get(DatasourceRegistry)``."""

    @abstractmethod
    def ensure(self, config: DatasourceConfig, *, identifier: str, description: str = "") -> int:
        """See to it that the datasource a component of the installation brings exists, and return its id or 0.

        It is found by ``identifier``; address, authentication, TLS checking and ``settings`` keys of ``config`` are then
        corrected where they differ and everything users changed stays.  Otherwise it is created as enabled default,
        unless an enabled datasource of its type or one of its name exists already, or no plugin serves its type (0).
        ``config.id`` is not looked at.  Call it in ``Feature.seed``.
        """


def number_text(value: float) -> str:
    """Return a number in the notation of the Prometheus HTTP API: shortest digits, exponent only for extremes."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    shortest = repr(float(value))
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        if "e" in shortest:
            return format(Decimal(shortest), "f")
        return shortest.removesuffix(".0")
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:].lstrip('0')}"
