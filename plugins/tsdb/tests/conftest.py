"""Stores on temporary directories, a clock that stands still, and write requests from plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from tocsin_tsdb.promql.interface import Matcher
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.maintenance import Maintenance
from tocsin_tsdb.storage.options import StoreOptions
from tocsin_tsdb.storage.store import Store

NOW = 1_700_000_000_000
"""A point in time (ms), 800 s into a block range."""

Points = Sequence[tuple[int, float]]


class Clock:
    """Seconds that only move when a test moves them."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def __call__(self) -> float:
        return self.ms / 1000


class Box:
    """A store with what belongs to it."""

    def __init__(self, options: StoreOptions, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self.clock = clock
        self.store = Store(options, self.registry, clock)
        self.maintenance = Maintenance(self.store)

    def write(self, **series: Points) -> Any:
        """Write samples of series named by keyword."""
        return self.store.write(request_of({(("__name__", name),): points for name, points in series.items()}))

    def read(
        self, name: str | None = None, start: int = -(1 << 60), end: int = 1 << 60
    ) -> dict[str, list[tuple[int, float]]]:
        """Return the samples of all series, or of one metric, by metric name."""
        matchers = [] if name is None else [Matcher("__name__", "=", name)]
        found = self.store.select(matchers, start, end, max_samples=1 << 30)
        out = {}
        for row, labels in enumerate(found.labels):
            rows = slice(int(found.offsets[row]), int(found.offsets[row + 1]))
            out[dict(labels)["__name__"]] = list(
                zip(found.timestamps[rows].tolist(), found.values[rows].tolist(), strict=True)
            )
        return out

    def metric(self, name: str, **labels: str) -> float:
        """Return a metric's value."""
        self.store.refresh_metrics()
        value = self.registry.get_sample_value(name, labels)
        assert value is not None, name
        return value

    def close(self) -> None:
        """Close the store."""
        self.store.close()


MakeBox = Callable[..., Box]


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def make_box(tmp_path: Path, clock: Clock) -> Iterator[MakeBox]:
    """Open stores, by default all on one directory; those still open at the end are closed."""
    boxes: list[Box] = []

    def make(directory: Path | None = None, **options: Any) -> Box:
        box = Box(StoreOptions(directory or tmp_path / "tsdb", **options), clock)
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        box.close()


def request_of(series: Mapping[tuple[tuple[str, str], ...], Points]) -> bytes:
    """Encode a write request; labels stay in the order given."""
    return b"".join(
        wire.encode_series(
            wire.encode_labels(labels),
            np.array([time for time, _ in points], np.int64),
            np.array([value for _, value in points], np.float64),
        )
        for labels, points in series.items()
    )


@pytest.fixture
def encode() -> Callable[[Mapping[tuple[tuple[str, str], ...], Points]], bytes]:
    return request_of


@pytest.fixture
def now() -> int:
    return NOW
