"""Expressions are parsed once, as long as they mean the same every time."""

from __future__ import annotations

import pytest

from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.promql.expressions import CacheCounts, Expressions
from tocsin_tsdb.promql.interface import Matrix, ParseError

from .memory import MemoryStore


def test_an_expression_is_parsed_once() -> None:
    expressions = Expressions()
    first = expressions.parsed("rate(a[5m])")
    assert expressions.parsed("rate(a[5m])", 15_000, 60_000) is first
    assert expressions.parsed("rate(a[6m])") is not first
    assert expressions.counts == CacheCounts(hits=1, misses=2, entries=2)


def test_what_depends_on_the_grid_is_parsed_every_time() -> None:
    store = MemoryStore()
    store.add({"__name__": "a"}, [second * 1000 for second in range(100)], map(float, range(100)))
    engine = Engine(store)
    query = "count_over_time(a[step() + 1s]) + count_over_time(sum(a)[range():step()] offset -step())"
    for step in (1, 2, 4, 2):
        value = engine.range(query, 50_000, 58_000, step * 1000).value
        assert isinstance(value, Matrix)
        assert value.values.tolist() == [[step + 1 + 8 / step] * (8 // step + 1)]
    assert engine.expressions.counts == CacheCounts(hits=0, misses=4, entries=0)


def test_errors_are_not_kept() -> None:
    expressions = Expressions()
    for _ in range(2):
        with pytest.raises(ParseError):
            expressions.parsed("a +")
    assert expressions.counts == CacheCounts(hits=0, misses=2, entries=0)


def test_those_used_least_recently_leave_first() -> None:
    expressions = Expressions(most_chars=30, longest=20)
    kept, left = expressions.parsed("a" * 10), expressions.parsed("b" * 10)
    assert expressions.parsed("a" * 10) is kept
    expressions.parsed("c" * 11)
    assert expressions.parsed("a" * 10) is kept
    assert expressions.parsed("b" * 10) is not left
    long = expressions.parsed("d" * 21)
    assert expressions.parsed("d" * 21) is not long
    assert expressions.counts.entries == 2
