"""The storage engine's metrics, under the names that Prometheus dashboards expect; those of our own start with `svc_tsdb_`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary

_COUNTERS = {
    "series_created": ("prometheus_tsdb_head_series_created", "Series added to the index.", ()),
    "series_removed": ("prometheus_tsdb_head_series_removed", "Series removed from the index.", ()),
    "appended": ("prometheus_tsdb_head_samples_appended", "Samples stored.", ("type",)),
    "late": ("prometheus_tsdb_head_out_of_order_samples_appended", "Late samples stored.", ()),
    "out_of_order": (
        "prometheus_tsdb_out_of_order_samples",
        "Samples refused as out of order without a window.",
        ("type",),
    ),
    "too_old": ("prometheus_tsdb_too_old_samples", "Samples refused as older than the out-of-order window.", ("type",)),
    "out_of_bounds": (
        "prometheus_tsdb_out_of_bound_samples",
        "Samples refused as too far in the future or past.",
        ("type",),
    ),
    "conflicts": ("svc_tsdb_conflicting_samples", "Samples refused: same series and time, another value.", ()),
    "duplicates": ("svc_tsdb_duplicate_samples", "Samples that were stored already, with the same value.", ()),
    "invalid": ("svc_tsdb_invalid_samples", "Samples refused: empty, repeated or unreadable labels.", ()),
    "ignored": (
        "svc_tsdb_ignored_histograms_and_exemplars",
        "Native histograms and exemplars in writes; not stored.",
        (),
    ),
    "merged_away": ("svc_tsdb_merged_duplicates", "Repeated timestamps dropped when blocks were written.", ()),
    "chunks_created": ("prometheus_tsdb_head_chunks_created", "Sorted runs created in the head.", ()),
    "write_failures": (
        "svc_tsdb_commit_failures",
        "Write requests refused because they could not be made durable.",
        (),
    ),
    "wal_corruptions": ("prometheus_tsdb_wal_corruptions", "Torn or altered log segments found.", ()),
    "block_corruptions": ("svc_tsdb_block_corruptions", "Torn or altered blocks found and set aside.", ()),
    "compactions_triggered": ("prometheus_tsdb_compactions_triggered", "Compaction rounds started.", ()),
    "compactions": ("prometheus_tsdb_compactions", "Blocks written, from the head or from blocks.", ()),
    "compactions_failed": ("prometheus_tsdb_compactions_failed", "Blocks that could not be written.", ()),
    "reloads": ("prometheus_tsdb_reloads", "Changes of the set of blocks.", ()),
    "time_retentions": ("prometheus_tsdb_time_retentions", "Blocks deleted because of their age.", ()),
    "size_retentions": ("prometheus_tsdb_size_retentions", "Blocks deleted because of the size limit.", ()),
    "maintenance_errors": ("svc_tsdb_maintenance_errors", "Maintenance rounds that failed.", ()),
}
_GAUGES = {
    "head_series": ("prometheus_tsdb_head_series", "Series in the index."),
    "head_chunks": ("prometheus_tsdb_head_chunks", "Sorted runs in the head."),
    "head_min_time": ("prometheus_tsdb_head_min_time", "Oldest sample in the head (ms)."),
    "head_max_time": ("prometheus_tsdb_head_max_time", "Newest sample in the head (ms)."),
    "active_appenders": ("prometheus_tsdb_head_active_appenders", "Write requests being stored."),
    "blocks_bytes": ("prometheus_tsdb_storage_blocks_bytes", "Bytes in blocks."),
    "blocks_loaded": ("prometheus_tsdb_blocks_loaded", "Blocks open."),
    "retention_limit": ("prometheus_tsdb_retention_limit_bytes", "Size limit of the blocks; 0 is none."),
    "lowest_timestamp": ("prometheus_tsdb_lowest_timestamp", "Oldest sample in the store (ms)."),
    "symbol_bytes": ("prometheus_tsdb_symbol_table_size_bytes", "Bytes of labels in the index."),
    "replay_seconds": (
        "prometheus_tsdb_data_replay_duration_seconds",
        "Time that the replay of the log took at start.",
    ),
    "wal_segment": ("prometheus_tsdb_wal_segment_current", "Number of the log segment that is written."),
}
_SUMMARIES = {
    "wal_truncate": (
        "prometheus_tsdb_wal_truncate_duration_seconds",
        "Time to delete log segments that are in blocks.",
    ),
    "compaction_seconds": ("prometheus_tsdb_compaction_duration_seconds", "Time to write a block."),
}


class StoreMetrics:
    """One attribute per metric of the tables above."""

    series_created: Counter
    series_removed: Counter
    appended: Counter
    late: Counter
    out_of_order: Counter
    too_old: Counter
    out_of_bounds: Counter
    conflicts: Counter
    duplicates: Counter
    invalid: Counter
    ignored: Counter
    merged_away: Counter
    chunks_created: Counter
    write_failures: Counter
    wal_corruptions: Counter
    block_corruptions: Counter
    compactions_triggered: Counter
    compactions: Counter
    compactions_failed: Counter
    reloads: Counter
    time_retentions: Counter
    size_retentions: Counter
    maintenance_errors: Counter
    head_series: Gauge
    head_chunks: Gauge
    head_min_time: Gauge
    head_max_time: Gauge
    active_appenders: Gauge
    blocks_bytes: Gauge
    blocks_loaded: Gauge
    retention_limit: Gauge
    lowest_timestamp: Gauge
    symbol_bytes: Gauge
    replay_seconds: Gauge
    wal_segment: Gauge
    wal_truncate: Summary
    compaction_seconds: Summary

    def __init__(self, registry: CollectorRegistry) -> None:
        for attribute, (name, text, labels) in _COUNTERS.items():
            counter = Counter(name, text, labels, registry=registry)
            setattr(self, attribute, counter.labels("float") if labels else counter)
        for attribute, (name, text) in _GAUGES.items():
            setattr(self, attribute, Gauge(name, text, registry=registry, multiprocess_mode="livesum"))
        for attribute, (name, text) in _SUMMARIES.items():
            setattr(self, attribute, Summary(name, text, registry=registry))
