"""How samples are read from blocks: in an order that needs no sorting, file by file, and no longer than they are wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from falcon.testing import TestClient

from tocsin_tsdb.api.app import create_app
from tocsin_tsdb.api.options import ApiOptions
from tocsin_tsdb.httpserver import CLIENT_LEFT
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.promql.interface import QueryCanceled, QueryTimeout
from tocsin_tsdb.storage import pieces
from tocsin_tsdb.storage.options import HOUR, MINUTE

MakeBox = Callable[..., Any]
COUNT = 40


@pytest.fixture
def wide(make_box: MakeBox, encode: Any, now: int) -> Any:
    """A store with one block of 40 series in 40 files."""
    box = make_box(rows_per_file=1)
    box.store.write(encode({(("__name__", "m"), ("i", f"{i:02d}")): [(now, float(i))] for i in range(COUNT)}))
    box.maintenance.flush()
    assert len(box.store.blocks.current[0].meta.files) == COUNT
    return box


@pytest.fixture
def opened(wide: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was asked of the files of the wide store so far."""
    asked: list[Any] = []
    read = wide.store.files.read

    def spy(*arguments: Any) -> Any:
        asked.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(wide.store.files, "read", spy)
    return asked


def fill(box: Any, now: int, hours: int) -> dict[str, list[tuple[int, float]]]:
    """Write a sample a minute and let maintenance run as often as it likes, which makes blocks of all sizes."""
    points = [(now + minute * MINUTE, float(minute)) for minute in range(hours * 60)]
    for at in range(0, len(points), 20):
        box.clock.ms = points[at][0] + 10 * MINUTE
        box.write(a=points[at : at + 20])
        if at % 100 == 0:
            box.maintenance.flush()
        if at % 60 == 0:
            box.maintenance.round()
    box.maintenance.flush()
    return {"a": points}


def test_merged_blocks_are_read_in_the_order_of_time(make_box: MakeBox, now: int, monkeypatch: Any) -> None:
    box = make_box(retention=10 * 24 * HOUR)
    expected = fill(box, now, 14)
    assert len(box.store.blocks.current) > 3
    assert max(block.meta.level for block in box.store.blocks.current) > 1
    box.close()
    monkeypatch.setattr(np, "lexsort", lambda *_: pytest.fail("samples had to be sorted"))
    for again in (box, make_box()):
        assert again.read() == expected


def test_blocks_that_overlap_are_read_in_the_order_of_writing(make_box: MakeBox, now: int) -> None:
    """The first sample of a time stays the right one, whichever block begins earlier and whatever lies beside them."""
    box = make_box()
    box.write(a=[(now + 5, 1.0)], b=[(now + 5, 1.0)])
    box.maintenance.flush()
    box.write(a=[(now + 9, 3.0)])
    box.maintenance.flush()
    box.write(a=[(now, 2.0), (now + 5, 2.0)])
    box.maintenance.flush()
    box.clock.ms += 2 * HOUR
    box.write(a=[(now + 2 * HOUR, 4.0)], c=[(now + 2 * HOUR, 4.0)])
    box.maintenance.flush()
    expected = {
        "a": [(now, 2.0), (now + 5, 1.0), (now + 9, 3.0), (now + 2 * HOUR, 4.0)],
        "b": [(now + 5, 1.0)],
        "c": [(now + 2 * HOUR, 4.0)],
    }
    assert [block.meta.sequence for block in box.store.blocks.current] == [1, 3, 2, 4]
    assert box.read() == expected
    box.close()
    assert make_box().read() == expected


class Stop(Exception):
    """What a check raises."""


def test_reading_stops_between_files(wide: Any, opened: list[Any], now: int) -> None:
    asked = iter([None] * 7 + [Stop()])

    def check() -> None:
        answer = next(asked)
        if answer is not None:
            raise answer

    with pytest.raises(Stop):
        wide.store.select([], now, now, max_samples=99, check=check)
    assert len(opened) == 8
    assert len(wide.store.select([], now, now, max_samples=99).values) == COUNT


def test_a_query_that_is_not_wanted_any_more_stops_reading(wide: Any, opened: list[Any], now: int) -> None:
    with pytest.raises(QueryCanceled):
        Engine(wide.store).instant("m", now, cancelled=lambda: len(opened) >= 3)
    assert len(opened) == 3
    with pytest.raises(QueryTimeout):
        Engine(wide.store, timeout=5.0, clock=lambda: float(len(opened))).instant("m", now)
    assert len(opened) == 3 + 6


def test_a_client_that_leaves_while_samples_are_read_frees_its_slot(wide: Any, opened: list[Any], now: int) -> None:
    engine = Engine(wide.store)
    options = ApiOptions(query_concurrency=1)
    client = TestClient(create_app(wide.store, wide.maintenance, engine, options, wide.registry))
    gone = {CLIENT_LEFT: lambda: len(opened) >= 2}
    left = client.simulate_get("/api/v1/query", query_string=f"query=m&time={now / 1000}", extras=gone)
    assert (left.status_code, left.json["errorType"]) == (503, "canceled")
    assert len(opened) == 2
    answer = client.simulate_get("/api/v1/query", query_string=f"query=count(m)&time={now / 1000}")
    assert answer.json["data"]["result"][0]["value"][1] == str(COUNT)


def test_only_series_whose_places_overlap_are_sorted() -> None:
    """Three series of which one is out of order and one repeats a time."""
    times = np.array([1, 2, 3, 5, 4, 6, 1, 2, 2], np.int64)
    first = pieces.Piece(np.arange(3), np.array([0, 3, 6]), np.array([3, 2, 2]), times, np.arange(9, dtype=float))
    second = pieces.Piece(np.array([1, 2]), np.array([5, 8]), np.array([1, 1]), times, np.arange(9, dtype=float) + 100)
    merged = pieces.merge([first, second], 3)
    assert merged.offsets.tolist() == [0, 3, 6, 8]
    assert merged.times.tolist() == [1, 2, 3, 4, 5, 6, 1, 2]
    assert merged.values.tolist() == [0, 1, 2, 4, 3, 105, 6, 7]
    assert merged.dropped == 1
