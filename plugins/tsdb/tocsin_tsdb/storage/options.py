"""What a store is told at start; times in milliseconds, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
BLOCK_RANGE = 2 * HOUR


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """`max_bytes` 0 means unlimited.

    Samples older than the newest one by more than `out_of_order_window` are refused, unless they are in order for their
    series and at most half a block range old; samples newer than the clock by more than `future_window` are refused always.
    """

    directory: Path
    retention: int = 15 * DAY
    max_bytes: int = 0
    out_of_order_window: int = 10 * MINUTE
    future_window: int = 10 * MINUTE
    block_range: int = BLOCK_RANGE
    memtable_samples: int = 2_000_000
    tail_samples: int = 1 << 17
    frozen_memtables: int = 4
    rows_per_file: int = 1 << 19
    hot_bytes: int = 96 << 20
    duckdb_memory: int = 192 << 20
    duckdb_threads: int = 1
    id_reuse_seconds: float = 900.0

    @property
    def largest_block(self) -> int:
        """The widest span that blocks are merged to: a tenth of the retention, at most 31 days, at least one block range."""
        return max(self.block_range, min(self.retention // 10, 31 * DAY))
