"""Self metrics: a registry that is passed in, and the latency histograms of the HTTP layer."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from tocsin.http.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tocsin.http.routes import Route

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Upper bounds of histograms in seconds, unless they have their own."""


class Metrics:
    """Makes and remembers the metrics of one process.

    Asking twice for one name gives the same object, so a plugin and the core can share a metric, and an application
    that is built again in one process (as tests do) finds its metrics instead of clashing with them.
    With ``PROMETHEUS_MULTIPROC_DIR`` set, :meth:`exposition` sums over all processes of the installation.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._made: dict[str, Any] = {}
        self._bare: set[str] = set()
        self._lock = threading.Lock()

    def counter(self, name: str, doc: str, labels: Sequence[str] = ()) -> Counter:
        """Return the counter ``name`` (with or without ``_total``)."""
        return self._get(Counter, name, doc, labels)  # type: ignore[no-any-return]

    def bare_counter(self, name: str, doc: str, labels: Sequence[str] = (), mode: str = "sum") -> Gauge:
        """Return the counter ``name`` that lacks ``_total``, which the client library would add to that of a counter."""
        self._bare.add(name)
        return self.gauge(name, doc, labels, mode)

    def tally(self, name: str, doc: str, label: str) -> Tally:
        """Return the counter ``name`` by one label that has very many values."""
        self._bare.add(name)
        with self._lock:
            if name not in self._made:
                self._made[name] = Tally(name, doc, label)
                self.registry.register(self._made[name])
            return self._made[name]  # type: ignore[no-any-return]

    def gauge(self, name: str, doc: str, labels: Sequence[str] = (), mode: str = "livesum") -> Gauge:
        """Return the gauge ``name``; ``mode`` says how several processes' values are combined."""
        return self._get(Gauge, name, doc, labels, multiprocess_mode=mode)  # type: ignore[no-any-return]

    def histogram(
        self, name: str, doc: str, labels: Sequence[str] = (), buckets: Sequence[float] = BUCKETS
    ) -> Histogram:
        """Return the histogram ``name`` with ``buckets`` in the metric's unit."""
        return self._get(Histogram, name, doc, labels, buckets=buckets)  # type: ignore[no-any-return]

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that an ``Accept`` header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        body = encode(self._exposed())
        if self._bare and not content_type.startswith("application/openmetrics-text"):  # there, no counter is bare
            names = "|".join(map(re.escape, sorted(self._bare)))
            body = re.sub(rf"(?m)^(# TYPE (?:{names})) gauge$".encode(), rb"\1 counter", body)
        return body, content_type

    def _exposed(self) -> CollectorRegistry:
        """Return the registry to expose: this process's own, or the sum over all processes."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return self.registry
        combined = CollectorRegistry()
        _OfAllProcesses(combined)
        return combined

    def names(self) -> list[str]:
        """Return the names of all metrics made so far."""
        return sorted(self._made)

    def _get(self, kind: type, name: str, doc: str, labels: Sequence[str], **more: Any) -> Any:
        with self._lock:
            if name not in self._made:
                self._made[name] = kind(name, doc, list(labels), registry=self.registry, **more)
            return self._made[name]


class _OfAllProcesses(MultiProcessCollector):
    """The library's collector, which fails when a process has only just made one of its files."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)  # type: ignore[no-untyped-call]

    def collect(self) -> Any:
        return self.merge(list(_begun_files(os.environ["PROMETHEUS_MULTIPROC_DIR"])))  # type: ignore[no-untyped-call]


def _begun_files(directory: str) -> Iterator[str]:
    """Yield the files that hold something."""
    for entry in os.scandir(directory):
        with contextlib.suppress(FileNotFoundError):  # of a process that has just ended
            if entry.name.endswith(".db") and entry.stat().st_size:
                yield entry.path


class RequestMetrics:
    """Latency histograms by status code, method and route pattern."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._children: dict[tuple[str, str, str, int], Histogram] = {}

    def observe(self, route: Route, code: int, seconds: float) -> None:
        """Count one request; ``path`` is the pattern, so that the number of series stays bounded."""
        path = "" if route.path == "/*rest" else route.full_path
        key = (route.metric, route.method, path, code)
        child = self._children.get(key)
        if child is None:
            labels = {"code": str(code), "method": route.method, "path": path, **route.metric_labels}
            doc = "Time to answer a request, in seconds."
            child = self._children[key] = self._metrics.histogram(route.metric, doc, tuple(labels)).labels(**labels)
        child.observe(seconds)
