"""The series index: label bytes -> series id, and which series carry which label.

Ids are small integers that live as long as the process. The identity of a series is its canonical key: the label fields of its
`TimeSeries` message, sorted by label name, without empty values. A sender that orders labels differently gets an alias, so
that a known series costs one dictionary look-up whatever its sender does.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import numpy as np

from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.wire import Int32Array, Labels

ALIAS_ROOM = 100_000
LABELS_ROOM = 1 << 17
"""Series whose decoded labels are kept; the labels themselves are shared, so one costs little more than a tuple."""
INVALID = -1


class SeriesIndex:
    """All series that the store holds. Look-ups in `ids` need no lock; everything else takes it for a moment."""

    def __init__(self, clock: Callable[[], float], reuse_after: float) -> None:
        """`clock` gives seconds; the id of a removed series is used again after `reuse_after` seconds, when no query that
        resolved it can still be running."""
        self.ids: dict[bytes, int] = {}
        self.generation = 0
        self.created = 0
        self.removed = 0
        self.symbol_bytes = 0
        self._clock = clock
        self._reuse_after = reuse_after
        self._lock = threading.RLock()
        self._keys: list[bytes | None] = []
        self._texts: dict[bytes, tuple[str, str]] = {}
        self._postings: dict[str, dict[str, array[int]]] = {}
        self._sorted_values: dict[str, list[str]] = {}
        self._epochs: dict[str, int] = {}
        self._aliases: set[bytes] = set()
        self._labels: dict[int, Labels] = {}
        self._retired: deque[tuple[float, int]] = deque()

    def __len__(self) -> int:
        return self.created - self.removed

    @property
    def capacity(self) -> int:
        """One more than the highest id ever given."""
        return len(self._keys)

    def key(self, sid: int) -> bytes:
        """Return the canonical key of a series."""
        found = self._keys[sid]
        if found is None:
            raise KeyError(sid)
        return found

    def labels(self, sids: Sequence[int]) -> list[Labels]:
        """Return the labels of series, sorted by name; no labels for a series that was removed."""
        known = self._labels
        missing = [sid for sid in sids if sid not in known]
        if missing:
            if len(known) + len(missing) > LABELS_ROOM:
                known = self._labels = {}
                missing = list(sids)
            keys = self._keys
            found: list[Labels] = wire.labels_of([keys[sid] or b"" for sid in missing], self._texts)
            known.update(zip(missing, found, strict=True))
        return [known[sid] for sid in sids]

    def register(self, keys: Iterable[bytes]) -> list[int]:
        """Return the id of each series, creating what is new; `INVALID` where the labels are empty, double or not text."""
        with self._lock:
            return [self._register(key) for key in keys]

    def _register(self, raw: bytes) -> int:
        known = self.ids.get(raw)
        if known is not None:
            return known
        try:
            parts = self._canonical_parts(raw)
        except ValueError:
            return INVALID
        key = wire.join_labels([part for _, part in parts])
        sid = self.ids.get(key)
        if sid is None:
            sid = self._create(key, parts)
        if raw != key:
            self._alias(raw, sid)
        return sid

    def _canonical_parts(self, raw: bytes) -> list[tuple[tuple[str, str], bytes]]:
        """Return the sorted labels of a series, each with its canonical bytes; parts seen before are not parsed again."""
        parts = []
        for part in wire.split_labels(raw):
            label = self._texts.get(part)
            if label is None:
                label = wire.label_of(part)
                part = wire.encode_label(*label)
            if label[1]:
                parts.append((label, part))
        parts.sort()
        names = {label[0] for label, _ in parts}
        if not parts or "" in names or len(names) != len(parts):
            raise ValueError("a series needs labels, each with a name of its own")
        return parts

    def _alias(self, raw: bytes, sid: int) -> None:
        if len(self._aliases) >= ALIAS_ROOM + len(self):
            for alias in self._aliases:
                del self.ids[alias]
            self._aliases.clear()
        self._aliases.add(raw)
        self.ids[raw] = sid

    def _create(self, key: bytes, parts: list[tuple[tuple[str, str], bytes]]) -> int:
        sid = self._free_id(key)
        for label, part in parts:
            name, value = self._texts.setdefault(part, label)
            values = self._postings.setdefault(name, {})
            posting = values.get(value)
            if posting is None:
                self.symbol_bytes += len(part)
                values[value] = array("i", (sid,))
                self._sorted_values.pop(name, None)
            elif posting[-1] < sid:
                posting.append(sid)
            else:
                posting.insert(bisect_left(posting, sid), sid)
        self.ids[key] = sid
        self.created += 1
        self.generation += 1
        return sid

    def _free_id(self, key: bytes) -> int:
        if self._retired and self._retired[0][0] <= self._clock() - self._reuse_after:
            sid = self._retired.popleft()[1]
            self._labels.pop(sid, None)  # a query that was late may have asked for the labels of the removed series
            self._keys[sid] = key
            return sid
        self._keys.append(key)
        return len(self._keys) - 1

    def remove(self, sids: Iterable[int]) -> None:
        """Forget series that no sample refers to any more."""
        with self._lock:
            gone = {sid for sid in sids if self._keys[sid] is not None}
            if not gone:
                return
            for alias in [alias for alias in self._aliases if self.ids[alias] in gone]:
                self._aliases.discard(alias)
                del self.ids[alias]
            touched: dict[tuple[str, str], bytes] = {}
            now = self._clock()
            for sid in gone:
                key = self.key(sid)
                touched.update(zip(self.labels([sid])[0], wire.split_labels(key), strict=True))
                del self.ids[key]
                self._keys[sid] = None
                self._retired.append((now, sid))
            for (name, value), part in touched.items():
                self._shrink(name, value, part, gone)
            self._labels = {}
            self.removed += len(gone)
            self.generation += 1

    def _shrink(self, name: str, value: str, part: bytes, gone: set[int]) -> None:
        values = self._postings[name]
        left = array("i", [sid for sid in values[value] if sid not in gone])
        if left:
            values[value] = left
            return
        del values[value], self._texts[part]
        self.symbol_bytes -= len(part)
        self._sorted_values.pop(name, None)
        self._epochs[name] = self._epochs.get(name, 0) + 1
        if not values:
            del self._postings[name]

    def posting(self, name: str, value: str) -> Int32Array:
        """Return the ascending ids of the series that carry a label."""
        with self._lock:
            found = self._postings.get(name, {}).get(value)
            return np.empty(0, np.int32) if found is None else np.frombuffer(found, np.int32).copy()

    def union(self, name: str, values: Sequence[str]) -> Int32Array:
        """Return the ids (in no order) of the series that carry any of these values."""
        with self._lock:
            postings = self._postings.get(name, {})
            wanted = [postings[value] for value in values if value in postings]
            return np.frombuffer(b"".join([posting.tobytes() for posting in wanted]), np.int32)

    def count_values(self, name: str) -> int:
        """Return the number of distinct values of a label."""
        return len(self._postings.get(name, ()))

    def values_epoch(self, name: str) -> tuple[int, int]:
        """Return a number that changes when values of a label go, and how many there are now; new ones come at the end."""
        with self._lock:
            return self._epochs.get(name, 0), len(self._postings.get(name, ()))

    def values_from(self, name: str, first: int, end: int) -> list[str]:
        """Return the values [first, end) of a label in order of arrival."""
        with self._lock:
            return list(islice(self._postings.get(name, ()), first, end))

    def all_series(self) -> Int32Array:
        """Return the ascending ids of every series."""
        with self._lock:
            return np.flatnonzero(np.array([key is not None for key in self._keys], bool)).astype(np.int32)

    def values(self, name: str) -> list[str]:
        """Return the sorted distinct values of a label. The list is shared: do not change it."""
        with self._lock:
            found = self._sorted_values.get(name)
            if found is None:
                found = self._sorted_values[name] = sorted(self._postings.get(name, ()))
            return found

    def values_among(self, name: str, sids: Int32Array) -> list[str]:
        """Return the sorted distinct values that a label has on some series."""
        if len(sids) < self.count_values(name):
            return sorted({value for labels in self.labels(sids.tolist()) for label, value in labels if label == name})
        wanted = np.zeros(self.capacity, bool)
        wanted[sids] = True
        flags = wanted.tobytes()
        with self._lock:
            postings = self._postings.get(name, {})
            return sorted(
                value
                for value, posting in postings.items()
                # NumPy costs more than it saves on the short postings of labels with a value per series
                if flags[posting[0]] or (len(posting) > 1 and wanted[np.frombuffer(posting, np.int32)].any())
            )

    def names(self) -> list[str]:
        """Return the sorted label names in use."""
        with self._lock:
            return sorted(self._postings)

    def cardinalities(self) -> dict[str, dict[str, int]]:
        """Return label name -> value -> number of series."""
        with self._lock:
            return {
                name: {value: len(sids) for value, sids in values.items()} for name, values in self._postings.items()
            }
