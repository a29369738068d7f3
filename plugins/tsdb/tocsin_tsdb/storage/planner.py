"""What to merge and what to delete: pure decisions over the descriptions of blocks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, TypeVar

from tocsin_tsdb.storage.block import Meta

PARTS_PER_MERGE = 4
MOST_YOUNG = 12
LEVEL_FACTOR = 3


class HasMeta(Protocol):
    """Anything that describes itself as a block does."""

    @property
    def meta(self) -> Meta: ...

    @property
    def size(self) -> int: ...


class HasSpans(Protocol):
    """Anything that knows where it has samples, as a memtable does."""

    def spans(self, width: int) -> list[int]: ...


B = TypeVar("B", bound=HasMeta)


@dataclass(frozen=True, slots=True)
class Span:
    """An aligned span of time [start, end) in ms."""

    start: int
    end: int

    @classmethod
    def around(cls, time: int, width: int) -> Span:
        """Return the aligned span of a width that contains a time."""
        start = time - time % width
        return cls(start, start + width)


def widths(smallest: int, largest: int) -> list[int]:
    """Return the widths of blocks, ascending: each three times the one before."""
    out = [smallest]
    while out[-1] * LEVEL_FACTOR <= largest:
        out.append(out[-1] * LEVEL_FACTOR)
    return out


def spans_of(memtable: HasSpans, smallest: int, largest: int, most: int = 64) -> list[Span]:
    """Return the aligned spans that have samples, of the smallest width that needs at most `most` of them (or the largest)."""
    for width in widths(smallest, largest):
        starts = memtable.spans(width)
        if len(starts) <= most:
            break
    return [Span(start, start + width) for start in starts]


def next_merge(blocks: Sequence[B], smallest: int, largest: int, settled: int) -> tuple[Span, list[B]] | None:
    """Choose the blocks to merge next, or None.

    A span that lies before the time `settled` is merged to one block; before that, as soon as `PARTS_PER_MERGE` blocks of about
    one size are in it. What is younger stays in small blocks, as long as they are few: most queries ask for it, and all of it.
    """
    young = sorted((block for block in blocks if block.meta.max_time >= settled), key=lambda block: block.meta.max_time)
    left_alone = young[-MOST_YOUNG:]
    old = [block for block in blocks if block not in left_alone]
    for width in widths(smallest, largest):
        for span, members in _by_span(old, width).items():
            for run in _runs(members, blocks):
                if len(run) > 1 and span.end <= settled:
                    return span, run
                alike = _alike(run) if width == smallest else []
                if len(alike) >= PARTS_PER_MERGE:
                    return span, alike
    return None


def _by_span(blocks: Sequence[B], width: int) -> dict[Span, list[B]]:
    spans: dict[Span, list[B]] = {}
    for block in blocks:
        if block.meta.end - block.meta.start <= width:
            spans.setdefault(Span.around(block.meta.start, width), []).append(block)
    return spans


def _runs(members: Sequence[B], blocks: Sequence[B]) -> list[list[B]]:
    """Split blocks, in the order of writing, where another one that may hold the same samples was written in between.

    What is merged counts as written with its first part, so a later part would win over a block that came before it.
    """
    oldest, newest = min(block.meta.min_time for block in members), max(block.meta.max_time for block in members)
    borders = sorted(
        other.meta.sequence
        for other in blocks
        if other.meta.min_time <= newest and other.meta.max_time >= oldest and other not in members
    )
    in_order = sorted(members, key=lambda block: block.meta.sequence)
    runs = groupby(in_order, lambda block: bisect_left(borders, block.meta.sequence))
    return [list(run) for _, run in runs]


def _alike(run: Sequence[B]) -> list[B]:
    """Return the most successive blocks whose sample counts differ by less than the factor that a merge multiplies them by."""
    groups = groupby(run, lambda block: block.meta.samples.bit_length() // 2)
    return max((list(group) for _, group in groups), key=len)


def expired(blocks: Sequence[B], retention: int, newest: int) -> list[B]:
    """Return the blocks that hold nothing younger than the retention, measured from the newest sample."""
    return [block for block in blocks if block.meta.max_time <= newest - retention]


def oversize(blocks: Sequence[B], limit: int) -> list[B]:
    """Return the oldest blocks that must go so that the rest fits into the limit (0 is none)."""
    surplus = sum(block.size for block in blocks) - limit
    out: list[B] = []
    if limit <= 0:
        return out
    for block in sorted(blocks, key=lambda block: block.meta.max_time):
        if surplus <= 0:
            break
        out.append(block)
        surplus -= block.size
    return out
