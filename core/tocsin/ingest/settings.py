"""The settings of the gateway, `[Pushgw]`; the arrays of writers belong to the plugins that know them."""

from __future__ import annotations

import os
from typing import Any

from tocsin.app.settings import at_least, key, section


def default_queues() -> int:
    """Return the number of queues on this machine: one per CPU, or 128 on a single one."""
    cpus = os.cpu_count() or 1
    return cpus if cpus > 1 else 128


@section("")
class WriterOptions:
    """Queues between the receiving endpoints and the writers, for all HTTP workers together."""

    queue_number: int = key("QueueNumber", 0, "queues; 0 means one per CPU, or 128 on a single CPU")
    queue_max_size: int = key("QueueMaxSize", 1_000_000, "series one queue holds; more are dropped and counted")
    queue_pop_size: int = key("QueuePopSize", 1000, "series a writer gets at once")
    queue_water_mark: float = key("QueueWaterMark", 0.1, "share of all queues above which requests are refused")
    size_interval: int = key(
        "AllQueueMaxSizeInterval", 200, "milliseconds between two looks at the length of all queues"
    )
    retry_count: int = key("RetryCount", 1000, "attempts to write a batch; at most 3 for writers with AsyncWrite")
    retry_interval: int = key("RetryInterval", 1, "seconds between two attempts")
    over_limit_status: int = key(
        "OverLimitStatusCode", 499, "status of requests above the water mark, on the endpoints that look at it"
    )
    linger: int = key("BatchLinger", 200, "milliseconds that series wait for a batch to fill", check=at_least(0))
    spool_directory: str = key(
        "SpoolDir", "", "directory for batches that a writer cannot take; empty keeps none on disk"
    )
    spool_max_bytes: int = key("SpoolMaxBytes", 1 << 30, "bytes that one writer's spool may hold", check=at_least(1))

    def effective(self) -> WriterOptions:
        """Return the options with defaults in place of numbers that are not above 0."""
        default = WriterOptions()
        chosen: dict[str, Any] = {name: getattr(self, name) for name in _UNCHECKED}
        for name in _ABOVE_ZERO:
            value = getattr(self, name)
            chosen[name] = value if value > 0 else getattr(default, name)
        chosen["queue_number"] = chosen["queue_number"] or default_queues()
        return WriterOptions(**chosen)


_UNCHECKED = ("linger", "spool_directory", "spool_max_bytes")
_ABOVE_ZERO = (
    *("queue_number", "queue_max_size", "queue_pop_size", "queue_water_mark", "size_interval"),
    *("retry_count", "retry_interval", "over_limit_status"),
)


@section("Pushgw")
class PushgwSettings:
    """The ingest gateway. Each kind of writer adds an array of its own, like `[[Pushgw.Writers]]`."""

    label_rewrite: bool = key("LabelRewrite", True, "labels registered for a host replace those of its series")
    force_server_time: bool = key(
        "ForceUseServerTS",
        True,
        "the first sample of each series gets the time at which it arrived here",
    )
    group_key: str = key("BusiGroupLabelKey", "busigroup", "label that names the business group of a series")
    heartbeat_from_metric: bool = key("GetHeartbeatFromMetric", False, "series register their hosts, like heartbeats")
    ident_metrics: list[str] = key("IdentMetrics", [], "names of the metrics that register hosts; empty means all")
    debug_sample: dict[str, str] = key("DebugSample", {}, "labels of series to log at level DEBUG")
    drop_sample: list[dict[str, str]] = key("DropSample", [], "series with all labels of one of these are dropped")
    label_cache_size: int = key("LabelCacheSize", 1_000_000, "label sets a worker remembers", check=at_least(2))
    max_decoded_bytes: int = key("MaxDecodedBytes", 64 << 20, "largest request after decompression", check=at_least(1))
    max_idents: int = key(
        "MaxIdentMetrics", 10_000, "hosts counted by name in the metrics of a worker", check=at_least(0)
    )
    proxy_inflight: int = key(
        "ProxyInflightMax", 1000, "requests that /proxy/v1/write serves at once", check=at_least(1)
    )
    proxy_max_body: int = key("ProxyMaxBodyBytes", 32 << 20, "largest body for /proxy/v1/write", check=at_least(1))
    proxy_concurrent: bool = key("ProxyConcurrentForward", False, "forward to all writers at once, not one by one")
    target_retries: int = key("UpdateTargetRetryCount", 3, "attempts to write when hosts were seen", check=at_least(1))
    target_retry_interval: int = key(
        "UpdateTargetRetryIntervalMills", 500, "milliseconds between two of these attempts", check=at_least(0)
    )
    target_timeout: int = key(
        "UpdateTargetTimeoutMills", 3000, "milliseconds for all attempts to write a hundred hosts", check=at_least(1)
    )
    target_batch: int = key("UpdateTargetBatchSize", 20, "hosts written at once", check=at_least(1))
    writer_options: WriterOptions = key("WriterOpt", WriterOptions, "")
    arrays: dict[str, Any] = key("*", {}, "one array of tables for each kind of writer")
