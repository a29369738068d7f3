"""What died with a process: series it had accepted and not handed on, worked out from the counters that it left behind.

Counters of all processes are files that outlive them, so after `kill -9` too the accounts close: whoever starts next counts
what is missing in them as lost.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from prometheus_client.multiprocess import MultiProcessCollector

from tocsin.ingest.board import alive
from tocsin.ingest.metrics import GatewayMetrics, Lost

NOT_FROM_MEMORY = frozenset((Lost.SPOOL, Lost.TORN, Lost.KILLED))
"""Losses that a process counted without having accepted the series: they were on disk, or in another process."""


def count_casualties(metrics: GatewayMetrics) -> None:
    """Count, for each backend, what processes that are gone had in memory; of several callers one counts each process."""
    directory = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    for file in Path(directory).glob("counter_*.db") if directory else ():
        pid = int(file.stem.partition("_")[2])
        if alive(pid) or not file.stat().st_size or not _is_first(file.with_name(f"accounted_{pid}")):
            continue
        for url, series in missing_in(file).items():
            metrics.lost.labels(url, Lost.KILLED).inc(series)


def _is_first(mark: Path) -> bool:
    """Leave a mark and return whether there was none."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def missing_in(file: Path) -> dict[str, int]:
    """Return, for each backend, the series in a process's counters that were accepted and of which no end is known."""
    accepted = 0.0
    settled: defaultdict[str, float] = defaultdict(float)
    signs = {"written": 1, "write_rejected": 1, "writer_dropped": 1, "spooled": 1, "spool_replayed": -1}
    for family in MultiProcessCollector.merge([str(file)]):  # type: ignore[no-untyped-call]
        name = family.name.removeprefix("svc_pushgw_")
        for sample in family.samples:
            if name in ("samples_received", "dropped"):
                accepted += sample.value if name == "samples_received" else -sample.value
            elif name in signs and sample.labels.get("reason") not in NOT_FROM_MEMORY:
                settled[sample.labels["url"]] += signs[name] * sample.value
    return {url: int(accepted - known) for url, known in settled.items() if url and accepted > known}
