"""The decoder and its twin: same answers on good input, same refusals on bad."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin_tsdb.storage import _wire_py, wire

TWINS: list[Any] = [_wire_py, *([wire._twin] if wire.COMPILED else [])]

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
labels = st.dictionaries(names, names, min_size=1, max_size=5).map(lambda d: tuple(sorted(d.items())))
times = st.integers(-(1 << 63), (1 << 63) - 1)
bits = st.integers(0, (1 << 64) - 1)
series = st.tuples(labels, st.lists(st.tuples(times, bits), max_size=4))
requests = st.lists(series, max_size=6)


def encoded(request: list[Any]) -> bytes:
    return b"".join(
        wire.encode_series(
            wire.encode_labels(name),
            np.array([time for time, _ in points], np.int64),
            np.array([value for _, value in points], np.uint64).view(np.float64),
        )
        for name, points in request
    )


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
@given(request=requests)
def test_every_bit_of_a_request_comes_back(twin: Any, request: list[Any]) -> None:
    sids, packed_times, values, unknown, metadata, ignored = twin.decode(encoded(request), {})
    expected = [(wire.encode_labels(name), points) for name, points in request if points]
    assert unknown == [name for name, _ in expected]
    assert np.frombuffer(sids, np.int32).tolist() == [
        -number for number, (_, points) in enumerate(expected, 1) for _ in points
    ]
    assert np.frombuffer(packed_times, np.int64).tolist() == [time for _, points in expected for time, _ in points]
    assert np.frombuffer(values, np.uint64).tolist() == [value for _, points in expected for _, value in points]
    assert (metadata, ignored) == ([], 0)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_a_known_series_keeps_its_id(twin: Any) -> None:
    key = wire.encode_labels([("__name__", "up")])
    body = encoded([((("__name__", "up"),), [(1, 2), (3, 4)]), ((("__name__", "new"),), [(5, 6)])])
    sids, *_, unknown, _, _ = twin.decode(body, {key: 7})
    assert np.frombuffer(sids, np.int32).tolist() == [7, 7, -1]
    assert unknown == [wire.encode_labels([("__name__", "new")])]


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_labels_after_samples_and_missing_fields_are_protobuf_too(twin: Any) -> None:
    label = wire._field(1, wire.encode_label("a", "b"))
    other = wire._field(1, wire.encode_label("c", "d"))
    body = wire._field(1, label + wire._field(2, b"") + other + wire._field(2, b"\x10\x05") + wire._field(9, b"later"))
    sids, packed_times, values, unknown, _, _ = twin.decode(body, {})
    assert unknown == [label + other]
    assert np.frombuffer(packed_times, np.int64).tolist() == [0, 5]
    assert np.frombuffer(values, np.float64).tolist() == [0.0, 0.0]
    assert len(sids) == 8


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_histograms_and_exemplars_are_counted_and_metadata_is_given(twin: Any) -> None:
    described = wire.Metadata("up", "gauge", "Whether it is up.", "")
    key = wire.encode_labels([("__name__", "up")])
    body = wire._field(1, key + wire._field(3, b"x") + wire._field(4, b"y")) + wire.encode_metadata(described)
    *_, unknown, metadata, ignored = twin.decode(body, {})
    assert (unknown, ignored) == ([], 2)
    assert [wire.metadata_of(message) for message in metadata] == [described]


MALFORMED = {
    "cut off in a length": b"\x0a",
    "longer than the body": b"\x0a\x05ab",
    "overlong varint": b"\x08" + b"\xff" * 10,
    "group": b"\x0b",
    "field number 0": b"\x02\x00",
    "sample cut off": wire._field(1, wire._field(2, b"\x09\x00\x00")),
    "huge length": b"\x0a" + b"\xff" * 9 + b"\x01",
}


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_bytes_are_refused(twin: Any, body: bytes) -> None:
    with pytest.raises(ValueError):
        twin.decode(body, {})


def _outcome(twin: Any, body: bytes) -> Any:
    try:
        return twin.decode(body, {})
    except ValueError:
        return "refused"


@pytest.mark.skipif(len(TWINS) < 2, reason="only the plain twin is installed")
def test_twins_agree_on_damaged_requests() -> None:
    rng = random.Random(5)
    base = encoded([((("__name__", f"m{i}"), ("job", "x")), [(i, i << 52), (i + 1, 3)]) for i in range(4)])
    for _ in range(20_000):
        body = bytearray(base)
        for _ in range(rng.randint(1, 3)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        cut = bytes(body[: rng.randint(0, len(body))])
        assert _outcome(TWINS[0], cut) == _outcome(TWINS[1], cut), cut


@pytest.mark.skipif(len(TWINS) < 2, reason="only the plain twin is installed")
@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_twins_agree_on_noise(body: bytes) -> None:
    assert _outcome(TWINS[0], body) == _outcome(TWINS[1], body)


@pytest.mark.skipif(len(TWINS) < 2, reason="only the plain twin is installed")
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 50), st.integers(0, 2)), max_size=30),
    st.tuples(st.integers(-60, 60), st.integers(0, 30), st.integers(0, 30), st.just(-40), st.just(40)),
)
def test_twins_admit_alike(samples: list[tuple[int, int, int]], bounds: tuple[int, ...]) -> None:
    outcomes = []
    for twin in TWINS:
        sids = np.array([sid for sid, _, _ in samples], np.int32)
        at = np.array([time for _, time, _ in samples], np.int64)
        values = np.array([value for _, _, value in samples], np.int64)
        last_time, last_value = np.full(4, -(1 << 63)), np.zeros(4, np.int64)
        verdicts = np.zeros(len(samples), np.uint8)
        newest = twin.admit(sids, at, values, last_time, last_value, verdicts, bounds)
        outcomes.append((newest, verdicts.tolist(), last_time.tolist(), last_value.tolist()))
    assert outcomes[0] == outcomes[1]


def test_negative_times_take_ten_bytes_and_come_back() -> None:
    body = encoded([((("a", "b"),), [(-1, struct.unpack("<Q", struct.pack("<d", 1.5))[0])])])
    assert np.frombuffer(wire.decode(body, {})[1], np.int64).tolist() == [-1]
