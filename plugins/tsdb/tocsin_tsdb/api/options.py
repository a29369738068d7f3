"""What the API is told at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

VERSION = "2.49.1"
"""The Prometheus API level that clients may expect."""
REVISION = "svc-embedded-tsdb"
MAX_BODY = 32 << 20
"""Largest write request in bytes, compressed and decompressed alike."""
MAX_POINTS = 11_000


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Times in seconds. `flags` and `config` are shown by the status endpoints; they hold no secrets."""

    query_timeout: float = 60.0
    query_concurrency: int = 20
    write_concurrency: int = 64
    enable_admin: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    prefix: str = ""
