"""Every counter of the gateway, in one table.

Entries (series) are the unit throughout, so that for each backend, at any quiet moment, in entries:
accepted into the queues + found on disk at the start = written + rejected + dropped by reason + pending + on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tocsin.http.metrics import Metrics

DURATIONS = (0.001, 0.01, 0.1, 1, 5, 10)


class Lost:
    """Why a batch did not reach a backend, as counted in `svc_pushgw_writer_dropped_total`."""

    RELABEL = "relabel"
    BACKLOG = "backlog_full"
    RETRIES = "retries_exhausted"
    BUSY = "async_busy"
    SPOOL = "spool_full"
    TORN = "spool_damaged"
    SHUTDOWN = "shutdown"
    NO_WRITER = "no_writer"
    INTERNAL = "internal"
    KILLED = "worker_killed"


LOST = tuple(value for name, value in vars(Lost).items() if name.isupper())


@dataclass(frozen=True)
class GatewayMetrics:
    """The instruments; made once per process."""

    received: Any
    by_ident: Any
    idents_not_counted: Any
    request_errors: Any
    items_failed: Any
    metadata_dropped: Any
    drop_sample: Any
    dropped: Any
    queue_size: Any
    consumers: Any
    queue_full: Any
    over_limit: Any
    write: Any
    write_error: Any
    duration: Any
    written: Any
    rejected: Any
    lost: Any
    pending: Any
    spooled: Any
    replayed: Any
    spool_found: Any
    spool_entries: Any
    spool_bytes: Any
    spool_age: Any
    cache: Any
    cache_entries: Any
    wire: Any

    @classmethod
    def make(cls, metrics: Metrics) -> GatewayMetrics:
        """Register all of them."""
        return cls(**{name: _make(metrics, row) for name, row in TABLE.items()})


# Kinds are `counter`, `tally` (a counter with very many values, whose specified name lacks `_total`), `histogram`, or the way
# in which a gauge is combined over processes.


def _make(metrics: Metrics, row: tuple[str, str, str, tuple[str, ...]]) -> Any:
    kind, name, doc, labels = row
    name = "svc_pushgw_" + name
    if kind == "counter":
        return metrics.counter(name, doc, labels)
    if kind == "tally":
        return metrics.tally(name, doc, *labels)
    if kind == "histogram":
        return metrics.histogram(name, doc, labels, DURATIONS)
    return metrics.gauge(name, doc, labels, mode=kind)


TABLE: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "received": ("counter", "samples_received_total", "Series received, by protocol.", ("channel",)),
    "by_ident": ("tally", "sample_received_by_ident", "Series received, by host.", ("host_ident",)),
    "idents_not_counted": (
        "counter", "sample_idents_not_counted_total", "Series of hosts beyond Pushgw.MaxIdentMetrics.", ()),
    "request_errors": ("counter", "request_errors_total", "Requests refused, by protocol.", ("channel", "reason")),
    "items_failed": (
        "counter", "items_failed_total", "Items refused one by one in requests that were taken.", ("channel",)),
    "metadata_dropped": ("counter", "metadata_dropped_total", "Metadata entries no backend wanted, or one did not take.", ()),
    "drop_sample": ("counter", "drop_sample_total", "Series discarded by drop rules.", ()),
    "dropped": ("counter", "dropped_total", "Series that did not reach a queue, by reason.", ("reason",)),
    "queue_size": ("livesum", "sample_queue_size", "Series waiting in a queue.", ("queueid",)),
    "consumers": ("livesum", "queue_consumers", "Threads that take series out of a queue.", ("queueid",)),
    "queue_full": ("counter", "push_queue_error_total", "Series dropped because a queue was full.", ("queueid",)),
    "over_limit": ("counter", "push_queue_over_limit_error_total", "Requests refused above the water mark.", ()),
    "write": ("counter", "write_total", "Series handed to a backend, before the first attempt.", ("url",)),
    "write_error": ("counter", "write_error_total", "Series of failed attempts and of lost batches.", ("url",)),
    "duration": ("histogram", "forward_duration_seconds", "Time to write a batch, retries included.", ("url",)),
    "written": ("counter", "written_total", "Series that a backend took.", ("url",)),
    "rejected": ("counter", "write_rejected_total", "Series that a backend refused, by status.", ("url", "code")),
    "lost": ("counter", "writer_dropped_total", "Series that did not reach a backend, by reason.", ("url", "reason")),
    "pending": ("livesum", "writer_pending", "Series that a backend has yet to be given.", ("url",)),
    "spooled": ("counter", "spooled_total", "Series put on disk for a backend.", ("url",)),
    "replayed": ("counter", "spool_replayed_total", "Series of the disk that a backend took or refused.", ("url",)),
    "spool_found": ("counter", "spool_found_total", "Series on disk for a backend that an earlier start left.", ("url",)),
    "spool_entries": ("livesum", "spool_series", "Series on disk for a backend.", ("url",)),
    "spool_bytes": ("livesum", "spool_bytes", "Bytes on disk for a backend.", ("url",)),
    "spool_age": ("livemax", "spool_age_seconds", "Age of the oldest batch on disk for a backend.", ("url",)),
    "cache": ("counter", "label_cache_total", "Label cache look-ups and evictions.", ("cache", "outcome")),
    "cache_entries": ("livesum", "label_cache_entries", "Label sets remembered.", ("cache",)),
    "wire": ("livemax", "wire_info", "Which implementation of the wire functions runs.", ("implementation",)),
}  # fmt: skip
