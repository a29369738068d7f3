"""Values during evaluation: whole (series x steps) matrices, never single samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from .interface import METRIC_NAME, BoolArray, ExecutionError, Float64Array, Int64Array, Labels
from .nodes import Extension

SAME_LABELS = "vector cannot contain metrics with the same labelset"
_BLOCK_CELLS = 1 << 18
METADATA_LABELS = frozenset((METRIC_NAME, "__type__", "__unit__"))
"""What operations that change a value's meaning take away."""


@dataclass(slots=True)
class Frame:
    """An instant vector at every step: `values` and `present` are [series x steps]; no two rows share their labels.

    Where `present` is false, `values` is arbitrary.
    """

    labels: list[Labels]
    values: Float64Array
    present: BoolArray

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.values.shape[1])

    @property
    def cells(self) -> int:
        """What the matrix counts for in the query's budget."""
        return self.values.size

    def take(self, rows: Int64Array | list[int]) -> Frame:
        """Return the given rows."""
        return Frame([self.labels[row] for row in rows], self.values[rows], self.present[rows])

    def pruned(self) -> Frame:
        """Return the rows that have at least one sample."""
        keep = np.flatnonzero(self.present.any(axis=1))
        return self if len(keep) == len(self.labels) else self.take(keep)

    def nameless(self, values: Float64Array, present: BoolArray | None = None) -> Frame:
        """Return new values under the same labels without the metric's name."""
        return merge_same_labels(without_name(self.labels), values, self.present if present is None else present)


@dataclass(slots=True)
class Row:
    """A scalar at every step: `values` is [steps]."""

    values: Float64Array
    cells: ClassVar[int] = 0


@dataclass(slots=True)
class Text:
    """A string."""

    value: str
    cells: ClassVar[int] = 0


@dataclass(slots=True)
class RangeVector:
    """A range vector at every step.

    Samples are in CSR form as in `Selection`, staleness markers removed. The window of step s covers the times
    (ends[s] - range_ms, ends[s]]; with an `extension` the samples around it are kept too. `times` are the steps
    themselves, which differ from `ends` under `offset` and `@`.
    """

    labels: list[Labels]
    timestamps: Int64Array
    values: Float64Array
    offsets: Int64Array
    ends: Int64Array
    times: Int64Array
    range_ms: int
    extension: Extension | None = None

    @property
    def cells(self) -> int:
        """What the samples count for in the query's budget."""
        return self.values.size


@dataclass(slots=True)
class Windows:
    """The windows of some series of a range vector, found in the samples.

    The window of series i at step s holds the samples `low[i, s]` to `high[i, s]` (exclusive) of `timestamps` and
    `values`, and covers the times (starts[s], ends[s]].
    """

    timestamps: Int64Array
    values: Float64Array
    low: Int64Array
    high: Int64Array
    starts: Int64Array
    ends: Int64Array
    times: Int64Array
    range_ms: int

    @property
    def counts(self) -> Int64Array:
        """Samples per window, [series x steps]."""
        counts: Int64Array = self.high - self.low
        return counts


Value: TypeAlias = Frame | Row | Text | RangeVector


def column_blocks(rows: int, steps: int) -> Iterator[slice]:
    """Split steps so that what is computed from a block of all rows stays small."""
    size = max(1, _BLOCK_CELLS // max(1, rows))
    for start in range(0, steps, size):
        yield slice(start, min(steps, start + size))


def empty_frame(steps: int) -> Frame:
    """Return a vector without elements."""
    return Frame([], np.empty((0, steps)), np.empty((0, steps), dtype=np.bool_))


def without_name(labels: list[Labels]) -> list[Labels]:
    """Drop the metric's name (and type and unit, where they are kept as labels) from every label set."""
    if all(each and each[0][0] == METRIC_NAME and len(each) > 1 and each[1][0] > "__unit__" for each in labels):
        return [each[1:] for each in labels]
    return [tuple(pair for pair in each if pair[0] not in METADATA_LABELS) for each in labels]


def merge_same_labels(labels: list[Labels], values: Float64Array, present: BoolArray) -> Frame:
    """Build a frame in which rows with equal labels have become one.

    Raises ExecutionError where two of them have a sample at the same step.
    """
    first: dict[Labels, int] = {}
    target = [first.setdefault(each, len(first)) for each in labels]
    if len(first) == len(labels):
        return Frame(labels, values, present)
    index = np.array(target)
    counts = np.zeros((len(first), present.shape[1]), dtype=np.int64)
    np.add.at(counts, index, present)
    if (counts > 1).any():
        raise ExecutionError(SAME_LABELS)
    merged = np.zeros((len(first), values.shape[1]))
    rows, columns = np.nonzero(present)
    merged[index[rows], columns] = values[rows, columns]
    return Frame(list(first), merged, counts > 0)


def label_value(labels: Labels, name: str) -> str:
    """Return the value of a label; an absent label is the empty string."""
    for key, value in labels:
        if key == name:
            return value
    return ""


def make_labels(pairs: Iterable[tuple[str, str]]) -> Labels:
    """Sort pairs into a label set, leaving out empty values."""
    return tuple(sorted(pair for pair in pairs if pair[1]))
