"""What the engine needs from a store, and what it gives back: plain data, NumPy arrays and one protocol.

Times are milliseconds since 1970-01-01 UTC (int64); values are float64. Nothing here knows DuckDB, HTTP or JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""The identity of a series: (name, value) pairs sorted by name, `__name__` included, no empty values."""

MatchOp: TypeAlias = Literal["=", "!=", "=~", "!~"]
Int64Array: TypeAlias = npt.NDArray[np.int64]
Float64Array: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

METRIC_NAME = "__name__"
STALE_NAN_BITS = 0x7FF0000000000002
"""Bit pattern of a staleness marker; every other NaN is an ordinary value."""
STALE_NAN = float(np.array([STALE_NAN_BITS], dtype=np.uint64).view(np.float64)[0])


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label condition. An absent label counts as the empty string; regular expressions (RE2 syntax) match the
    whole value, with `.` matching newlines. `regex.predicate(matcher)` gives the test as a function of the value."""

    name: str
    op: MatchOp
    value: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Samples of n series, one after the other (CSR).

    Series i owns `timestamps[offsets[i]:offsets[i + 1]]` and the same slice of `values`; times strictly ascend within
    a series; no two series share their labels. Staleness markers are kept as they are (`STALE_NAN_BITS`).
    """

    labels: list[Labels]
    offsets: Int64Array
    timestamps: Int64Array
    values: Float64Array


def go_on() -> None:
    """The check of a caller that lets the work run to its end."""


class Queryable(Protocol):
    """A store that the engine can read from."""

    def select(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        *,
        max_samples: int,
        check: Callable[[], None] = go_on,
    ) -> Selection:
        """Return every series that satisfies all matchers, with its samples in [start_ms, end_ms] (both ends included).

        A series without a sample in the interval may be left out. Raises `TooManySamples` as soon as it is known that
        more than max_samples samples would be returned. `check` is called between parts of the work; what it raises ends it.
        """
        ...


class PromQLError(Exception):
    """Base of everything that the engine raises for a query; `str()` is the message for the user."""


class ParseError(PromQLError):
    """The expression is malformed or ill-typed. The message starts with `line:column: parse error: `."""


class ExecutionError(PromQLError):
    """The expression is well-formed but cannot be evaluated on this data."""


class TooManySamples(ExecutionError):
    """The query needs more samples in memory than it may hold."""

    def __init__(self) -> None:
        super().__init__("query processing would load too many samples into memory in query execution")


class QueryTimeout(PromQLError):
    """The query ran longer than allowed."""

    def __init__(self) -> None:
        super().__init__("query timed out in expression evaluation")


class QueryCanceled(PromQLError):
    """The caller does not want the answer any more."""

    def __init__(self) -> None:
        super().__init__("query was canceled in expression evaluation")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number at a time (instant queries only)."""

    timestamp_ms: int
    value: float


@dataclass(frozen=True, slots=True)
class String:
    """A text at a time (instant queries only)."""

    timestamp_ms: int
    value: str


@dataclass(frozen=True, slots=True)
class Vector:
    """One value per series at one time; `values` has the length of `labels`. The order is the answer's order."""

    timestamp_ms: int
    labels: list[Labels]
    values: Float64Array


@dataclass(frozen=True, slots=True)
class Matrix:
    """Values on a time grid: `values` and `present` are [series x steps], `timestamps` [steps].

    Where `present` is false there is no sample (the value is arbitrary). Series are sorted by labels and have at least
    one sample.
    """

    labels: list[Labels]
    timestamps: Int64Array
    values: Float64Array
    present: BoolArray


QueryValue: TypeAlias = Scalar | String | Vector | Matrix | Selection
"""The answer. A `Selection` answers an instant query whose expression is a range selector or a subquery."""


@dataclass(frozen=True, slots=True)
class SampleStats:
    """Samples that the query touched (summed over steps, as Prometheus counts them) and the most held at once."""

    total: int
    peak: int


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A finished query. `warnings` and `infos` are the annotations' texts in order, without repetition."""

    value: QueryValue
    warnings: tuple[str, ...]
    infos: tuple[str, ...]
    stats: SampleStats
