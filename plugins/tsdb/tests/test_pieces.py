"""Merging pieces of a selection, held against dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_tsdb.storage import _ranges_py, pieces
from tocsin_tsdb.storage.memtable import Memtable, Run
from tocsin_tsdb.storage.pieces import Piece, expand, merge, narrow

SERIES = 4
samples = st.lists(st.tuples(st.integers(0, SERIES - 1), st.integers(0, 30), st.integers(0, 9)), max_size=25)


def piece_of(rows: list[tuple[int, int, int]]) -> Piece:
    rows = sorted(rows, key=lambda row: row[:2])
    positions, counts = np.unique(np.array([row[0] for row in rows], np.int64), return_counts=True)
    times = np.array([row[1] for row in rows], np.int64)
    return Piece(positions, np.cumsum(counts) - counts, counts, times, np.array([row[2] for row in rows], float))


@given(st.lists(samples, max_size=4))
def test_merge_is_a_union_in_which_the_first_wins(parts: list[list[tuple[int, int, int]]]) -> None:
    unique = []
    for part in parts:
        kept: dict[tuple[int, int], int] = {}
        for series, time, value in part:
            kept.setdefault((series, time), value)
        unique.append([(series, time, value) for (series, time), value in kept.items()])
    expected: dict[tuple[int, int], int] = {}
    for part in unique:
        for series, time, value in part:
            expected.setdefault((series, time), value)
    merged = merge([piece_of(part) for part in unique], SERIES)
    found = {
        (series, int(merged.times[row])): int(merged.values[row])
        for series in range(SERIES)
        for row in range(int(merged.offsets[series]), int(merged.offsets[series + 1]))
    }
    assert found == expected
    assert merged.dropped == sum(map(len, unique)) - len(expected)
    for series in range(SERIES):
        assert (np.diff(merged.times[merged.offsets[series] : merged.offsets[series + 1]]) > 0).all()


@given(samples, st.sets(st.integers(0, SERIES)), st.integers(-1, 31), st.integers(-1, 31), st.integers(1, 8))
def test_a_memtable_finds_what_was_put_in(
    rows: list[tuple[int, int, int]], wanted: set[int], start: int, end: int, tail: int
) -> None:
    table = Memtable(tail_room=tail)
    unique = list({row[:2]: row for row in rows}.values())
    for row in unique:
        table.append(np.array([row[0]], np.int32), np.array([row[1]]), np.array([float(row[2])]))
    ids = np.array(sorted(wanted), np.int32)
    merged = merge(list(table.pieces(ids, start, end)), len(ids))
    found = {
        (int(ids[at]), int(merged.times[row]), int(merged.values[row]))
        for at in range(len(ids))
        for row in range(int(merged.offsets[at]), int(merged.offsets[at + 1]))
    }
    assert found == {row for row in unique if row[0] in wanted and start <= row[1] <= end}
    assert table.samples == len(unique)


@given(
    st.lists(st.lists(st.integers(0, 20), max_size=9), min_size=1, max_size=5), st.integers(-1, 21), st.integers(-1, 21)
)
def test_narrow_bisects_every_series(series: list[list[int]], start: int, end: int) -> None:
    series = [sorted(times) for times in series]
    offsets = np.concatenate(([0], np.cumsum([len(times) for times in series])))
    low, high = narrow(
        np.array([t for times in series for t in times], np.int64), offsets[:-1], offsets[1:], start, end
    )
    for at, times in enumerate(series):
        found = [times[row - int(offsets[at])] for row in range(int(low[at]), int(high[at]))]
        assert found == [time for time in times if start <= time <= end]


TWINS = list({module.__name__: module for module in (_ranges_py, pieces._twin)}.values())


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
@pytest.mark.parametrize("kind", [np.int64, np.uint32])
def test_ranges_are_copied_to_the_bit(twin: Any, kind: Any) -> None:
    bits = np.arange(10, dtype=np.uint64) + np.uint64(0x7FF0000000000001)
    times, values = np.zeros(6, np.int64), np.zeros(6)
    starts, counts, targets = np.array([7, 0, 3]), np.array([2, 0, 3]), np.array([0, 6, 3])
    twin.copy_ranges(np.arange(10, dtype=kind), 100, bits.view(np.float64), starts, counts, targets, times, values)
    assert times.tolist() == [107, 108, 0, 103, 104, 105]
    assert values.view(np.uint64)[[0, 1, 3, 4, 5]].tolist() == bits[[7, 8, 3, 4, 5]].tolist()


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
@pytest.mark.parametrize(("start", "target"), [(9, 0), (0, 5)])
def test_ranges_outside_of_the_arrays_are_refused(twin: Any, start: int, target: int) -> None:
    with pytest.raises(IndexError):
        twin.copy_ranges(
            np.arange(10),
            0,
            np.zeros(10),
            np.array([start]),
            np.array([2]),
            np.array([target]),
            np.zeros(6, np.int64),
            np.zeros(6),
        )


def test_expand() -> None:
    assert expand(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]


def test_a_run_is_sorted_by_series_and_time() -> None:
    run = Run.of(np.array([2, 1, 2, 1], np.int32), np.array([5, 9, 4, 8]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert run.series.tolist() == [1, 2]
    assert run.times.tolist() == [8, 9, 4, 5]
    assert run.values.tolist() == [4.0, 2.0, 3.0, 1.0]
