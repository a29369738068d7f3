"""Expectations about the language as text.

A script is a list of blocks; indented lines belong to the line before them, `#` begins a comment line.

    clear                               forget all series
    load 30s                            add series, one sample per interval from time 0
      name{label="value"} 1 2 _ stale   numbers, `_` for no sample, `stale` for a staleness marker,
                                        `1+2x3` for 1 3 5 7, `5x3` for 5 5 5 5
    samples                             add series with explicit times (seconds)
      name{label="value"} 3@12.5
    at 1m EXPRESSION                    evaluate at one time and compare with what follows
      {label="value"} 7                 one element; `ordered` before the first makes the order count
    range 0 5m 1m EXPRESSION            evaluate over a range: a value per step, `_` for none
      {label="value"} 1 2 _ 4 5 6

Other expectations: `scalar N`, `string TEXT`, `empty`, `error TEXT`, `warning TEXT`, `info TEXT` (TEXT must be contained;
without a `warning` or `info` line there must be none). A range vector is written as `value@seconds` pairs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tocsin_tsdb.promql.durations import parse_duration
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.promql.interface import (
    STALE_NAN,
    Labels,
    Matrix,
    PromQLError,
    QueryResult,
    QueryValue,
    Scalar,
    Selection,
    String,
    Vector,
)
from tocsin_tsdb.promql.parser import parse_matchers

from .memory import MemoryStore

_STEPS = re.compile(r"(?P<first>[-+.\w]+?)(?:(?P<delta>[-+][.\d]+(?:e[-+]?\d+)?))?x(?P<count>\d+)")
Points = list[tuple[float, float]]


@dataclass
class Check:
    """One evaluation and what it must give, with the series that exist at that point of the script."""

    name: str
    store: MemoryStore
    times: list[int]
    query: str
    expected: list[str] = field(default_factory=list)


def read_checks(path: Path) -> list[Check]:
    """Return all evaluations of a script."""
    checks: list[Check] = []
    store, block, interval = MemoryStore(), "", 0
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] == " ":
            if block == "eval":
                checks[-1].expected.append(line.strip())
            else:
                _add_series(store, line.strip(), interval if block == "load" else None)
            continue
        block, _, rest = line.partition(" ")
        if block in ("load", "samples", "clear"):
            store = MemoryStore() if block == "clear" else store.copy()
            interval = _milliseconds(rest) if block == "load" else 0
            continue
        size = {"at": 1, "range": 3}[block]
        *times, query = rest.split(" ", size)
        checks.append(Check(f"{path.stem}:{number}", store, [_milliseconds(each) for each in times], query))
        block = "eval"
    return checks


def _milliseconds(text: str) -> int:
    negative = text.startswith("-")
    text = text.removeprefix("-")
    value = parse_duration(text) if text[-1].isalpha() else round(float(text) * 1000)
    return -value if negative else value


def _labels(text: str) -> Labels:
    return tuple(sorted((each.name, each.value) for each in parse_matchers(text))) if text != "{}" else ()


def _split_series(line: str) -> tuple[str, str]:
    end = line.index("}") + 1 if "{" in line.split(" ")[0] else line.index(" ")
    return line[:end], line[end:].strip()


def _numbers(text: str) -> list[float | None]:
    out: list[float | None] = []
    for token in text.split():
        match = _STEPS.fullmatch(token)
        if token == "_" or (match and match["first"] == "_"):
            out.extend([None] * (int(match["count"]) if match else 1))
        elif token == "stale":
            out.append(STALE_NAN)
        elif match:
            first, delta = float(match["first"]), float(match["delta"] or 0)
            out.extend(first + delta * k for k in range(int(match["count"]) + 1))
        else:
            out.append(float(token))
    return out


def _add_series(store: MemoryStore, line: str, interval: int | None) -> None:
    series, text = _split_series(line)
    if interval is None:
        pairs = [each.split("@") for each in text.split()]
        values: list[float | None] = [_numbers(value)[0] for value, _ in pairs]
        times = [round(float(seconds) * 1000) for _, seconds in pairs]
    else:
        values = _numbers(text)
        times = [interval * k for k in range(len(values))]
    kept = [(stamp, value) for stamp, value in zip(times, values, strict=True) if value is not None]
    store.add(dict(_labels(series)), [stamp for stamp, _ in kept], [value for _, value in kept])


def run(check: Check) -> None:
    """Evaluate and compare; raises AssertionError."""
    engine = Engine(check.store)
    errors = [each.removeprefix("error ") for each in check.expected if each.startswith("error ")]
    if errors:
        with pytest.raises(PromQLError) as caught:
            _evaluate(engine, check)
        assert errors[0] in str(caught.value)
        return
    result = _evaluate(engine, check)
    _compare_notes(check, result)
    values = [each for each in check.expected if not each.startswith(("warning ", "info "))]
    _compare(values, result.value)


def _evaluate(engine: Engine, check: Check) -> QueryResult:
    if len(check.times) == 1:
        return engine.instant(check.query, check.times[0])
    return engine.range(check.query, *check.times)


def _compare_notes(check: Check, result: QueryResult) -> None:
    for kind, actual in (("warning ", result.warnings), ("info ", result.infos)):
        wanted = [each.removeprefix(kind) for each in check.expected if each.startswith(kind)]
        assert len(wanted) == len(actual), f"{kind}: wanted {wanted}, got {actual}"
        for text in wanted:
            assert any(text in each for each in actual), f"{kind}: wanted {text}, got {actual}"


def _compare(expected: list[str], value: QueryValue) -> None:
    if isinstance(value, Scalar):
        (line,) = expected
        assert line.startswith("scalar "), f"got the scalar {value.value}"
        assert _same(float(line.removeprefix("scalar ")), value.value), value
    elif isinstance(value, String):
        assert expected == [f"string {value.value}"]
    else:
        ordered = expected[:1] == ["ordered"]
        lines = [each for each in expected if each not in ("ordered", "empty")]
        wanted = [(_labels(series), numbers) for series, numbers in map(_split_series, lines)]
        _compare_series(wanted, _listed(value), grid=isinstance(value, Matrix), ordered=ordered)


def _listed(value: Vector | Matrix | Selection) -> list[tuple[Labels, Points]]:
    if isinstance(value, Vector):
        return [(key, [(0.0, float(number))]) for key, number in zip(value.labels, value.values, strict=True)]
    if isinstance(value, Matrix):
        masked = np.where(value.present, value.values, STALE_NAN)
        return [
            (key, [(float(place), number) for place, number in enumerate(row)])
            for key, row in zip(value.labels, masked.tolist(), strict=True)
        ]
    out = []
    for row, key in enumerate(value.labels):
        part = slice(value.offsets[row], value.offsets[row + 1])
        stamps = (value.timestamps[part] / 1000).tolist()
        out.append((key, list(zip(stamps, value.values[part].tolist(), strict=True))))
    return out


def _compare_series(
    wanted: list[tuple[Labels, str]], actual: list[tuple[Labels, Points]], *, grid: bool, ordered: bool
) -> None:
    found = dict(actual)
    assert len(found) == len(actual), "two results with the same labels"
    if ordered:
        assert [key for key, _ in wanted] == [key for key, _ in actual]
    assert {key for key, _ in wanted} == set(found), f"got {actual}"
    for key, text in wanted:
        points = found[key]
        if "@" in text:
            pairs = [each.split("@") for each in text.split()]
            assert [float(stamp) for _, stamp in pairs] == [stamp for stamp, _ in points], f"{key}: {points}"
            numbers: list[float | None] = [float(number) for number, _ in pairs]
        else:
            numbers = _numbers(text)
        assert len(numbers) == len(points), f"{key}: {points}"
        for number, (_, got) in zip(numbers, points, strict=True):
            assert _same(STALE_NAN if number is None else number, got), f"{key}: wanted {numbers}, got {points}"


def _same(wanted: float, got: float) -> bool:
    if math.isnan(wanted) or math.isnan(got):
        both = np.array([wanted, got]).view(np.uint64)
        absent = both == np.array([STALE_NAN]).view(np.uint64)
        return math.isnan(wanted) and math.isnan(got) and bool(absent[0] == absent[1])
    return math.isclose(wanted, got, rel_tol=1e-12, abs_tol=0.0) or wanted == got
