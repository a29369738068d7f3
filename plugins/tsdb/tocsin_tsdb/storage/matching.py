"""Matchers against the series index: every condition is decided once per distinct label value."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from tocsin_tsdb.promql.interface import Matcher
from tocsin_tsdb.promql.regex import predicate
from tocsin_tsdb.storage.index import SeriesIndex
from tocsin_tsdb.storage.wire import Int32Array

CACHE_ROOM = 256


class MatcherEvaluator:
    """Resolves matchers to series ids; answers are remembered until the set of series changes."""

    def __init__(self, index: SeriesIndex) -> None:
        self._index = index
        self._cache: OrderedDict[tuple[Matcher, ...], tuple[int, Int32Array]] = OrderedDict()
        self._lock = threading.Lock()
        self._odd_ones = _OddOnes(index)

    def resolve(self, matchers: Sequence[Matcher]) -> Int32Array:
        """Return the ascending ids of the series that satisfy all matchers; every series when there are none."""
        wanted = tuple(matchers)
        generation = self._index.generation
        with self._lock:
            cached = self._cache.get(wanted)
            if cached is not None and cached[0] == generation:
                self._cache.move_to_end(wanted)
                return cached[1]
        found = self._evaluate(wanted)
        with self._lock:
            self._cache[wanted] = (generation, found)
            self._cache.move_to_end(wanted)
            if len(self._cache) > CACHE_ROOM:
                self._cache.popitem(last=False)
        return found

    def _evaluate(self, matchers: tuple[Matcher, ...]) -> Int32Array:
        exact = [m for m in matchers if m.op == "=" and m.value]
        found: Int32Array | None = None
        for matcher in exact:
            posting = self._index.posting(matcher.name, matcher.value)
            found = posting if found is None else np.intersect1d(found, posting, assume_unique=True)
            if len(found) == 0:
                return found
        for matcher in matchers:
            if matcher in exact:
                continue
            if found is None:
                found = self._index.all_series()
            found = self._filter(found, matcher)
        return self._index.all_series() if found is None else found

    def _filter(self, found: Int32Array, matcher: Matcher) -> Int32Array:
        """Keep the series that satisfy one matcher. An absent label counts as the empty value."""
        accepts = predicate(matcher)
        if len(found) < self._index.count_values(matcher.name):
            return self._filter_one_by_one(found, matcher.name, accepts)
        keep_absent = accepts("")
        listed = self._odd_ones.of(matcher, accepts, keep_absent)
        hits = self._index.union(matcher.name, listed)
        size = int(max(found.max(initial=-1), hits.max(initial=-1))) + 1
        mask = np.zeros(size, bool)
        mask[hits] = True
        kept: Int32Array = found[mask[found] != keep_absent]
        return kept

    def _filter_one_by_one(self, found: Int32Array, name: str, accepts: Callable[[str], bool]) -> Int32Array:
        """Look at the labels of few series rather than at all values of a label."""
        decided: dict[str, bool] = {}
        keep = np.zeros(len(found), bool)
        for row, labels in enumerate(self._index.labels(found.tolist())):
            value = next((value for label, value in labels if label == name), "")
            verdict = decided.get(value)
            if verdict is None:
                verdict = decided[value] = accepts(value)
            keep[row] = verdict
        return found[keep]


class _OddOnes:
    """For a matcher, the values of its label that it treats unlike an absent label. A value is tested once, not once per query."""

    def __init__(self, index: SeriesIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._known: OrderedDict[Matcher, tuple[int, int, list[str]]] = OrderedDict()

    def of(self, matcher: Matcher, accepts: Callable[[str], bool], keep_absent: bool) -> list[str]:
        """Return the values that `accepts` treats unlike the empty value."""
        epoch, size = self._index.values_epoch(matcher.name)
        with self._lock:
            known = self._known.get(matcher)
        tested, listed = (known[1], known[2]) if known is not None and known[0] == epoch else (0, [])
        fresh = self._index.values_from(matcher.name, tested, size)
        if fresh:
            listed = listed + [value for value in fresh if accepts(value) != keep_absent]
        with self._lock:
            self._known[matcher] = (epoch, tested + len(fresh), listed)
            self._known.move_to_end(matcher)
            if len(self._known) > CACHE_ROOM:
                self._known.popitem(last=False)
        return listed
