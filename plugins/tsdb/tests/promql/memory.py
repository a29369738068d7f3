"""A store that holds series in memory and answers selections the straightforward way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tocsin_tsdb.promql.interface import Labels, Matcher, Selection, TooManySamples, go_on
from tocsin_tsdb.promql.regex import predicate


class MemoryStore:
    """Series by labels; samples must be added in order of time."""

    def __init__(self) -> None:
        self.series: dict[Labels, tuple[list[int], list[float]]] = {}

    def copy(self) -> MemoryStore:
        """Return an independent store with the same series."""
        other = MemoryStore()
        other.series = {key: (list(stamps), list(values)) for key, (stamps, values) in self.series.items()}
        return other

    def add(self, labels: Mapping[str, str], timestamps: Iterable[int], values: Iterable[float]) -> None:
        """Append samples to a series."""
        key = tuple(sorted((name, value) for name, value in labels.items() if value))
        stamps, numbers = self.series.setdefault(key, ([], []))
        stamps.extend(int(each) for each in timestamps)
        numbers.extend(values)
        assert len(stamps) == len(numbers)

    def select(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        *,
        max_samples: int,
        check: Callable[[], None] = go_on,
    ) -> Selection:
        """Return the matching series; see `Queryable`."""
        tests = [(matcher.name, predicate(matcher)) for matcher in matchers]
        labels: list[Labels] = []
        stamps: list[np.ndarray] = []
        values: list[np.ndarray] = []
        for key, (times, numbers) in self.series.items():
            own = dict(key)
            if not all(test(own.get(name, "")) for name, test in tests):
                continue
            low, high = np.searchsorted(times, start_ms, "left"), np.searchsorted(times, end_ms, "right")
            if low < high:
                labels.append(key)
                stamps.append(np.array(times[low:high], dtype=np.int64))
                values.append(np.array(numbers[low:high], dtype=np.float64))
        offsets = np.concatenate(([0], np.cumsum([len(each) for each in stamps]))).astype(np.int64)
        if offsets[-1] > max_samples:
            raise TooManySamples
        if not labels:
            return Selection([], offsets, np.empty(0, dtype=np.int64), np.empty(0))
        return Selection(labels, offsets, np.concatenate(stamps), np.concatenate(values))
