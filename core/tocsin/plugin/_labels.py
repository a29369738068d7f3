"""Label sets for protocols of text and JSON: names made fit for Prometheus, encodings remembered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tocsin.ingest.interface import MAX_CACHED_LABELS, CacheStats
from tocsin.plugin._wire import encode_labels

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*").fullmatch
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*").fullmatch
_SEPARATORS = str.maketrans(".-", "__")
_ENTRY_BYTES = 200
"""What an entry costs beside its two texts: two objects, a slot, a key."""


def metric_name(name: str) -> str:
    """Return a metric name with dots and dashes as underscores; raise :class:`ValueError` when that is none."""
    clean = name.translate(_SEPARATORS)
    if not _METRIC(clean):
        raise ValueError(f"invalid metric name: {name[:200]}")
    return clean


def tag_name(name: str) -> str:
    """Return a label name with dots and dashes as underscores; raise :class:`ValueError` when that is none.

    Neither is the name of the label that holds the metric's name.
    """
    clean = name.translate(_SEPARATORS)
    if not _LABEL(clean) or clean == "__name__":
        raise ValueError(f"invalid tag name: {name[:200]}")
    return clean


def encode_texts(labels: Iterable[tuple[str, str]]) -> bytes:
    """Encode labels given as texts; raise :class:`~tocsin.plugin.WireError` for an empty name or a lone surrogate."""
    return encode_labels([(name.encode(errors="surrogatepass"), value.encode(errors="surrogatepass"))
                          for name, value in labels])  # fmt: skip


class LabelSets:
    """Encoded label sets by what stands for them in a protocol, so that each is cleaned and encoded once.

    Two generations: what is not asked for while the younger one fills up to ``max_bytes`` / 2 is forgotten.  Threads may
    share it: losing a race costs an encoding, nothing else.
    """

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._half = max(1, max_bytes // 2)
        self._young: dict[Any, bytes] = {}
        self._old: dict[Any, bytes] = {}
        self._size = 0
        self._hits = self._misses = self._evictions = 0

    def get(self, key: Any) -> bytes | None:
        """Return the encoded labels that a key stands for, None when they are not known."""
        labels = self._young.get(key)
        if labels is not None:
            self._hits += 1
            return labels
        labels = self._old.get(key)
        if labels is None:
            self._misses += 1
            return None
        self._hits += 1
        self.put(key, labels)
        return labels

    def put(self, key: Any, labels: bytes) -> None:
        """Remember the labels of a key: a text, bytes, or a tuple of bytes.  Very long ones are not kept."""
        size = len(labels) + (len(key) if isinstance(key, bytes | str) else sum(map(len, key)))
        if size > 2 * MAX_CACHED_LABELS:
            return
        self._size += size + _ENTRY_BYTES
        if self._size > self._half:
            self._evictions += len(self._old)
            self._old, self._young = self._young, {}
            self._size = size + _ENTRY_BYTES
        self._young[key] = labels

    def stats(self) -> CacheStats:
        """Return the counters since it was made."""
        return CacheStats(self._hits, self._misses, self._evictions, len(self._young) + len(self._old))
