"""A range query is nothing but an instant query at every step."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from tocsin_tsdb.promql import frames, selectors
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.promql.interface import ExecutionError, Labels, Matrix, ParseError, Scalar, Vector

from .differential_data import BASE_MS, generate
from .differential_queries import generated_queries
from .memory import MemoryStore

TIMES = (BASE_MS + 600_000, BASE_MS + 3_000_000, 240_000)
BOUNDS = re.compile(r"(start|end)\(\)")
SPECIAL = [
    "holt_winters(temp[10m], 0.3, 0.6)",
    "mad_over_time(odd[7m])",
    "integral(odd[7m])",
    "integral(temp[10m], 1)",
    "ts_of_min_over_time(level[9m])",
    "histogram_quantile(0.7, rate(lat_bucket[5m]))",
    "histogram_fraction(0.1, 3, lat_bucket)",
    "topk by (job) (2, temp)",
    "limitk(3, temp)",
    "limit_ratio(-0.4, temp)",
    'count_values("v", level)',
    "info(temp)",
    "predict_linear(temp[5m] @ 1700001200, 60)",
    "timestamp(temp @ 1700001200)",
    "temp + fill(3) level{job='api'}",
    "absent(odd > 9) or vector(time())",
    "minute() + scalar(limit{job='db'})",
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    """An engine over the generated series."""
    store = MemoryStore()
    for labels, samples in generate(5).items():
        store.add(dict(labels), [stamp for stamp, _ in samples], [value for _, value in samples])
    return Engine(store)


@pytest.mark.parametrize("block_cells", [1 << 16, 7])
def test_range_equals_instants(engine: Engine, block_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with blocks so small that every series, and every step, is on its own."""
    monkeypatch.setattr(selectors, "_BLOCK_CELLS", block_cells)
    monkeypatch.setattr(frames, "_BLOCK_CELLS", block_cells)
    compared = 0
    for query in [*SPECIAL, *generated_queries(11, 150)]:
        if not BOUNDS.search(query):
            compared += _compare(engine, query)
    assert compared > 60


def _compare(engine: Engine, query: str) -> bool:
    start, end, step = TIMES
    try:
        matrix = engine.range(query, start, end, step).value
    except (ParseError, ExecutionError):
        return False
    assert isinstance(matrix, Matrix)
    for column, time in enumerate(range(start, end + 1, step)):
        rows = np.flatnonzero(matrix.present[:, column])
        across = {matrix.labels[row]: float(matrix.values[row, column]) for row in rows}
        _assert_same(across, _instant(engine, query, time), f"{query} at {time}")
    return True


def _instant(engine: Engine, query: str, time: int) -> dict[Labels, float]:
    value = engine.instant(query, time).value
    if isinstance(value, Scalar):
        return {(): value.value}
    assert isinstance(value, Vector)
    return dict(zip(value.labels, value.values.tolist(), strict=True))


def _assert_same(one: dict[Labels, float], other: dict[Labels, float], what: str) -> None:
    assert one.keys() == other.keys(), what
    for labels, value in one.items():
        same = math.isclose(value, other[labels], rel_tol=1e-9, abs_tol=1e-12)
        assert same or (math.isnan(value) and math.isnan(other[labels])), f"{what}: {labels} {value} {other[labels]}"
