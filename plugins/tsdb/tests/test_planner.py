"""Which blocks merge when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tocsin_tsdb.storage.memtable import Memtable
from tocsin_tsdb.storage.planner import Span, next_merge, spans_of, widths


class Described:
    """A block as the planner sees it."""

    def __init__(
        self, start: int, end: int, samples: int = 100, max_time: int | None = None, sequence: int = 1
    ) -> None:
        self.meta: Any = SimpleNamespace(
            start=start,
            end=end,
            min_time=start,
            max_time=end - 1 if max_time is None else max_time,
            samples=samples,
            sequence=sequence,
        )
        self.size = samples


def test_planner_merges_finished_spans_and_many_small_parts() -> None:
    assert widths(2, 54) == [2, 6, 18, 54]
    memtable = Memtable(tail_room=4)
    times = np.array([-1, 3, 9, 100, 101])
    memtable.append(np.zeros(5, np.int32), times, np.zeros(5))
    assert [span.start for span in spans_of(memtable, 2, 54)] == [-2, 2, 8, 100]
    assert spans_of(memtable, 2, 54, most=2) == [Span(-54, 0), Span(0, 54), Span(54, 108)]
    two = [Described(0, 2), Described(0, 2)]
    assert next_merge(two, 2, 54, settled=1) is None
    assert next_merge(two, 2, 54, settled=2) == (Span(0, 2), two)
    row = [Described(0, 2), Described(2, 4), Described(4, 6)]
    assert next_merge(row, 2, 54, settled=6) == (Span(0, 6), row)
    assert next_merge(row, 2, 54, settled=5) is None
    assert next_merge([Described(0, 6), Described(6, 8)], 2, 54, settled=8) is None


def test_planner_leaves_the_newest_part_of_a_range_alone() -> None:
    parts = [Described(0, 20, max_time=time) for time in (3, 6, 9, 12)]
    assert next_merge(parts[:3], 20, 60, settled=13) is None
    assert next_merge(parts, 20, 60, settled=12) is None
    assert next_merge(parts, 20, 60, settled=13) == (Span(0, 20), parts)
    assert next_merge([*parts[:3], Described(0, 20, 10**9, 12)], 20, 60, settled=13) is None


def test_planner_does_not_let_young_blocks_become_many() -> None:
    parts = [Described(0, 2000, max_time=1000 + number) for number in range(20)]
    span, chosen = next_merge(parts, 2000, 6000, settled=10) or (None, [])
    assert (span, chosen) == (Span(0, 2000), parts[:8])
    assert next_merge(parts[:15], 2000, 6000, settled=10) is None


def test_planner_merges_only_what_was_written_in_succession() -> None:
    """A merge counts as written with its first part, and the first is right: nothing may come in between."""
    wide = Described(0, 6, sequence=3)
    early, late = [[Described(0, 2, sequence=number) for number in pair] for pair in ((1, 2), (4, 5))]
    assert next_merge([*late, wide, *early], 2, 6, settled=2) == (Span(0, 2), early)
    assert next_merge([*late, wide, early[0]], 2, 6, settled=2) == (Span(0, 2), late)
    merged = next_merge([late[0], wide, early[0]], 2, 6, settled=6)
    assert merged == (Span(0, 6), [early[0], wide, late[0]])
    elsewhere = Described(2, 4, sequence=3)
    assert next_merge([late[0], elsewhere, early[0]], 2, 6, settled=2) == (Span(0, 2), [early[0], late[0]])


def test_planner_merges_alike_parts_in_succession() -> None:
    sizes = [100, 100, 10**6, 100, 100, 100, 100]
    parts = [Described(0, 2000, size, max_time=9, sequence=number) for number, size in enumerate(sizes)]
    assert next_merge(parts, 2000, 6000, settled=10) == (Span(0, 2000), parts[3:])
    assert next_merge(parts[:-1], 2000, 6000, settled=10) is None
