"""What notification counts."""

from __future__ import annotations

import threading

from tocsin.http.metrics import Metrics
from tocsin.template import CacheInfo, TemplateEngine


class NotifyMetrics:
    """The metrics of matching, rendering and sending."""

    def __init__(self, metrics: Metrics) -> None:
        self.sends = metrics.counter("svc_alert_alert_notify_total", "Finished notifications.", ("channel",))
        self.failures = metrics.counter(
            "svc_alert_alert_notify_error_total", "Notifications that failed for good.", ("channel",)
        )
        self.attempts = metrics.counter("svc_notify_attempts_total", "Attempts to send.", ("channel", "outcome"))
        self.retries = metrics.counter("svc_notify_retries_total", "Attempts after the first one.", ("channel",))
        self.drops = metrics.counter("svc_notify_drops_total", "Notifications never attempted.", ("reason",))
        self.events = metrics.counter("svc_notify_events_total", "Events taken over from the engine.", ("outcome",))
        self.routes = metrics.counter("svc_notify_route_matches_total", "Routes of rules that matched an event.")
        self.queue = metrics.gauge(
            "svc_notify_queue_size", "Notifications that wait or are under way.", ("channel_id",)
        )
        self.latency = metrics.histogram(
            "svc_notify_latency_seconds", "Time from an event to its delivery, in seconds.",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
        )  # fmt: skip
        self.seconds = metrics.histogram(
            "svc_notify_attempt_duration_seconds", "Time that attempts to send took, in seconds.", ("channel",)
        )
        self.template_errors = metrics.counter(
            "svc_notify_template_errors_total", "Templates that could not be rendered.", ("kind", "reason")
        )
        self.faults = metrics.counter("svc_notify_internal_errors_total", "Failures of our own.", ("stage",))
        self._cache = metrics.counter(
            "svc_notify_template_cache_total", "Uses of the cache of compiled templates.", ("outcome",)
        )
        self._cached = metrics.gauge("svc_notify_template_cache_size", "Compiled templates that are kept.")
        self._seen = CacheInfo(0, 0, 0, 0, 0)
        self._lock = threading.Lock()

    def observe_cache(self, engine: TemplateEngine) -> None:
        """Count what the cache of an engine did since the last time."""
        with self._lock:
            now, before = engine.cache_info(), self._seen
            self._seen = now
        for outcome in ("hits", "misses", "evictions"):
            self._cache.labels(outcome).inc(getattr(now, outcome) - getattr(before, outcome))
        self._cached.set(now.size)
