"""The series index: ids that are used again, labels that go, aliases that are bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tocsin_tsdb.promql.interface import Matcher
from tocsin_tsdb.storage import index as index_module
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.index import INVALID, SeriesIndex
from tocsin_tsdb.storage.matching import MatcherEvaluator


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def key(**labels: str) -> bytes:
    return wire.encode_labels(sorted(labels.items()))


def test_a_removed_id_rests_before_it_is_used_again() -> None:
    clock = Clock()
    index = SeriesIndex(clock, reuse_after=10)
    first, second = index.register([key(a="1"), key(a="2")])
    index.remove([first])
    assert index.labels([first, second]) == [(), (("a", "2"),)]
    clock.now = 9
    assert index.register([key(a="3")]) == [2]
    clock.now = 10
    assert index.register([key(a="4")]) == [first]
    assert index.labels([first]) == [(("a", "4"),)]
    assert (len(index), index.created, index.removed, index.capacity) == (3, 4, 1, 3)


def test_postings_stay_sorted_when_ids_are_used_again() -> None:
    index = SeriesIndex(Clock(), reuse_after=0)
    sids = index.register([key(n=str(i), job="x") for i in range(6)])
    index.remove(sids[1:3])
    index.register([key(n="7", job="x"), key(n="8", job="x")])
    assert index.posting("job", "x").tolist() == [0, 1, 2, 3, 4, 5]
    assert index.values("n") == ["0", "3", "4", "5", "7", "8"]
    assert sorted(index.cardinalities()["n"]) == index.values("n")


def test_nothing_is_left_of_labels_that_are_gone() -> None:
    index = SeriesIndex(Clock(), reuse_after=0)
    sids = index.register([key(a="1", b="2")])
    index.register([key(a="1")])
    size = index.symbol_bytes
    index.remove(sids)
    assert index.names() == ["a"]
    assert index.symbol_bytes < size
    index.remove(sids)  # removing twice is removing once
    assert index.removed == 1


def test_aliases_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(index_module, "ALIAS_ROOM", 5)
    index = SeriesIndex(Clock(), reuse_after=0)
    for number in range(50):
        labels = [("b", "1"), ("a", str(number % 3)), ("empty", "")][number % 2 :]
        assert index.register([wire.encode_labels([*labels, ("c", "x"), ("d" * (number + 1), "")])]) != [INVALID]
    assert len(index.ids) <= len(index) + 5 + len(index) + 1


@pytest.mark.parametrize(
    "raw", [b"", key(a=""), wire.encode_labels([("", "x")]), b"\x0a\x05", b"\x0a\x04\x0a\x02\xff\xff"]
)
def test_unusable_labels(raw: bytes) -> None:
    index = SeriesIndex(Clock(), reuse_after=0)
    assert index.register([raw]) == [INVALID]
    assert len(index) == 0


def test_matchers_see_new_and_removed_values(monkeypatch: Any) -> None:
    index = SeriesIndex(Clock(), reuse_after=0)
    evaluator = MatcherEvaluator(index)
    wanted = [Matcher("a", "=~", "x.*")]
    assert evaluator.resolve(wanted).tolist() == []
    sids = index.register([key(a="x1"), key(a="y"), key(a="x2"), key(b="z")])
    assert evaluator.resolve(wanted).tolist() == [sids[0], sids[2]]
    assert evaluator.resolve([Matcher("a", "!~", "x.*")]).tolist() == [sids[1], sids[3]]
    index.remove([sids[0]])
    assert evaluator.resolve(wanted).tolist() == [sids[2]]
    again = index.register([key(a="x1", c="new")])
    assert evaluator.resolve(wanted).tolist() == sorted([sids[2], *again])
    narrow = [Matcher("c", "=", "new"), Matcher("a", "=~", "x.*")]
    assert evaluator.resolve(narrow).tolist() == again


def test_labels_of_more_series_than_are_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(index_module, "LABELS_ROOM", 4)
    index = SeriesIndex(Clock(), reuse_after=0)
    sids = index.register([key(a=str(i)) for i in range(10)])
    for _ in range(2):
        for part in (sids[:3], sids[2:6], sids):
            assert index.labels(part) == [(("a", str(sid)),) for sid in part]
    assert np.array(sids).tolist() == list(range(10))
