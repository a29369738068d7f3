"""The query engine's metrics under their standard names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary


class ApiMetrics:
    """`queries` counts executing and waiting ones."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.queries = Gauge(
            "prometheus_engine_queries", "Queries executing or waiting.", registry=registry, multiprocess_mode="livesum"
        )
        self.queries_max = Gauge(
            "prometheus_engine_queries_concurrent_max",
            "Most queries that execute at once.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.duration = Summary(
            "prometheus_engine_query_duration_seconds",
            "Time that queries took, by part.",
            ("slice",),
            registry=registry,
        )
        self.samples = Counter("prometheus_engine_query_samples", "Samples that queries looked at.", registry=registry)
        self.failures = Counter(
            "svc_tsdb_query_failures", "Queries that failed, by type of error.", ("type",), registry=registry
        )
        self.requests = Counter(
            "svc_tsdb_write_requests", "Write requests, by outcome.", ("outcome",), registry=registry
        )
