"""The ``svc_alert_*`` metrics."""

from __future__ import annotations

import os

from tocsin.http.metrics import Metrics

NO_DATASOURCE, QUERY_FAILED = -2, -1
"""Values of ``svc_alert_eval_query_series_count`` that are no counts."""


class AlertMetrics:
    """Counters and gauges of the engine, declared in one place."""

    def __init__(self, metrics: Metrics) -> None:
        rule = ("rule_id", "datasource_id")
        self.evaluations = metrics.counter("svc_alert_rule_eval_total", "Evaluations of rules.")
        self.errors = metrics.counter(
            "svc_alert_rule_eval_error_total",
            "Evaluations that failed, by what failed.",
            ("datasource", "stage", "busi_group", "rule_id"),
        )
        self.duration = metrics.gauge(
            "svc_alert_rule_eval_duration_ms", "Milliseconds from tick to result, of the latest evaluation.", rule
        )
        self.queries = metrics.counter(
            "svc_alert_query_data_total", "Queries whose result a rule used.", ("datasource", "rule_id")
        )
        self.query_errors = metrics.counter(
            "svc_alert_query_data_error_total", "Queries that a datasource did not answer.", ("datasource",)
        )
        self.sent = metrics.counter(
            "svc_alert_datasource_query_total", "Queries sent; rules that ask the same share one.", ("datasource",)
        )
        self.series = metrics.gauge(
            "svc_alert_eval_query_series_count",
            "Series in the latest answer; -1 query error, -2 no datasource.",
            (*rule, "ref"),
        )
        self.alerts = metrics.counter(
            "svc_alert_alerts_total", "Alert events produced.", ("cluster", "type", "busi_group")
        )
        self.queue = metrics.gauge("svc_alert_alert_queue_size", "Events that wait for notification.")
        self.filled = metrics.counter(
            "svc_alert_var_filling_query_total", "Queries with variables filled in.", (*rule, "ref", "typ")
        )
        self.missed = metrics.counter(
            "svc_alert_rule_eval_missed_total", "Evaluations left out because an earlier one was not done."
        )
        self.heartbeat_errors = metrics.bare_counter("svc_alert_heartbeat_error_count", "Heartbeats that failed.")
        self.loop_errors = metrics.counter(
            "svc_alert_loop_error_total", "Failures inside the engine's loops.", ("loop",)
        )
        self._removable = "PROMETHEUS_MULTIPROC_DIR" not in os.environ

    def forget(self, rule_id: int, datasource_id: int, refs: tuple[str, ...]) -> None:
        """Drop the gauges of a rule that is no longer evaluated here; shared metric files cannot forget."""
        if not self._removable:
            return
        labels = (str(rule_id), str(datasource_id))
        for metric, found in ((self.duration, labels), *((self.series, (*labels, ref)) for ref in refs)):
            try:
                metric.remove(*found)
            except KeyError:
                continue
