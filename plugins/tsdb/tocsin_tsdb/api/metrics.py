"""The query engine's metrics, under their standard names where there are any."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tocsin_tsdb.promql.expressions import Expressions
from tocsin_tsdb.promql.regex import compile_regex


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
        duration = Summary(
            "prometheus_engine_query_duration_seconds",
            "Time that queries took, by part.",
            ("slice",),
            registry=registry,
        )
        self.queue_time = duration.labels("queue_time")
        self.inner_eval = duration.labels("inner_eval")
        self.result_sort = duration.labels("result_sort")
        self.samples = Counter("prometheus_engine_query_samples", "Samples that queries looked at.", registry=registry)
        self.failures = Counter(
            "svc_tsdb_query_failures", "Queries that failed, by type of error.", ("type",), registry=registry
        )
        self.requests = Counter(
            "svc_tsdb_write_requests", "Write requests, by outcome.", ("outcome",), registry=registry
        )


class CacheMetrics(Collector):
    """What the caches of the language count themselves, read when somebody looks."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield requests and entries of every cache."""
        requests = CounterMetricFamily(
            "svc_tsdb_cache_requests",
            "Look-ups in caches, by whether they found something.",
            labels=("cache", "outcome"),
        )
        entries = GaugeMetricFamily("svc_tsdb_cache_entries", "What caches hold.", labels=("cache",))
        regexes, expressions = compile_regex.cache_info(), self._expressions.counts
        for cache, hits, misses, size in (
            ("regex", regexes.hits, regexes.misses, regexes.currsize),
            ("expression", expressions.hits, expressions.misses, expressions.entries),
        ):
            requests.add_metric((cache, "hit"), hits)
            requests.add_metric((cache, "miss"), misses)
            entries.add_metric((cache,), size)
        yield requests
        yield entries
