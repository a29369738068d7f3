"""Both twins on the same input: equal output, or the same error at the same place."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.ingest.interface import Verdict, WireError

SEEDS = [path.read_bytes() for path in sorted((Path(__file__).parent / "corpus").glob("*/*.bin"))]
EXAMPLES = int(os.environ.get("TOCSIN_FUZZ_EXAMPLES", "300"))

fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="TOCSIN_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def resolve(labels):
    """Change labels in a way that depends on all of them: drop, rename, append, sort."""
    ident = labels[0][1].decode(errors="replace") if labels else ""
    changed = sorted(set(labels)) if len(labels) % 2 else [*labels, (b"dc", b"x")]
    if len(changed) > 2:
        changed[1] = (b"ident", changed[1][1])
    return Verdict(changed, ident, "rule" if len(labels) == 4 else "", len(labels) == 1, bool(ident))


def outcome(call):
    try:
        return call()
    except WireError as error:
        return type(error).__name__, error.offset


def compare(twins, bodies, capacity=4, server_ms=None, cut=0):
    """Run bodies through one cache of each twin."""
    caches = [twin.LabelCache(resolve, capacity) for twin in twins]
    for body in bodies:
        left, right = (
            outcome(partial(twin.rewrite, body, cache, server_ms, cut))
            for twin, cache in zip(twins, caches, strict=True)
        )
        assert left == right
        assert caches[0].stats() == caches[1].stats()


mutations = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(("set", "cut", "insert", "delete")), st.binary(max_size=6))
)


def mutate(body, changes):
    out = bytearray(body)
    for place, kind, what in changes:
        at = place % (len(out) + 1)
        if kind == "set":
            out[at : at + len(what)] = what
        elif kind == "insert":
            out[at:at] = what
        elif kind == "cut":
            del out[at:]
        else:
            del out[at : at + len(what)]
    return bytes(out)


@fuzz
@given(
    st.lists(st.sampled_from(SEEDS), min_size=1, max_size=4), mutations, st.none() | st.integers(-(2**63), 2**63 - 1)
)
def test_mutated_bodies(twins, seeds, changes, server_ms):
    whole = b"".join(seeds)
    compare(twins, [whole, mutate(whole, changes), *seeds, whole], server_ms=server_ms)
    first, second = (outcome(lambda t=twin: t.tally(mutate(whole, changes))) for twin in twins)
    assert first == second


@fuzz
@given(st.binary(max_size=60))
def test_random_bytes(twins, body):
    compare(twins, [body])
    for twin in twins:
        assert outcome(lambda t=twin: t.decode_v2(body, 1000)) == outcome(lambda: twins[0].decode_v2(body, 1000))
        assert outcome(lambda t=twin: t.tally(body)) == outcome(lambda: twins[0].tally(body))


texts = st.binary(max_size=5) | st.sampled_from([b"a", b"b", b"ident", b"__name__", b"x" * 200])
labels = st.lists(st.tuples(texts, texts), max_size=7)
samples = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats()), max_size=3)


@fuzz
@given(st.lists(st.tuples(labels, samples), max_size=6), st.integers(0, 3), st.integers(2, 9))
def test_any_series(twins, make_series, make_body, series, cut, capacity):
    bodies = [make_body(*(make_series(values, pairs) for pairs, values in series[n:])) for n in range(len(series))]
    compare(twins, [*bodies, *bodies], capacity, 5, cut)


@fuzz
@given(
    st.lists(labels, min_size=1, max_size=30), st.lists(st.integers(0, 29)), st.lists(st.integers(0, 29), max_size=3)
)
def test_cache_with_invalidation(twins, make_series, make_body, sets, order, forgotten):
    caches = [twin.LabelCache(resolve, 6) for twin in twins]
    for step, index in enumerate(order):
        body = make_body(make_series(pairs=sets[index % len(sets)]))
        results = [twin.rewrite(body, cache) for twin, cache in zip(twins, caches, strict=True)]
        assert results[0] == results[1]
        if step in forgotten:
            idents = set(results[0].idents)
            for cache in caches:
                cache.invalidate(idents)
        assert caches[0].stats() == caches[1].stats()


@fuzz
@given(st.data())
def test_version_2(twins, pb, data):
    symbols = [b"", *data.draw(st.lists(texts, max_size=6))]
    refs = st.lists(st.integers(0, len(symbols)), max_size=6)
    request = pb.RequestV2(symbols=symbols)
    for _ in range(data.draw(st.integers(0, 4))):
        series = request.timeseries.add(labels_refs=data.draw(refs), created_timestamp=data.draw(st.integers(0, 9)))
        for time_ms, value in data.draw(samples):
            series.samples.add(timestamp=time_ms, value=value)
        for _ in range(data.draw(st.integers(0, 2))):
            series.exemplars.add(labels_refs=data.draw(refs), value=1.0, timestamp=5)
        if data.draw(st.booleans()):
            series.metadata.type = data.draw(st.integers(0, 8))
            series.metadata.help_ref = data.draw(st.integers(0, len(symbols)))
            series.metadata.unit_ref = data.draw(st.integers(0, len(symbols)))
    body = mutate(request.SerializeToString(), data.draw(mutations) if data.draw(st.booleans()) else ())
    limit = data.draw(st.integers(0, 400))
    first, second = (outcome(lambda t=twin: t.decode_v2(body, limit)) for twin in twins)
    assert first == second
    if isinstance(first, bytes):
        compare(twins, [first])


@fuzz
@given(labels, st.lists(st.tuples(st.integers(-(2**64), 2**64), st.floats())))
def test_encoders(twins, pairs, points):
    encoded = [outcome(lambda t=twin: t.encode_labels(pairs)) for twin in twins]
    assert encoded[0] == encoded[1]
    times, values = [time_ms for time_ms, _ in points], [value for _, value in points]
    block = encoded[0] if isinstance(encoded[0], bytes) else b""
    results = [outcome(lambda t=twin: t.encode_series(block, times, values)) for twin in twins]
    assert results[0] == results[1]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_skip_alike(twins, count):
    for body in SEEDS:
        assert outcome(lambda b=body: twins[0].skip(b, 0, count)) == outcome(lambda b=body: twins[1].skip(b, 0, count))
