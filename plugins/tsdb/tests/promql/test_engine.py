"""The engine as its callers see it: limits, cancelling, statistics, notes, results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.promql.interface import (
    STALE_NAN,
    STALE_NAN_BITS,
    Matcher,
    Matrix,
    ParseError,
    QueryCanceled,
    QueryTimeout,
    Scalar,
    Selection,
    TooManySamples,
    Vector,
)

from .memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    """Ten series of one hour, a sample every 15 seconds."""
    store = MemoryStore()
    for number in range(10):
        stamps = range(0, 3_600_001, 15_000)
        store.add({"__name__": "m_total", "i": str(number)}, stamps, [float(k * number) for k in range(len(stamps))])
    return store


def test_stale_marker_has_its_exact_bits() -> None:
    assert np.array([STALE_NAN]).view(np.uint64)[0] == STALE_NAN_BITS


def test_vector_and_matrix_shapes(store: MemoryStore) -> None:
    engine = Engine(store)
    vector = engine.instant("m_total", 3_600_000).value
    assert isinstance(vector, Vector)
    assert vector.timestamp_ms == 3_600_000
    assert vector.values.tolist() == [240.0 * number for number in range(10)]
    matrix = engine.range("m_total", 0, 100_000, 30_000).value
    assert isinstance(matrix, Matrix)
    assert matrix.timestamps.tolist() == [0, 30_000, 60_000, 90_000]
    assert matrix.values.shape == matrix.present.shape == (10, 4)
    assert matrix.labels == sorted(matrix.labels)
    assert engine.instant("1 + 1", 5).value == Scalar(5, 2.0)


def test_range_query_refuses_what_is_no_vector(store: MemoryStore) -> None:
    for query, kind in (('"a"', "string"), ("m_total[5m]", "range vector")):
        with pytest.raises(ParseError, match=f'invalid expression type "{kind}" for range query'):
            Engine(store).range(query, 0, 1000, 1000)


@pytest.mark.parametrize("arguments", [(0, 10, 0), (0, 10, -1), (10, 0, 1)])
def test_range_query_needs_a_range(store: MemoryStore, arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="positive step"):
        Engine(store).range("1", *arguments)


@pytest.mark.parametrize(
    "query", ["m_total[1h]", "sum(rate(m_total[5m]))", "m_total", "max_over_time(m_total[1h:15s])", "m_total + m_total"]
)
def test_too_many_samples(store: MemoryStore, query: str) -> None:
    enough = Engine(store, max_samples=1_000_000).instant(query, 3_600_000).stats.peak
    with pytest.raises(TooManySamples, match="query processing would load too many samples into memory"):
        Engine(store, max_samples=enough - 1).instant(query, 3_600_000)
    Engine(store, max_samples=enough).instant(query, 3_600_000)


def test_steps_beyond_all_reason_are_refused_at_once(store: MemoryStore) -> None:
    engine = Engine(store)
    for query in ("max_over_time(m_total[100y:1ms])", "sum_over_time(vector(1)[10y:1s])"):
        with pytest.raises(TooManySamples):
            engine.instant(query, 0)
    with pytest.raises(TooManySamples):
        engine.range("1", 0, 1 << 50, 1)


def test_series_that_follow_each_other_are_not_multiplied() -> None:
    """300 short-lived series on either side of one match group: 90,000 pairs, of which few ever meet."""
    store = MemoryStore()
    for number in range(300):
        for name in ("a", "b"):
            store.add(
                {"__name__": name, "i": str(number)}, [number * 60_000, number * 60_000 + 30_000], [1.0, STALE_NAN]
            )
    engine = Engine(store, max_samples=1_000_000)
    value = engine.range("a + on () b", 0, 300 * 60_000, 60_000).value
    assert isinstance(value, Matrix)
    assert value.labels == [()]
    assert value.present.sum() == 300
    value = engine.range("a * ignoring (i) group_left () b", 0, 300 * 60_000, 60_000).value
    assert isinstance(value, Matrix)
    assert value.present.sum(axis=1).tolist() == [1] * 300
    with pytest.raises(TooManySamples):
        engine.range("a * on () group_left (i) b", 0, 300 * 60_000, 60_000)


def test_samples_of_finished_parts_do_not_count(store: MemoryStore) -> None:
    one = Engine(store).range("m_total", 0, 3_600_000, 60_000).stats.peak
    many = Engine(store).range(" or ".join(["m_total"] * 50), 0, 3_600_000, 60_000).stats.peak
    assert many < 4 * one
    nested = Engine(store).range("sum(rate(m_total[5m])) + sum(rate(m_total[5m]))", 0, 3_600_000, 60_000).stats.peak
    assert nested < 2 * one + 2 * 61


def test_the_store_is_told_what_is_left(store: MemoryStore) -> None:
    most: list[int] = []

    class Spy:
        def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, **limits: Any) -> Selection:
            most.append(limits["max_samples"])
            return store.select(matchers, start_ms, end_ms, **limits)

    Engine(Spy(), max_samples=1000).instant("m_total + m_total", 3_600_000)
    assert most[0] == 1000
    assert 0 < most[1] < 1000


def test_the_store_is_asked_for_the_half_open_interval(store: MemoryStore) -> None:
    asked: list[tuple[int, int]] = []

    class Spy:
        def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, **limits: Any) -> Selection:
            asked.append((start_ms, end_ms))
            return store.select(matchers, start_ms, end_ms, **limits)

    engine = Engine(Spy())
    engine.instant("m_total", 3_600_000)
    engine.instant("m_total[10m] offset 5m", 3_600_000)
    engine.range("m_total", 600_000, 900_000, 60_000, lookback_ms=30_000)
    engine.range("rate(m_total[1m] @ 1000)", 600_000, 900_000, 60_000)
    assert asked == [(3_300_001, 3_600_000), (2_700_001, 3_300_000), (570_001, 900_000), (940_001, 1_000_000)]


def test_statistics(store: MemoryStore) -> None:
    engine = Engine(store)
    assert engine.instant("m_total", 3_600_000).stats.total == 10
    assert engine.range("m_total", 0, 90_000, 30_000).stats.total == 40
    assert engine.instant("rate(m_total[1m])", 3_600_000).stats.total == 40
    assert engine.instant("1", 0).stats.total == 0


def test_lookback_can_be_overridden(store: MemoryStore) -> None:
    engine = Engine(store, lookback_ms=60_000)
    late = 3_600_000 + 90_000
    assert len(_vector(engine.instant("m_total", late).value)) == 0
    assert len(_vector(engine.instant("m_total", late, lookback_ms=120_000).value)) == 10


def _vector(value: object) -> list[object]:
    assert isinstance(value, Vector)
    return list(value.labels)


def test_cancelling(store: MemoryStore) -> None:
    event = threading.Event()
    event.set()
    with pytest.raises(QueryCanceled, match="query was canceled in expression evaluation"):
        Engine(store).instant("m_total", 0, cancelled=event.is_set)


def test_cancelling_between_nodes(store: MemoryStore) -> None:
    asked = iter([False] * 3 + [True] * 100)
    with pytest.raises(QueryCanceled):
        Engine(store).instant("sum(abs(m_total)) + sum(m_total)", 0, cancelled=lambda: next(asked))


def _ticking(step: float) -> Callable[[], float]:
    now = [0.0]

    def clock() -> float:
        now[0] += step
        return now[0]

    return clock


def test_timeout(store: MemoryStore) -> None:
    with pytest.raises(QueryTimeout, match="query timed out in expression evaluation"):
        Engine(store, timeout=1.0, clock=_ticking(0.4)).instant("sum(abs(m_total)) + sum(m_total)", 0)


def test_a_query_may_shorten_its_timeout_but_not_extend_it(store: MemoryStore) -> None:
    engine = Engine(store, timeout=10.0, clock=_ticking(1.0))
    engine.instant("m_total", 0)
    with pytest.raises(QueryTimeout):
        engine.instant("m_total", 0, timeout=2.0)
    with pytest.raises(QueryTimeout):
        Engine(store, timeout=2.0, clock=_ticking(1.0)).instant("m_total", 0, timeout=100.0)


def test_notes_are_limited() -> None:
    store = MemoryStore()
    for number in range(15):
        store.add({"__name__": f"gauge{number:02d}", "i": str(number)}, [0, 1000], [1.0, 2.0])
    result = Engine(store).instant('rate({__name__=~"gauge.*"}[5s])', 1000)
    assert len(result.infos) == 11
    assert '"gauge00" (1:6)' in result.infos[0]
    assert result.infos[-1] == "5 more info annotations omitted"
    assert result.warnings == ()


def test_store_errors_pass_through() -> None:
    class Broken:
        def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, **limits: Any) -> Selection:
            raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        Engine(Broken()).instant("m", 0)


def test_large_times_do_not_overflow(store: MemoryStore) -> None:
    for query in (
        "rate(m_total[290y] @ -4e15 offset 290y)",
        "m_total @ 4e15 offset -290y",
        "m_total[290y:100y] @ 4e15",
    ):
        Engine(store).instant(query, 0)
    value = Engine(store).instant("m_total @ 9e12 or vector(1)", -62_135_596_800_000).value
    assert isinstance(value, Vector)
    assert value.values.tolist() == [1.0]


def test_deep_and_long_expressions(store: MemoryStore) -> None:
    engine = Engine(store)
    deep = "abs(" * 99 + 'm_total{i="3"}' + ")" * 99
    assert len(_vector(engine.instant(deep, 60_000).value)) == 1
    long = "+".join(["1"] * 5000)
    assert engine.instant(long, 0).value == Scalar(0, 5000.0)
    vector = engine.instant(" or ".join(f'm_total{{i="{k % 10}"}}' for k in range(300)), 60_000).value
    assert len(_vector(vector)) == 10
