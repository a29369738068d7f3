"""Every counter of the targets capability, in one place."""

from __future__ import annotations

from typing import Any

from tocsin.http.metrics import Metrics

CACHE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class TargetMetrics:
    """The instruments; made once per process."""

    def __init__(self, metrics: Metrics) -> None:
        self.beats: Any = metrics.counter("svc_target_beats_total", "Signs of life of hosts, by origin.", ("source",))
        self.refused: Any = metrics.counter(
            "svc_target_beats_refused_total", "Signs of life that were not taken, by reason.", ("reason",)
        )
        self.registered: Any = metrics.counter("svc_target_registered_total", "Hosts that became known.")
        self.pending: Any = metrics.gauge("svc_target_pending_beats", "Hosts whose sign of life is to be written.")
        self.retries: Any = metrics.counter("svc_target_flush_retries_total", "Repeated writes of signs of life.")
        self.failures: Any = metrics.counter(
            "svc_target_flush_errors_total", "Writes that failed and are tried again a second later.", ("stage",)
        )
        self.updates: Any = metrics.counter(
            "svc_target_update_errors_total", "Heartbeats whose changes to a known host could not be stored."
        )
        self.stale: Any = metrics.counter(
            "svc_target_labels_stale_total", "Requests served with the last known labels: the database did not answer."
        )
        self.stamped: Any = metrics.histogram(
            "svc_pushgw_redis_operation_latency_seconds",
            "Time to write signs of life into the cache, in seconds.",
            ("operation", "status"),
            CACHE_SECONDS,
        )
