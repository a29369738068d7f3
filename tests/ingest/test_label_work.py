"""The label work, compiled and plain, on the same bodies: equal bytes, equal counts, equal memory of what was seen."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.test_wire_fuzz import SEEDS, fuzz, mutate, mutations, outcome

from tocsin.ingest.hosts import NoHosts, Target
from tocsin.ingest.labels import COLLECTOR, COLLECTOR_OR_HOST, NOBODY, LabelRules, LabelWork

IDENTS = (b"", b"web01", b"web02", b"\xff", b"x" * 130)
NAMES = (
    b"ident",
    b"agent_hostname",
    b"hostname",
    b"host",
    b"busigroup",
    b"__name__",
    b"dc",
    b"a",
    b"b",
    b"zz",
    b"ident2",
)
VALUES = st.sampled_from((*IDENTS, b"up", b"fra", b"1")) | st.binary(max_size=3)

pairs = st.tuples(st.sampled_from(NAMES) | st.binary(max_size=2), VALUES)
many = st.integers(40, 70).map(lambda count: [(b"label%03d" % n, b"v") for n in range(count)])
label_sets = (
    st.dictionaries(st.sampled_from(NAMES), VALUES).map(lambda found: sorted(found.items()))
    | st.lists(pairs, max_size=8)
    | st.tuples(many, st.lists(pairs, max_size=3)).map(lambda both: both[0] + both[1])
)
mappings = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)
targets = st.builds(
    Target,
    st.dictionaries(st.sampled_from(NAMES) | st.binary(min_size=1, max_size=2), VALUES, max_size=20)
    | st.integers(60, 70).map(lambda count: {b"tag%03d" % n: b"x" for n in range(count)}),
    st.sampled_from((b"", b"infra")),
)
rules = st.builds(
    LabelRules,
    label_rewrite=st.booleans(),
    group_key=st.sampled_from((b"busigroup", b"dc", b"ident")),
    drop=st.lists(mappings, max_size=2),
    debug=mappings,
    register=st.booleans(),
    register_metrics=st.frozensets(st.sampled_from((b"up", b"", b"1"))),
)


class Hosts(NoHosts):
    """Hosts that a test changes."""

    def __init__(self, found):
        self.found = dict(found)
        self.asked = []

    def lookup(self, ident):
        self.asked.append(ident)
        return self.found.get(ident)


hosts = st.dictionaries(st.sampled_from([ident.decode(errors="replace") for ident in IDENTS]), targets, max_size=4)
ident_rules = st.sampled_from(
    (COLLECTOR, COLLECTOR_OR_HOST, NOBODY, dataclasses.replace(COLLECTOR, sources=((b"a", COLLECTOR.sources[1][1]),)))
)


def same_outcome(twins, caches, body):
    left, right = (
        outcome(lambda t=twin, c=cache: t.rewrite(body, c)) for twin, cache in zip(twins, caches, strict=True)
    )
    assert left == right
    assert caches[0].stats() == caches[1].stats()
    return left


@fuzz
@given(rules, hosts, ident_rules, st.lists(st.lists(label_sets, max_size=5), max_size=5), st.integers(2, 12))
def test_any_rules(twins, make_series, make_body, chosen, found, ident_rule, requests, capacity):
    work = LabelWork(chosen, Hosts(found), ident_rule)
    caches = [twin.LabelCache(work, capacity) for twin in twins]
    for request in requests * 2:
        same_outcome(twins, caches, make_body(*(make_series(pairs=labels) for labels in request)))


@fuzz
@given(
    rules, hosts, st.lists(label_sets, min_size=1, max_size=6), st.lists(st.tuples(hosts, st.booleans()), max_size=4)
)
def test_changes_of_hosts_show_at_once(twins, make_series, make_body, chosen, found, sets, changes):
    known = Hosts(found)
    work = LabelWork(chosen, known)
    caches = [twin.LabelCache(work, 8) for twin in twins]
    body = make_body(*(make_series(pairs=labels) for labels in sets))
    for changed, all_at_once in [*changes, ({}, False)]:
        same_outcome(twins, caches, body)
        known.found.update(changed)
        for cache in caches:
            if all_at_once:
                cache.clear()
            else:
                cache.invalidate(set(changed))
        fresh = [twins[0].LabelCache(work, 8)]
        assert same_outcome(twins, caches, body) == twins[0].rewrite(body, *fresh)


@fuzz
@given(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=4), mutations, rules, hosts)
def test_mutated_bodies(twins, seeds, changes, chosen, found):
    whole = b"".join(seeds)
    work = LabelWork(chosen, Hosts(found))
    caches = [twin.LabelCache(work, 6) for twin in twins]
    for body in (whole, mutate(whole, changes), *seeds, whole):
        same_outcome(twins, caches, body)


@pytest.mark.parametrize("tags", [0, 1, 3, 5, 15, 16, 17, 40, 70])
@pytest.mark.parametrize("names", [0, 1, 62, 63, 64, 80])
def test_any_number_of_labels_and_tags(twins, make_series, make_body, read_chunk, tags, names):
    """Tags fall between the labels of a series, between others of it, and behind them."""
    chosen = random.Random(tags * 100 + names)
    target = Target({b"m%03d" % chosen.randrange(300): b"tag" for _ in range(tags)}, b"infra")
    labels = {b"m%03d" % chosen.randrange(300): b"own" for _ in range(names)} | {b"agent_hostname": b"web01"}
    work = LabelWork(LabelRules(), Hosts({"web01": target}))
    body = make_body(make_series(pairs=sorted(labels.items())), make_series(pairs=list(labels.items())))
    caches = [twin.LabelCache(work, 8) for twin in twins]
    del labels[b"agent_hostname"]
    expected = sorted({**labels, **target.labels, b"ident": b"web01", b"busigroup": b"infra"}.items())
    for _ in range(2):
        result = same_outcome(twins, caches, body)
        for series in read_chunk(result.chunks[0].data):
            assert [(label.name, label.value) for label in series.labels] == expected


def test_a_host_is_looked_up_once(twins, make_series, make_body):
    """However many series it has; and again once it may have changed."""
    known = Hosts({"web01": Target({b"dc": b"fra"})})
    cache = twins[1].LabelCache(LabelWork(LabelRules(), known), 10_000)
    body = make_body(*(make_series(ident=f"web{n % 2:02d}", n=str(n)) for n in range(1000)))
    twins[1].rewrite(body, cache)
    assert sorted(known.asked) == ["web00", "web01"]
    known.asked.clear()
    cache.invalidate({"web01"})
    twins[1].rewrite(body, cache)
    assert known.asked == ["web01"]


def test_hosts_are_remembered_within_bounds(twins, make_series, make_body):
    """More hosts than are remembered: each is looked up, all get their labels."""
    known = Hosts({f"h{n}": Target({b"n": b"%d" % n}) for n in range(20_000)})
    work = LabelWork(LabelRules(), known)
    body = make_body(*(make_series(ident=f"h{n}") for n in range(20_000)))
    first, second = (twin.rewrite(body, twin.LabelCache(work, 100_000)) for twin in twins)
    assert first == second


def test_a_look_up_that_fails_passes_and_leaves_nothing(wire, make_series, make_body):
    class Failing(Hosts):
        def lookup(self, ident):
            self.asked.append(ident)
            if len(self.asked) == 1:
                raise LookupError("not now")
            return Target({b"dc": b"fra"})

    cache = wire.LabelCache(LabelWork(LabelRules(), Failing({})), 100)
    body = make_body(make_series(ident="a"))
    with pytest.raises(LookupError, match="not now"):
        wire.rewrite(body, cache)
    assert cache.stats().entries == 0
    assert b"fra" in wire.rewrite(body, cache).chunks[0].data
