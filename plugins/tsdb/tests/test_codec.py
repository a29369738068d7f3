"""What goes into a block comes out of it, to the bit, and small."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_tsdb.promql.interface import STALE_NAN_BITS
from tocsin_tsdb.storage import _chunks_py, codec
from tocsin_tsdb.storage.duck import Parquet
from tocsin_tsdb.storage.errors import CorruptBlock

decimals = st.integers(-(10**9), 10**9).map(lambda n: n / 100)
odd_values = [
    0.0,
    -0.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    5e-324,
    1.7976931348623157e308,
    2.0**53,
    2.0**53 + 2,
]
special = st.sampled_from(odd_values)
value_bits = st.one_of(
    decimals.map(lambda v: np.float64(v).view(np.uint64).item()),
    special.map(lambda v: np.float64(v).view(np.uint64).item()),
    st.just(STALE_NAN_BITS),
    st.integers(0, (1 << 64) - 1),
)
one_series = st.lists(
    st.tuples(st.integers(-(1 << 40), 1 << 50), value_bits), min_size=1, max_size=300, unique_by=lambda p: p[0]
)


TWINS: list[Any] = list({module.__name__: module for module in (_chunks_py, codec._twin)}.values())
each_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)


def decode(twin: Any, columns: codec.Columns) -> codec.Decoded:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_twin", twin)
        return codec.decode(columns)


@each_twin
@given(st.lists(one_series, min_size=1, max_size=4))
def test_round_trip(twin: Any, series: list[list[tuple[int, int]]]) -> None:
    series = [sorted(points) for points in series]
    offsets = np.concatenate(([0], np.cumsum([len(points) for points in series])))
    times = np.array([time for points in series for time, _ in points], np.int64)
    values = np.array([value for points in series for _, value in points], np.uint64).view(np.float64)
    columns = codec.encode(np.arange(len(series)), offsets, times, values)
    decoded = decode(twin, columns)
    refs = np.repeat(decoded.refs, np.diff(decoded.offsets))
    assert refs.tolist() == np.repeat(np.arange(len(series)), np.diff(offsets)).tolist()
    assert decoded.times.tolist() == times.tolist()
    assert decoded.values.view(np.uint64).tolist() == values.view(np.uint64).tolist()
    assert columns["start"].tolist() == decoded.times[decoded.offsets[:-1]].tolist()
    assert columns["stop"].tolist() == decoded.times[decoded.offsets[1:] - 1].tolist()


def test_what_does_not_change_takes_no_bytes() -> None:
    columns = codec.encode(np.arange(1), np.array([0, 120]), np.arange(120) * 15_000, np.full(120, 2.5))
    assert [len(columns[name][0]) for name in ("gaps", "v0", "v1", "v2")] == [0, 0, 0, 0]
    assert (columns["step"][0], columns["first"][0], columns["scale"][0]) == (15_000, 25, 1)


def three_chunks() -> codec.Columns:
    """The columns of 250 samples, all of which need every column."""
    times = np.cumsum(np.arange(250) % 7 + 1)
    return codec.encode(np.array([4]), np.array([0, 250]), times, np.arange(250.0) ** 4)


@each_twin
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("ref", 3),
        ("samples", 0),
        ("samples", 121),
        ("samples", 60),
        ("scale", 7),
        ("gaps", b"\0" * 118),
        ("gaps", b"\0" * 119 * 9),
        ("gaps", None),
        ("v0", b"\0" * 120),
        ("v1", b"\0" * 119 * 2),
        ("v2", b"\0" * 119 * 7),
        ("v2", "text"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(twin: Any, column: str, value: Any) -> None:
    columns = three_chunks()
    decode(twin, columns)
    columns[column][1] = value
    with pytest.raises(ValueError, match="chunk"):
        decode(twin, columns)


@each_twin
def test_columns_of_unequal_length_are_refused(twin: Any) -> None:
    for name in codec.COLUMNS[2:]:
        columns = three_chunks()
        columns[name] = columns[name][:-1]
        with pytest.raises(ValueError, match=r"columns differ in length|fewer samples"):
            decode(twin, columns)


@each_twin
def test_a_lone_sample_has_no_planes(twin: Any) -> None:
    columns = codec.encode(np.arange(1), np.array([0, 1]), np.array([7]), np.array([1.5]))
    assert decode(twin, columns).times.tolist() == [7]
    columns["v0"][0] = b"x"
    with pytest.raises(ValueError, match="chunk"):
        decode(twin, columns)


def test_parquet_keeps_every_bit(tmp_path: Path) -> None:
    parquet = Parquet(64 << 20, 1, tmp_path)
    bits = np.array(
        [STALE_NAN_BITS, 0x7FF8000000000001, 0xFFF0000000000002, 1 << 63, 0x3FF0000000000001] * 60, np.uint64
    )
    times = np.arange(300, dtype=np.int64) * 15_000
    parquet.write(tmp_path / "x", codec.encode(np.array([3]), np.array([0, 300]), times, bits.view(np.float64)))
    decoded = codec.decode(parquet.read(tmp_path / "x", codec.COLUMNS))
    assert decoded.values.view(np.uint64).tolist() == bits.tolist()
    assert decoded.times.tolist() == times.tolist()
    parquet.close()


def test_chunks_of_some_references_and_times_only(tmp_path: Path) -> None:
    parquet = Parquet(64 << 20, 1, tmp_path)
    count, samples = 2000, 130
    offsets = np.arange(count + 1) * samples
    times = np.tile(np.arange(samples, dtype=np.int64) * 1000, count)
    values = np.repeat(np.arange(count, dtype=float), samples)
    columns = codec.encode(np.arange(count), offsets, times, values)
    parquet.write(tmp_path / "x", columns, codec.ROW_GROUP)
    for wanted in ([5], [0, 1999], list(range(100, 200)), list(range(0, 2000, 3)), [*range(9), *range(30, 33), 70]):
        refs = np.array(wanted, np.int32)
        for span, expected in (((0, 1 << 40), 130), ((119_000, 119_500), 120), ((119_001, 130_000), 10), ((-9, -1), 0)):
            found = codec.decode(parquet.read_chunks(tmp_path / "x", codec.COLUMNS, refs, *span))
            assert np.unique(found.refs).tolist() == (wanted if expected else [])
            assert len(found.times) == expected * len(wanted)
            assert (found.values == np.repeat(found.refs, np.diff(found.offsets))).all()
    parquet.close()


def test_a_file_that_is_no_parquet_is_called_corrupt(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PAR1" + b"\0" * 100)
    parquet = Parquet(64 << 20, 1, tmp_path)
    with pytest.raises(CorruptBlock):
        parquet.read(tmp_path / "x", codec.COLUMNS)
    parquet.close()


def test_realistic_samples_take_less_than_two_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    series, samples = 600, 480
    makers = [
        lambda: np.cumsum(rng.poisson(3, samples)).astype(float),
        lambda: 1e10 + np.cumsum(rng.integers(0, 200_000, samples)),
        lambda: np.round(50 + np.cumsum(rng.normal(0, 0.5, samples)), 2),
        lambda: np.full(samples, float(rng.integers(0, 3))),
    ]
    values = np.concatenate([makers[i % 4]() for i in range(series)])
    jitter = (rng.random(series * samples) < 0.1) * rng.integers(-3, 4, series * samples)
    times = np.tile(np.arange(samples, dtype=np.int64) * 15_000, series) + jitter
    parquet = Parquet(64 << 20, 1, tmp_path)
    parquet.write(tmp_path / "x", codec.encode(np.arange(series), np.arange(series + 1) * samples, times, values))
    parquet.close()
    assert (tmp_path / "x").stat().st_size / len(values) < 1.5


def test_one_thread_reads_and_writes(tmp_path: Path) -> None:
    """The library's default is a pool for every core and one for remote files."""
    parquet = Parquet(64 << 20, 1, tmp_path)
    before = len(os.listdir("/proc/self/task"))
    parquet.write(tmp_path / "x", three_chunks())
    assert len(parquet.read(tmp_path / "x", codec.COLUMNS)["ref"]) == 3
    assert len(os.listdir("/proc/self/task")) == before
    parquet.close()
