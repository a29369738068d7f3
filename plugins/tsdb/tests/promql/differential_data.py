"""Generated series for the comparison with Prometheus: counters, gauges, histograms, gaps, staleness, churn.

All timestamps end in 337 ms, all query times in 123 ms, so that no sample lies on the edge of a window: there the two
generations of the language differ by design.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tocsin_tsdb.promql.interface import STALE_NAN, Labels

BASE_MS = 1_700_000_040_000
DURATION_MS = 3_600_000
INTERVAL_MS = 15_000
SAMPLE_RESIDUE_MS = 337
QUERY_RESIDUE_MS = 123
BOUNDS = ("0.005", "0.05", "0.25", "1", "2.5", "10", "+Inf")

Series = dict[Labels, list[tuple[int, float]]]


def generate(seed: int) -> Series:
    """Return all series by labels."""
    source = random.Random(seed)
    series: Series = {}
    for name, labels in _identities():
        for stamps in _lifetimes(source):
            maker = {"temp": _gauge, "level": _level, "odd": _odd}.get(name, _counter)
            key = _labels(__name__=name, **labels)
            series.setdefault(key, []).extend(_with_staleness(source, stamps, maker(source, len(stamps))))
    for job in ("api", "db", "web"):
        _histogram(source, series, job)
        steady = _stamps(source)
        series[_labels(__name__="build_info", job=job, version=f"1.{len(job)}")] = [(each, 1.0) for each in steady]
        series[_labels(__name__="limit", job=job)] = [(each, float(len(job) * 100)) for each in steady]
    return series


def _labels(**pairs: str) -> Labels:
    return tuple(sorted(pairs.items()))


def _identities() -> Iterator[tuple[str, dict[str, str]]]:
    for job in ("api", "db", "web"):
        for instance in ("a:1", "b:2", "c:3"):
            for code in ("200", "404", "500"):
                yield "req_total", {"job": job, "instance": instance, "code": code}
            for name in ("temp", "level", "odd"):
                yield name, {"job": job, "instance": instance, "zone": instance[0] + job[0]}


def _stamps(source: random.Random) -> list[int]:
    first = BASE_MS + source.randrange(0, 15) * 1000 + SAMPLE_RESIDUE_MS
    return list(range(first, BASE_MS + DURATION_MS, INTERVAL_MS))


def _lifetimes(source: random.Random) -> Iterator[list[int]]:
    """Yield stretches of regular scrapes; between them is a gap."""
    stamps = [each for each in _stamps(source) if source.random() > 0.01]
    kind = source.random()
    if kind < 0.5:
        yield stamps
    elif kind < 0.7:
        begin = source.randrange(len(stamps) // 2)
        yield stamps[begin : begin + len(stamps) // 2]
    else:
        cut = sorted(source.sample(range(10, len(stamps) - 10), 2))
        yield stamps[: cut[0]]
        yield stamps[cut[1] :]


def _with_staleness(source: random.Random, stamps: list[int], values: list[float]) -> list[tuple[int, float]]:
    samples = list(zip(stamps, values, strict=True))
    if source.random() < 0.6:  # without one, the last value lives on for the look-back
        samples[-1] = (samples[-1][0], STALE_NAN)
    return samples


def _counter(source: random.Random, count: int) -> list[float]:
    value = source.uniform(1e4, 1e6)
    out = []
    for _ in range(count):
        out.append(value)
        value += source.choice((0.0, source.uniform(0, 50), float(source.randrange(1000))))
        if source.random() < 0.02:
            value = source.uniform(5e3, 9e3)
    return out


def _gauge(source: random.Random, count: int) -> list[float]:
    value = source.uniform(-20, 80)
    out = []
    for _ in range(count):
        value += source.gauss(0, 3)
        out.append(value)
    return out


def _level(source: random.Random, count: int) -> list[float]:
    return [float(source.randrange(0, 6)) for _ in range(count)]


def _odd(source: random.Random, count: int) -> list[float]:
    """Values at the borders of the number format."""
    strange = [float("nan"), float("inf"), float("-inf"), 0.0, 1e300, 1e-300, -1.5, 1e21, 1.25e-7, 123456789.125]
    return [source.choice(strange) if source.random() < 0.1 else source.uniform(-10, 10) for _ in range(count)]


def _histogram(source: random.Random, series: Series, job: str) -> None:
    stamps = _stamps(source)
    totals = [source.randrange(5_000, 6_000) + 1000 * place for place in range(len(BOUNDS))]
    for stamp in stamps:
        added = 0
        for place, bound in enumerate(BOUNDS):
            added += source.randrange(0, 20)
            totals[place] += added
            key = _labels(__name__="lat_bucket", job=job, le=bound)
            series.setdefault(key, []).append((stamp, float(totals[place])))
