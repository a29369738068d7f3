"""What goes into a block comes out of it, to the bit, and small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_tsdb.promql.interface import STALE_NAN_BITS
from tocsin_tsdb.storage import codec
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


@given(st.lists(one_series, min_size=1, max_size=4))
def test_round_trip(series: list[list[tuple[int, int]]]) -> None:
    series = [sorted(points) for points in series]
    offsets = np.concatenate(([0], np.cumsum([len(points) for points in series])))
    times = np.array([time for points in series for time, _ in points], np.int64)
    values = np.array([value for points in series for _, value in points], np.uint64).view(np.float64)
    refs, decoded_times, decoded_values = codec.decode(codec.encode(np.arange(len(series)), offsets, times, values))
    assert refs.tolist() == np.repeat(np.arange(len(series)), np.diff(offsets)).tolist()
    assert decoded_times.tolist() == times.tolist()
    assert decoded_values.view(np.uint64).tolist() == values.view(np.uint64).tolist()


def test_parquet_keeps_every_bit(tmp_path: Path) -> None:
    parquet = Parquet(64 << 20, 1, tmp_path)
    bits = np.array(
        [STALE_NAN_BITS, 0x7FF8000000000001, 0xFFF0000000000002, 1 << 63, 0x3FF0000000000001] * 60, np.uint64
    )
    times = np.arange(300, dtype=np.int64) * 15_000
    parquet.write(tmp_path / "x", codec.encode(np.array([3]), np.array([0, 300]), times, bits.view(np.float64)))
    _, decoded_times, values = codec.decode(parquet.read(tmp_path / "x", codec.COLUMNS))
    assert values.view(np.uint64).tolist() == bits.tolist()
    assert decoded_times.tolist() == times.tolist()
    parquet.close()


def test_rows_of_some_references_only(tmp_path: Path) -> None:
    parquet = Parquet(64 << 20, 1, tmp_path)
    count, samples = 2000, 130
    offsets = np.arange(count + 1) * samples
    times = np.tile(np.arange(samples, dtype=np.int64) * 1000, count)
    values = np.repeat(np.arange(count, dtype=float), samples)
    parquet.write(tmp_path / "x", codec.encode(np.arange(count), offsets, times, values))
    for wanted in ([5], [0, 1999], list(range(100, 200)), list(range(0, 2000, 3))):
        rows = parquet.read_rows(tmp_path / "x", codec.COLUMNS, np.array(wanted, np.int32), (0, 1 << 40), 1 << 30)
        refs, _, decoded = codec.decode(rows)
        assert np.unique(refs).tolist() == wanted
        assert (decoded == refs).all()
        assert len(refs) == samples * len(wanted)
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
    assert (tmp_path / "x").stat().st_size / len(values) < 2.0
