"""Matchers against the series index: every condition is decided once per distinct label value."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

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
        keep_absent = accepts("")
        values = self._index.values(matcher.name)
        listed = [value for value in values if accepts(value) != keep_absent]
        hits = self._index.union(matcher.name, None if len(listed) == len(values) else listed)
        size = int(max(found.max(initial=-1), hits.max(initial=-1))) + 1
        mask = np.zeros(size, bool)
        mask[hits] = True
        kept: Int32Array = found[mask[found] != keep_absent]
        return kept
