"""Array kernels against their plain definitions, one window and one group at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_tsdb.promql import _windows_py, doubled, kernels, overtime, rates
from tocsin_tsdb.promql.aggregate import aggregate
from tocsin_tsdb.promql.context import Control
from tocsin_tsdb.promql.folds import sums
from tocsin_tsdb.promql.frames import Frame, Windows, merge_same_labels
from tocsin_tsdb.promql.grouping import Groups
from tocsin_tsdb.promql.interface import STALE_NAN, ExecutionError, Labels
from tocsin_tsdb.promql.kernels import positions

TWINS: list[Any] = list({module.__name__: module for module in (_windows_py, kernels._twin)}.values())
each_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
CONTROL = Control(lambda: False, math.inf)
FINITE = st.floats(min_value=-1e12, max_value=1e12) | st.integers(-5, 5).map(float)
ANY = st.floats() | st.integers(-3, 3).map(float)


@st.composite
def windows(draw: st.DrawFn, values: st.SearchStrategy[float] = FINITE) -> Windows:
    """Up to three series with irregular samples, and windows of any length over them."""
    rows = draw(st.lists(st.lists(st.tuples(st.integers(1, 20_000), values), max_size=12), min_size=1, max_size=3))
    stamps = [np.cumsum([step for step, _ in row]) if row else np.empty(0) for row in rows]
    timestamps = np.concatenate(stamps).astype(np.int64)
    flat = np.array([value for row in rows for _, value in row], dtype=np.float64)
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
    steps, interval = draw(st.integers(1, 5)), draw(st.integers(1, 40_000))
    ends = draw(st.integers(0, 120_000)) + np.arange(steps, dtype=np.int64) * interval
    range_ms = draw(st.integers(1, 150_000))
    low, high = positions(timestamps, offsets, ends - range_ms), positions(timestamps, offsets, ends)
    return Windows(timestamps, flat, low, high, ends - range_ms, ends, ends, range_ms)


def _each(window: Windows, function: Callable[[np.ndarray], float]) -> np.ndarray:
    out = np.zeros(window.low.shape)
    for cell in np.ndindex(*out.shape):
        part = window.values[window.low[cell] : window.high[cell]]
        out[cell] = function(part) if len(part) else 0.0
    return out


def _assert_equal(window: Windows, actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    there = window.counts > 0
    np.testing.assert_allclose(actual[there], expected[there], rtol=tolerance, atol=0)


@each_twin
@given(
    gaps=st.lists(st.integers(0, 50), max_size=20),
    interval=st.integers(0, 9),
    start=st.integers(-5, 60),
    steps=st.integers(1, 6),
)
def test_positions_are_those_of_a_search(twin: Any, gaps: list[int], interval: int, start: int, steps: int) -> None:
    half = len(gaps) // 2
    rows = [np.cumsum(np.array(part, dtype=np.int64) + 1) for part in (gaps[:half], gaps[half:])]
    offsets = np.array([0, len(rows[0]), len(gaps)])
    times = start + np.arange(steps, dtype=np.int64) * interval
    found = twin.positions(np.concatenate(rows).astype(np.int64), offsets, times)
    for row in range(2):
        expected = offsets[row] + np.searchsorted(rows[row], times, side="right")
        np.testing.assert_array_equal(found[row], expected)


@each_twin
@given(
    samples=st.lists(st.tuples(st.integers(1, 50), ANY | st.just(STALE_NAN)), max_size=12),
    lookback=st.integers(1, 99),
    interval=st.integers(0, 40),
    stamps=st.booleans(),
)
def test_latest(twin: Any, samples: list[tuple[int, float]], lookback: int, interval: int, stamps: bool) -> None:
    """The definition, one step at a time; the samples are spread over two series, of which either may be empty."""
    times = np.cumsum([gap for gap, _ in samples], dtype=np.int64)
    values = np.array([value for _, value in samples])
    half = len(samples) // 2
    steps = 20 + np.arange(4, dtype=np.int64) * interval
    out, present = np.full((2, 4), 7.0), np.full((2, 4), 7, dtype=np.uint8)
    twin.latest(times, values, np.array([0, half, len(samples)]), steps, lookback, stamps, out, present)
    for row, own in enumerate((slice(0, half), slice(half, None))):
        for column, step in enumerate(steps.tolist()):
            known = np.flatnonzero(times[own] <= step)
            last = known[-1] if len(known) else None
            there = last is not None and times[own][last] > step - lookback
            there = there and values[own].view(np.uint64)[last] != np.float64(STALE_NAN).view(np.uint64)
            assert present[row, column] == there
            expected = (times if stamps else values)[own][last] if there else 0.0
            np.testing.assert_array_equal(out[row, column], expected)


@given(window=windows(ANY), counter=st.booleans(), per_second=st.booleans())
def test_both_twins_extrapolate_alike(window: Windows, counter: bool, per_second: bool) -> None:
    parts = (window.timestamps, window.values, window.low, window.high, window.starts, window.ends, window.range_ms)
    with np.errstate(all="ignore"):
        results = [twin.extrapolated(*parts, counter, per_second) for twin in TWINS]
    for values, present in results[1:]:
        np.testing.assert_array_equal(present, results[0][1])
        np.testing.assert_array_equal(values[present], results[0][0][present])


@pytest.mark.skipif(len(TWINS) == 1, reason="an index out of bounds is an exception in NumPy, whatever it was")
def test_what_does_not_fit_together_is_refused() -> None:
    twin = TWINS[-1]
    stamps, values, steps = np.array([1, 2]), np.array([1.0, 2.0]), np.array([5])
    out, present = np.zeros((1, 1)), np.zeros((1, 1), dtype=np.uint8)
    for offsets in ([0, 3], [-1, 2], [2, 1]):
        with pytest.raises(IndexError):
            twin.positions(stamps, np.array(offsets), steps)
        with pytest.raises(IndexError):
            twin.latest(stamps, values, np.array(offsets), steps, 5, False, out, present)
    with pytest.raises(IndexError):
        twin.latest(stamps, values, np.array([0, 2]), np.array([5, 6]), 5, False, out, present)
    for low, high in (([[0]], [[3]]), ([[-1]], [[2]]), ([[0, 0]], [[2]])):
        with pytest.raises(IndexError):
            twin.extrapolated(stamps, values, np.array(low), np.array(high), steps, steps, 5, True, True)


@given(windows())
def test_sums_are_exact_to_the_last_digits(window: Windows) -> None:
    with np.errstate(all="ignore"):
        _assert_equal(window, sums(window, CONTROL), _each(window, math.fsum), 1e-15)
        _assert_equal(
            window, overtime.average(window, CONTROL), _each(window, lambda part: math.fsum(part) / len(part)), 1e-15
        )


@given(windows(st.sampled_from([1e100, -1e100, 1.0, 3.5, 1e-30, 0.0])))
def test_sums_that_cancel(window: Windows) -> None:
    with np.errstate(all="ignore"):
        actual = sums(window, CONTROL)
    for cell in np.ndindex(*actual.shape):
        part = window.values[window.low[cell] : window.high[cell]]
        # Two words hold what does not reach below the last bit of the second.
        slack = sum((abs(Fraction(float(value))) for value in part), Fraction(0)) * Fraction(1, 2**100)
        assert abs(Fraction(float(actual[cell])) - sum((Fraction(float(v)) for v in part), Fraction(0))) <= max(
            slack, abs(Fraction(math.fsum(part))) * Fraction(1, 2**50)
        )


@given(windows(ANY))
def test_sums_with_anything_in_them(window: Windows) -> None:
    with np.errstate(all="ignore"):
        actual = sums(window, CONTROL)
        expected = _each(window, lambda part: float(np.sum(part)))
    special = ~np.isfinite(_each(window, lambda part: float(np.sum(np.where(np.isfinite(part), 0.0, part)))))
    np.testing.assert_array_equal(actual[special & (window.counts > 0)], expected[special & (window.counts > 0)])


@given(windows(ANY))
def test_extremes(window: Windows) -> None:
    with np.errstate(all="ignore"):
        for largest, reduce in ((True, np.fmax), (False, np.fmin)):
            actual = overtime.extreme(window, largest=largest)
            _assert_equal(window, actual, _each(window, reduce.reduce))


@given(windows(st.integers(-4, 4).map(float) | st.just(math.nan)))
def test_times_of_extremes(window: Windows) -> None:
    actual = overtime.extreme_time(window, CONTROL, largest=True)
    for cell in np.ndindex(*actual.shape):
        part = window.values[window.low[cell] : window.high[cell]]
        if len(part):
            best = np.fmax.reduce(part)
            last = max(k for k, value in enumerate(part) if value == best or math.isnan(best))
            assert actual[cell] == window.timestamps[window.low[cell] + last] / 1000


@given(windows(), st.floats(0, 1))
def test_quantiles(window: Windows, q: float) -> None:
    actual = overtime.quantile(window, CONTROL, np.full(window.low.shape[1], q))

    def plain(part: np.ndarray) -> float:
        ordered, rank = np.sort(part), q * (len(part) - 1)
        low = math.floor(rank)
        high = min(low + 1, len(part) - 1)
        return float(ordered[low] * (1 - (rank - low)) + ordered[high] * (rank - low))

    _assert_equal(window, actual, _each(window, plain))


@given(windows(st.floats(-1e3, 1e3)))
def test_variance(window: Windows) -> None:
    actual = overtime.variance(window, CONTROL)
    expected = _each(window, lambda part: float(np.var(part)))
    scale = _each(window, lambda part: float(np.max(np.abs(part))) ** 2)
    assert (np.abs(actual - expected) <= 1e-9 * np.abs(expected) + 1e-15 * scale).all()


@each_twin
@given(window=windows(st.integers(0, 20).map(float)))
def test_increase(twin: Any, window: Windows) -> None:
    """The definition, one window at a time."""
    parts = (window.timestamps, window.values, window.low, window.high, window.starts, window.ends, window.range_ms)
    with np.errstate(all="ignore"):
        actual, present = twin.extrapolated(*parts, True, False)
    for row, step in np.ndindex(*actual.shape):
        low, high = int(window.low[row, step]), int(window.high[row, step])
        assert present[row, step] == (high - low >= 2)
        if high - low < 2:
            continue
        values, stamps = window.values[low:high], window.timestamps[low:high] / 1000
        raised = values[-1] - values[0] + sum(a for a, b in itertools.pairwise(values) if b < a)
        sampled = stamps[-1] - stamps[0]
        average = sampled / (len(values) - 1)
        to_start, to_end = stamps[0] - window.starts[step] / 1000, window.ends[step] / 1000 - stamps[-1]
        to_start = average / 2 if to_start >= average * 1.1 else to_start
        if raised > 0:
            to_start = min(to_start, sampled * values[0] / raised)
        to_end = average / 2 if to_end >= average * 1.1 else to_end
        assert actual[row, step] == pytest.approx(raised * (sampled + to_start + to_end) / sampled, rel=1e-9)


@given(windows(st.integers(-9, 9).map(float)))
def test_resets_and_changes(window: Windows) -> None:
    for function, differs in ((rates.resets, np.less), (rates.changes, np.not_equal)):
        actual, present = function(window)
        np.testing.assert_array_equal(present, window.counts > 0)
        expected = _each(window, partial(_count_pairs, differs))
        _assert_equal(window, actual, expected)


def _count_pairs(differs: np.ufunc, part: np.ndarray) -> float:
    return float(differs(part[1:], part[:-1]).sum())


@st.composite
def grouped(draw: st.DrawFn) -> tuple[Frame, Groups]:
    rows, steps = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    values = np.array(draw(st.lists(FINITE, min_size=rows * steps, max_size=rows * steps))).reshape(rows, steps)
    flags = draw(st.lists(st.booleans(), min_size=rows * steps, max_size=rows * steps))
    present = np.array(flags).reshape(rows, steps)
    raw = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    keys = list(dict.fromkeys(raw))
    ids = np.array([keys.index(each) for each in raw])
    labels: list[Labels] = [(("i", str(row)),) for row in range(rows)]
    return Frame(labels, values, present), Groups([(("g", str(key)),) for key in keys], ids)


@given(grouped(), st.sampled_from(["sum", "avg", "min", "max", "count", "group", "quantile", "stdvar"]))
def test_aggregations(case: tuple[Frame, Groups], operator: str) -> None:
    frame, groups = case
    plain: dict[str, Callable[[np.ndarray], float]] = {
        "sum": math.fsum,
        "avg": lambda part: math.fsum(part) / len(part),
        "min": np.min,
        "max": np.max,
        "count": len,
        "group": lambda part: 1.0,
        "quantile": lambda part: float(np.median(part)),
        "stdvar": lambda part: float(np.var(part)),
    }
    with np.errstate(all="ignore"):
        actual = aggregate(operator, frame, groups, np.full(frame.steps, 0.5))
    assert actual.labels == groups.keys
    for number in range(len(groups.keys)):
        for step in range(frame.steps):
            part = frame.values[(groups.ids == number) & frame.present[:, step], step]
            assert actual.present[number, step] == (len(part) > 0)
            if len(part):
                scale = float(np.max(np.abs(part)))
                slack = 1e-13 * (scale**2 if operator == "stdvar" else 0.0 if operator == "sum" else scale)
                expected = plain[operator](part)
                assert actual.values[number, step] == pytest.approx(expected, rel=1e-9, abs=slack)


@given(st.lists(FINITE, min_size=1, max_size=30))
def test_prefixes_bound_their_error(values: list[float]) -> None:
    samples = np.array(values)
    prefixes = doubled.Prefixes(samples)
    low, high = np.triu_indices(len(values) + 1)
    window = prefixes.window(low, high)
    for a, b, high_part, low_part, doubt in zip(low, high, *window.pair, window.error, strict=True):
        exact = sum((Fraction(value) for value in values[a:b]), Fraction(0))
        assert abs(exact - (Fraction(float(high_part)) + Fraction(float(low_part)))) <= Fraction(float(doubt))


def test_rows_with_equal_labels_merge_only_where_they_do_not_meet() -> None:
    labels: list[Labels] = [(("a", "1"),), (("a", "2"),), (("a", "1"),)]
    values = np.array([[1.0, 9.0], [2.0, 2.0], [9.0, 3.0]])
    merged = merge_same_labels(labels, values, np.array([[True, False], [True, True], [False, True]]))
    assert merged.labels == [(("a", "1"),), (("a", "2"),)]
    assert merged.values.tolist() == [[1.0, 3.0], [2.0, 2.0]]
    with pytest.raises(ExecutionError, match="vector cannot contain metrics with the same labelset"):
        merge_same_labels(labels, values, np.ones((3, 2), dtype=np.bool_))
