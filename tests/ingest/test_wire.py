"""The wire functions: every test runs on both twins in one process."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest

from tocsin.ingest import interface
from tocsin.ingest.interface import MAX_CACHED_LABELS, MAX_DEBUG_SERIES, Verdict
from tocsin.ingest.wire import choose
from tocsin.ingest.wire import wire as chosen

CORPUS = Path(__file__).parent / "corpus"
VALID = sorted(CORPUS.glob("valid/*.bin"))
INVALID = sorted(CORPUS.glob("invalid/*.bin"))


def rewrite(wire, body, resolve, server_ms=None, cut=0):
    return wire.rewrite(body, wire.LabelCache(resolve, 100), server_ms, cut)


def data(result):
    return b"".join(chunk.data for chunk in result.chunks)


def plain(series):
    """Return a decoded series as the corpus writes it."""
    labels = [[label.name.decode(), label.value.decode()] for label in series.labels]
    values = [[s.timestamp, str(s.value) if math.isinf(s.value) else s.value] for s in series.samples]
    return [labels, values]


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_valid_corpus(wire, same, read_chunk, path):
    body = path.read_bytes()
    result = rewrite(wire, body, same)
    expected = json.loads(path.with_suffix(".json").read_text())
    assert [plain(series) for series in read_chunk(data(result))] == expected
    assert [plain(series) for series in read_chunk(body)] == expected
    assert result.received == len(expected)


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_corpus(wire, same, path):
    expected = json.loads(path.with_suffix(".json").read_text())
    with pytest.raises(interface.WireError) as caught:
        rewrite(wire, path.read_bytes(), same)
    assert (type(caught.value).__name__, caught.value.offset) == (expected["error"], expected["offset"])


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_cut_at_every_length(twins, same, path):
    body = path.read_bytes()
    for size in range(len(body)):
        assert outcome(twins[0], body[:size], same) == outcome(twins[1], body[:size], same)


def outcome(wire, body, resolve):
    try:
        return rewrite(wire, body, resolve)
    except interface.WireError as error:
        return type(error), error.offset


def test_corpus_is_there():
    assert len(VALID) >= 20
    assert len(INVALID) >= 24


def test_verbatim_except_labels(wire, same, make_series, make_body):
    body = make_body(make_series(a="1"), make_series([(5, 2.5), (6, math.nan)], __name__="x", b="2"))
    assert data(rewrite(wire, body, same)) == body


def test_server_time_replaces_only_the_first_sample(wire, same, make_series, make_body, read_chunk):
    body = make_body(make_series([(5, 2.5), (6, 3.5)], a="1"), make_series([], b="1"))
    first, second = read_chunk(data(rewrite(wire, body, same, 1_760_000_000_000)))
    assert [(s.timestamp, s.value) for s in first.samples] == [(1_760_000_000_000, 2.5), (6, 3.5)]
    assert not second.samples


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x10\x05", b"\x10\x05\x10\x06", b"\x10\x05\x09" + struct.pack("<d", 7.0), b"\x09" + struct.pack("<d", 7.0)],
)
def test_server_time_in_every_encoding_of_a_sample(wire, same, pb, read_chunk, raw):
    series = b"\x12" + bytes([len(raw)]) + raw
    body = b"\x0a" + bytes([len(series)]) + series
    [result] = read_chunk(data(rewrite(wire, body, same, -5)))
    assert [(s.timestamp, s.value) for s in result.samples] == [(-5, pb.Sample.FromString(raw).value)]


def test_exemplars_histograms_and_metadata_survive(wire, same, pb, make_series, make_body, read_chunk):
    series = make_series(__name__="x")
    series.exemplars.add(value=2.0, timestamp=9).labels.add(name=b"trace_id", value=b"abc")
    histogram = series.histograms.add(count_int=3, sum=1.5, schema=-1, timestamp=-7, positive_deltas=[1, -2])
    histogram.positive_spans.add(offset=-3, length=2)
    body = make_body(series, metadata=[pb.Metadata(type=1, metric_family_name="x", help="h", unit="s")])
    result = rewrite(wire, body, same)
    assert result.chunks[0].samples == 2
    assert read_chunk(data(result)) == [series]
    [metadata] = pb.WriteRequest.FromString(result.metadata).metadata
    assert (metadata.metric_family_name, metadata.help, result.metadata_count) == ("x", "h", 1)


def test_cut_into_chunks(wire, same, make_series, make_body):
    body = make_body(*(make_series(a=str(n)) for n in range(7)))
    result = rewrite(wire, body, same, None, 3)
    assert [chunk.series for chunk in result.chunks] == [3, 3, 1]
    assert [chunk.samples for chunk in result.chunks] == [3, 3, 1]
    assert data(result) == body


def test_counts_by_verdict(wire, make_series, make_body, read_chunk):
    def resolve(labels):
        value = labels[0][1]
        return Verdict(
            [(b"new", value)],
            f"host-{value[:1].decode()}",
            "rule" if value == b"a2" else "",
            value == b"a2",
            value == b"b1",
        )

    body = make_body(*(make_series(x=value) for value in ("a1", "a2", "b1", "a1", "b2")))
    result = rewrite(wire, body, resolve)
    assert result.received == 5
    assert result.dropped == {"rule": 1}
    assert result.idents == {"host-a": 3, "host-b": 2}
    assert result.registered == ["host-b"]
    assert [s.labels[0].value for s in read_chunk(data(result))] == [b"a1", b"b1", b"a1", b"b2"]
    assert [s.labels[0].value for s in read_chunk(b"\x0a" + bytes([len(result.debug[0])]) + result.debug[0])] == [b"a2"]


def test_debug_samples_are_bounded(wire, make_series, make_body):
    body = make_body(*[make_series(x="1")] * (MAX_DEBUG_SERIES + 5))
    assert len(rewrite(wire, body, lambda labels: Verdict(labels, debug=True)).debug) == MAX_DEBUG_SERIES


def test_failed_request_leaves_no_counts(wire, make_series, make_body):
    cache = wire.LabelCache(lambda labels: Verdict(labels, "h", "rule"), 100)
    body = make_body(make_series(a="1"))
    with pytest.raises(interface.TruncatedError):
        wire.rewrite(body + b"\x0a\x05", cache)
    result = wire.rewrite(body, cache)
    assert (result.dropped, result.idents) == ({"rule": 1}, {"h": 1})


def test_resolver_error_passes_and_frees_the_cache(wire, same, make_series, make_body):
    calls = []

    def resolve(labels):
        calls.append(labels)
        if len(calls) == 1:
            raise LookupError("not now")
        return Verdict(labels)

    cache = wire.LabelCache(resolve, 100)
    body = make_body(make_series(a="1"))
    with pytest.raises(LookupError, match="not now"):
        wire.rewrite(body, cache)
    assert data(wire.rewrite(body, cache)) == body


# --- the label cache ------------------------------------------------------------------------------------------------


def test_cache_asks_once(wire, same, counting, make_series, make_body):
    resolve, calls = counting(same)
    cache = wire.LabelCache(resolve, 100)
    for time_ms in range(3):
        wire.rewrite(make_body(make_series([(time_ms, 1.0)], a="1"), make_series(b="1")), cache)
    assert len(calls) == 2
    assert cache.stats() == (4, 2, 0, 2)


def test_invalidate_names_hosts(wire, make_series, make_body, counting):
    resolve, calls = counting(lambda labels: Verdict(labels, labels[0][1].decode()))
    cache = wire.LabelCache(resolve, 100)
    body = make_body(make_series(host="a"), make_series(host="b"))
    wire.rewrite(body, cache)
    cache.invalidate({"b", "unknown"})
    wire.rewrite(body, cache)
    wire.rewrite(body, cache)
    assert [labels[0][1] for labels in calls] == [b"a", b"b", b"b"]


def test_clear_forgets_all(wire, same, counting, make_series, make_body):
    resolve, calls = counting(same)
    cache = wire.LabelCache(resolve, 100)
    for _ in range(2):
        wire.rewrite(make_body(make_series(a="1")), cache)
        cache.clear()
    assert len(calls) == 2
    assert cache.stats().entries == 0


def test_cache_is_bounded_and_keeps_what_is_used(wire, same, counting, make_series, make_body):
    resolve, calls = counting(same)
    cache = wire.LabelCache(resolve, 20)
    hot = make_series(a="hot")
    for n in range(500):
        wire.rewrite(make_body(hot, make_series(a=str(n))), cache)
    stats = cache.stats()
    assert stats.entries <= 20
    assert stats.evictions == 501 - stats.entries
    assert len(calls) == 501


def test_growing_cache_loses_nothing(wire, same, counting, make_series, make_body):
    resolve, calls = counting(same)
    cache = wire.LabelCache(resolve, 100_000)
    body = make_body(*(make_series(a=str(n)) for n in range(5000)))
    for _ in range(2):
        assert data(wire.rewrite(body, cache)) == body
    assert len(calls) == 5000


def test_overlong_labels_are_not_cached(wire, same, counting, make_series, make_body):
    resolve, calls = counting(same)
    cache = wire.LabelCache(resolve, 100)
    body = make_body(make_series(a="x" * MAX_CACHED_LABELS))
    for _ in range(2):
        assert data(wire.rewrite(body, cache)) == body
    assert len(calls) == 2
    assert cache.stats() == (0, 2, 0, 0)


def test_invalidated_entry_of_the_old_generation(wire, make_series, make_body, counting):
    resolve, calls = counting(lambda labels: Verdict(labels, labels[0][1].decode()))
    cache = wire.LabelCache(resolve, 4)
    bodies = [make_body(make_series(host=name)) for name in "abc"]
    for body in bodies:  # a and b are of the old generation now
        wire.rewrite(body, cache)
    cache.invalidate({"a"})
    for body in bodies:
        wire.rewrite(body, cache)
    assert [labels[0][1] for labels in calls] == [b"a", b"b", b"c", b"a"]


def test_many_invalidations_cost_no_memory(wire, make_series, make_body):
    """Hosts that change all the time: what is stale is swept, and what is not stays."""
    generation = [0]

    def resolve(labels):
        ident = labels[0][1].decode()
        return Verdict([*labels, (b"z", b"%d" % (generation[0] if ident == "hot" else 0))], ident)

    cache = wire.LabelCache(resolve, 100_000)
    others = make_body(*(make_series(host=f"cold{n}") for n in range(100)))
    hot = make_body(make_series(host="hot"))
    wire.rewrite(others, cache)
    for generation[0] in range(2500):
        assert b"z\x12" in data(wire.rewrite(hot, cache))
        cache.invalidate({"hot"})
    before = cache.stats()
    assert wire.rewrite(others, cache).received == 100
    assert cache.stats().hits == before.hits + 100
    assert cache.stats().entries <= 101


@pytest.mark.parametrize(
    "change",
    [
        lambda labels: [],
        lambda labels: labels[::-1],
        lambda labels: [*labels, (b"zz", b"1")],
        lambda labels: [(b"!", b"1"), *labels[1:]],
        lambda labels: [(name, value + b"!") for name, value in labels],
        lambda labels: labels[::2],
        lambda labels: [item for label in labels for item in (label, (label[0] + b"2", b""))],
        lambda labels: labels + labels,
    ],
)
def test_any_change_of_labels(wire, make_series, make_body, read_chunk, change):
    """However a resolver changes labels, the first and the cached answer are what it returned."""
    pairs = [(b"label_%d" % n, b"value") for n in range(9)]
    cache = wire.LabelCache(lambda labels: Verdict(change(labels)), 10)
    for _ in range(2):
        [series] = read_chunk(data(wire.rewrite(make_body(make_series(pairs=pairs)), cache)))
        assert [(label.name, label.value) for label in series.labels] == change(pairs)
        assert len(series.samples) == 1


# --- other functions ------------------------------------------------------------------------------------------------


def test_skip(wire, make_series, make_body):
    parts = [make_body(make_series(a=str(n))) for n in range(3)]
    chunk = b"".join(parts)
    assert wire.skip(chunk, 0, 2) == (len(parts[0] + parts[1]), 2)
    assert wire.skip(chunk, len(parts[0]), 2) == (len(chunk), 2)
    with pytest.raises(interface.TruncatedError):
        wire.skip(chunk, 0, 4)


def test_encode_series(wire, read_chunk):
    labels = wire.encode_labels([(b"__name__", b"x"), (b"e", b"")])
    times = [0, 1, -1, -(1 << 63), (1 << 63) - 1]
    values = [0.0, -0.0, 1.5, math.inf, 1e300]
    [series] = read_chunk(wire.encode_series(labels, times, values))
    assert [(label.name, label.value) for label in series.labels] == [(b"__name__", b"x"), (b"e", b"")]
    assert [sample.timestamp for sample in series.samples] == times
    assert [struct.pack("<d", s.value) for s in series.samples] == [struct.pack("<d", v) for v in values]


def test_encode_series_refuses(wire):
    with pytest.raises(interface.SampleError, match="byte 1"):
        wire.encode_series(b"", [1, 2], [1.0])
    with pytest.raises(interface.SampleError, match="byte 1"):
        wire.encode_series(b"", [1, 1 << 63], [1.0, 1.0])


@pytest.mark.parametrize("label", [(b"", b"x"), (b"\xff", b"x"), (b"x", b"\xff")])
def test_encode_labels_refuses(wire, label):
    with pytest.raises(interface.LabelError) as caught:
        wire.encode_labels([(b"ok", b"ok"), label])
    assert caught.value.offset == 1


def test_choice_of_the_twin():
    assert choose({"TOCSIN_PURE": "1"}).IMPLEMENTATION == "python"
    assert chosen.IMPLEMENTATION in ("python", "compiled")


def test_required_twin_must_be_there(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tocsin.ingest._wire", None)
    assert choose({}).IMPLEMENTATION == "python"
    with pytest.raises(ImportError, match="was not built"):
        choose({"TOCSIN_REQUIRE_COMPILED": "1"})
