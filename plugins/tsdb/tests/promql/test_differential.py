"""The same samples and queries here and in Debian's Prometheus, compared value by value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tocsin.plugin.testkit.components import require_program
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.promql.interface import PromQLError
from tocsin_tsdb.promql.render import render_data

from .differential_data import BASE_MS, DURATION_MS, QUERY_RESIDUE_MS, generate
from .differential_queries import generated_queries
from .memory import MemoryStore
from .prometheus import Prometheus, run_prometheus

SEED = 20231114
SLICE_MS = 600_000
QUERY_FILE = Path(__file__).parent / "queries" / "differential.promql"
HAND_WRITTEN = [
    line for line in QUERY_FILE.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")
]
INSTANTS = [BASE_MS + minutes * 60_000 + QUERY_RESIDUE_MS for minutes in (3, 31, 58)]
RANGE = (BASE_MS + 120_000 + QUERY_RESIDUE_MS, BASE_MS + DURATION_MS - 60_000 + QUERY_RESIDUE_MS, 47_000)
RELATIVE_TOLERANCE = 1e-12
_ITEM_NUMBER = re.compile(r'"<Item \d+>" ')  # 2.42 shows an internal number before some operators

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, Engine]]:
    """Both engines over the same samples."""
    program = require_program("prometheus", "prometheus")
    series = generate(SEED)
    store = MemoryStore()
    for labels, samples in series.items():
        store.add(dict(labels), [stamp for stamp, _ in samples], [value for _, value in samples])
    with run_prometheus(program, tmp_path_factory.mktemp("prometheus")) as server:
        for start in range(BASE_MS, BASE_MS + DURATION_MS + SLICE_MS, SLICE_MS):
            parts = {
                labels: [each for each in samples if start <= each[0] < start + SLICE_MS]
                for labels, samples in series.items()
            }
            server.write([(labels, samples) for labels, samples in parts.items() if samples])
        yield server, Engine(store)


@pytest.mark.parametrize("at_ms", INSTANTS)
def test_instant_hand_written(both: tuple[Prometheus, Engine], at_ms: int) -> None:
    _compare_all(both, HAND_WRITTEN, at_ms)


def test_range_hand_written(both: tuple[Prometheus, Engine]) -> None:
    _compare_all(both, HAND_WRITTEN, None)


def test_instant_generated(both: tuple[Prometheus, Engine]) -> None:
    _compare_all(both, generated_queries(SEED, 250), INSTANTS[1])


def test_range_generated(both: tuple[Prometheus, Engine]) -> None:
    _compare_all(both, generated_queries(SEED + 1, 250), None)


def _compare_all(both: tuple[Prometheus, Engine], queries: list[str], at_ms: int | None) -> None:
    differences = []
    for query in queries:
        theirs, ours = _ask_both(both, query, at_ms)
        difference = _difference(query, theirs, ours)
        if difference:
            differences.append(f"{query}\n    {difference}")
    assert not differences, f"{len(differences)} of {len(queries)} queries differ:\n" + "\n".join(differences)


def _ask_both(both: tuple[Prometheus, Engine], query: str, at_ms: int | None) -> tuple[Any, Any]:
    server, engine = both
    try:
        if at_ms is None:
            start, end, step = RANGE
            theirs = server.query("query_range", query=query, start=start / 1000, end=end / 1000, step=step / 1000)
            ours = engine.range(query, start, end, step)
        else:
            theirs = server.query("query", query=query, time=at_ms / 1000)
            ours = engine.instant(query, at_ms)
    except PromQLError as problem:
        return theirs, str(problem)
    return theirs, json.loads(render_data(ours.value))


def _difference(query: str, theirs: dict[str, Any], ours: dict[str, Any] | str) -> str:
    if theirs["status"] == "error":
        text = _ITEM_NUMBER.sub("", theirs["error"])
        if isinstance(ours, dict):
            return f"they refuse: {text}"
        # A parameter's name comes from their HTTP layer; which of several culprits is named depends on their map order.
        same = text == ours or text.endswith(ours) or text.split(" for the match group")[0] in ours
        return "" if same else f"they say: {text}\n    we say:   {ours}"
    if isinstance(ours, str):
        return f"we refuse: {ours}"
    data = theirs["data"]
    if data["resultType"] != ours["resultType"]:
        return f"they return a {data['resultType']}, we a {ours['resultType']}"
    if data["resultType"] in ("scalar", "string"):
        return _points_differ([data["result"]], [ours["result"]])
    if re.search(r"\bstd(dev|var)\b", query):  # 2.42 calls the deviation of a single NaN or Inf 0, later ones NaN
        data, ours = _without_zero_or_nan(data), _without_zero_or_nan(ours)
    return _series_differ(_by_labels(data["result"]), _by_labels(ours["result"])) or _order_differs(query, data, ours)


def _without_zero_or_nan(data: dict[str, Any]) -> dict[str, Any]:
    result = []
    for each in data["result"]:
        points = each["values"] if "values" in each else [each["value"]]
        result.append({"metric": each["metric"], "values": [point for point in points if point[1] not in ("0", "NaN")]})
    return {**data, "result": [each for each in result if each["values"]]}


def _by_labels(result: list[dict[str, Any]]) -> dict[str, list[list[Any]]]:
    out = {}
    for each in result:
        key = json.dumps(each["metric"], sort_keys=True)
        assert key not in out, f"twice: {key}"
        out[key] = each["values"] if "values" in each else [each["value"]]
    return out


def _series_differ(theirs: dict[str, list[list[Any]]], ours: dict[str, list[list[Any]]]) -> str:
    missing, extra = sorted(theirs.keys() - ours.keys()), sorted(ours.keys() - theirs.keys())
    if missing or extra:
        return f"missing {missing[:3]}, extra {extra[:3]}"
    for key, points in theirs.items():
        difference = _points_differ(points, ours[key])
        if difference:
            return f"{key}: {difference}"
    return ""


def _points_differ(theirs: list[list[Any]], ours: list[list[Any]]) -> str:
    if [each[0] for each in theirs] != [each[0] for each in ours]:
        only = {each[0] for each in theirs} ^ {each[0] for each in ours}
        return f"times differ: {sorted(only)[:5]}"
    for (stamp, expected), (_, actual) in zip(theirs, ours, strict=True):
        if expected != actual and not _close(expected, actual):
            return f"at {stamp} they have {expected}, we {actual}"
    return ""


def _close(expected: str, actual: str) -> bool:
    try:
        one, other = float(expected), float(actual)
    except ValueError:
        return False
    return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12) or (
        math.isnan(one) and math.isnan(other)
    )


def _order_differs(query: str, theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    if not query.startswith(("sort(", "sort_desc(")) or theirs["resultType"] != "vector":
        return ""
    orders = [[each["value"][1] for each in data["result"]] for data in (theirs, ours)]
    return "" if orders[0] == orders[1] else f"order differs: {orders[0][:5]} and {orders[1][:5]}"
