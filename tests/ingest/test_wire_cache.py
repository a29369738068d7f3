"""The label cache against the plain one: evictions, invalidations and forgetting everything, in any order and at any size."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.test_wire_fuzz import fuzz

from tocsin.ingest.hosts import NoHosts, Target
from tocsin.ingest.interface import Verdict
from tocsin.ingest.labels import COLLECTOR, LabelRules, LabelWork

IDENTS = ("", "a", "b", "c", "d")


class Versions:
    """A resolver whose verdicts on a host differ after each change of it, so that a stale one shows."""

    def __init__(self, shared):
        self.now = {}
        self._shared = shared

    def __call__(self, labels):
        ident = dict(labels).get(b"agent_hostname", b"").decode()
        text = b"%s-%d" % (ident.encode(), self.now.get(ident, 0))
        if not self._shared:
            text += b"-" + dict(labels)[b"n"]  # no two series have the same verdict
        return Verdict([*labels, (b"z", text)], ident, "rule" if self.now.get(ident, 0) % 3 == 2 else "")


class Registered(NoHosts):
    """Hosts with a tag that differs after each change of them."""

    def __init__(self):
        self.now = {}

    def lookup(self, ident):
        return Target({b"z": b"%d" % self.now.get(ident, 0)}, b"")


RESOLVERS: dict[str, Any] = {
    "shared verdicts": lambda: Versions(True),
    "verdicts of their own": lambda: Versions(False),
    "label work": lambda: LabelWork(LabelRules(drop=[{b"z": b"2"}]), Registered(), COLLECTOR),
}


class Both:
    """A cache of each twin, which are told the same."""

    def __init__(self, twins, kind, capacity, make_body, make_series):
        self._resolve = RESOLVERS[kind]()
        self._now = getattr(self._resolve, "targets", self._resolve).now
        self._twins = twins
        self.caches = [twin.LabelCache(self._resolve, capacity) for twin in twins]
        self._make_body, self._make_series = make_body, make_series
        self._known = {}

    def rewrite(self, chosen):
        """Send series of hosts; the twins agree, and a cache that knows nothing agrees with them."""
        body = self._make_body(*map(self._series, chosen))
        plain, compiled = (twin.rewrite(body, cache) for twin, cache in zip(self._twins, self.caches, strict=True))
        assert plain == compiled
        assert plain == self._twins[0].rewrite(body, self._twins[0].LabelCache(self._resolve, 2))

    def change(self, idents):
        """Change hosts."""
        for ident in idents:
            self._now[ident] = self._now.get(ident, 0) + 1
        for cache in self.caches:
            cache.invalidate(idents)

    def clear(self):
        """Forget everything."""
        for cache in self.caches:
            cache.clear()

    def stats(self):
        return [cache.stats() for cache in self.caches]

    def _series(self, one):
        ident, number = one
        if one not in self._known:
            pairs = [(b"agent_hostname", ident.encode()), (b"n", b"%d" % number)]
            self._known[one] = self._make_series(pairs=[pair for pair in pairs if pair[1]])
        return self._known[one]


series = st.tuples(st.sampled_from(IDENTS), st.integers(0, 5))
steps = st.lists(
    st.lists(series, max_size=8) | st.sets(st.sampled_from(IDENTS), min_size=1) | st.none(), min_size=1, max_size=25
)


@fuzz
@given(st.sampled_from(sorted(RESOLVERS)), st.integers(0, 9), steps)
def test_small_caches(twins, make_body, make_series, kind, capacity, steps):
    both = Both(twins, kind, capacity, make_body, make_series)
    for step in steps:
        if step is None:
            both.clear()
        elif isinstance(step, set):
            both.change(step)
        else:
            both.rewrite(step)
        plain, compiled = both.stats()
        assert plain == compiled


@pytest.mark.parametrize("kind", sorted(RESOLVERS))
@pytest.mark.parametrize("capacity", [3, 1538, 100_000])
def test_tables_that_grow_and_are_swept(twins, make_body, make_series, kind, capacity):
    """So many series that tables are full, and so many changes that what is stale is swept from both generations."""
    chosen = random.Random(f"{kind}{capacity}")
    hosts = [f"host-{n}" for n in range(1100)]
    both = Both(twins, kind, capacity, make_body, make_series)
    for _ in range(4):
        for _ in range(3):
            start = chosen.randrange(len(hosts))
            both.rewrite([(ident, chosen.randrange(2)) for ident in hosts[start : start + chosen.randrange(900)]])
            both.change({ident for ident in hosts if chosen.random() < 0.1})
            both.rewrite([(chosen.choice(hosts), chosen.randrange(2)) for _ in range(300)])
        if chosen.random() < 0.5:
            both.change(set(hosts[: chosen.randrange(len(hosts))]))
        stats = both.stats()[1]
        assert stats.entries <= max(2, capacity)
    assert stats.hits > 0 or capacity == 3
