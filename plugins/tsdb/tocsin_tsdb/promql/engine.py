"""The entry to evaluation: instant and range queries."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from .context import Budget, Control, Evaluation, Notes
from .evaluator import evaluate
from .expressions import Expressions
from .frames import Frame, RangeVector, Row, Text, Value
from .interface import (
    Int64Array,
    Labels,
    Matrix,
    ParseError,
    Queryable,
    QueryResult,
    QueryValue,
    Scalar,
    Selection,
    String,
    TooManySamples,
    Vector,
)
from .nodes import KIND_NAMES
from .selectors import windows


def _never() -> bool:
    return False


class Engine:
    """Evaluates PromQL on a store. Between queries only parsed expressions are kept; any number may run in parallel threads.

    lookback_ms: how old a sample may be for an instant selector; max_samples: most samples in memory per query (cells
    of intermediate matrices count); timeout: seconds; subquery_step_ms: step of subqueries that name none.
    """

    def __init__(
        self,
        queryable: Queryable,
        *,
        lookback_ms: int = 300_000,
        max_samples: int = 50_000_000,
        timeout: float = 120.0,
        subquery_step_ms: int = 60_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queryable = queryable
        self._lookback_ms = lookback_ms
        self._max_samples = max_samples
        self._timeout = timeout
        self._subquery_step_ms = subquery_step_ms
        self._clock = clock
        self.expressions = Expressions()

    def instant(
        self,
        query: str,
        at_ms: int,
        *,
        lookback_ms: int | None = None,
        timeout: float | None = None,
        cancelled: Callable[[], bool] = _never,
    ) -> QueryResult:
        """Evaluate at one time.

        `cancelled` is asked between steps of the work, from the calling thread. Raises ParseError, ExecutionError,
        TooManySamples, QueryTimeout, QueryCanceled, and whatever the store raises.
        """
        expr = self.expressions.parsed(query)
        control = self._control(timeout, cancelled)
        ev = self._evaluation(query, np.array([at_ms], dtype=np.int64), 0, lookback_ms, control)
        with np.errstate(all="ignore"):
            value = _instant_value(ev, evaluate(ev, expr), at_ms)
        return _finish(ev, value)

    def range(
        self,
        query: str,
        start_ms: int,
        end_ms: int,
        step_ms: int,
        *,
        lookback_ms: int | None = None,
        timeout: float | None = None,
        cancelled: Callable[[], bool] = _never,
    ) -> QueryResult:
        """Evaluate at start, start + step, ... up to end; the answer is a `Matrix`. Otherwise like `instant`."""
        if step_ms <= 0 or end_ms < start_ms:
            raise ValueError(f"a range needs a positive step and start <= end, got {start_ms}..{end_ms} by {step_ms}")
        expr = self.expressions.parsed(query, step_ms, end_ms - start_ms)
        if expr.kind not in ("scalar", "vector"):
            kind = KIND_NAMES[expr.kind]
            raise ParseError(f'invalid expression type "{kind}" for range query, must be Scalar or instant Vector')
        if (end_ms - start_ms) // step_ms >= self._max_samples:
            raise TooManySamples
        times = np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64)
        control = self._control(timeout, cancelled)
        ev = self._evaluation(query, times, step_ms, lookback_ms, control, end_ms)
        with np.errstate(all="ignore"):
            value = _matrix(evaluate(ev, expr), times)
        return _finish(ev, value)

    def _control(self, timeout: float | None, cancelled: Callable[[], bool]) -> Control:
        seconds = self._timeout if timeout is None else min(timeout, self._timeout)
        return Control(cancelled, self._clock() + seconds, self._clock)

    def _evaluation(
        self,
        query: str,
        times: Int64Array,
        step_ms: int,
        lookback_ms: int | None,
        control: Control,
        end_ms: int | None = None,
    ) -> Evaluation:
        return Evaluation(
            queryable=self._queryable,
            times=times,
            start_ms=int(times[0]),
            end_ms=int(times[-1]) if end_ms is None else end_ms,
            step_ms=step_ms,
            lookback_ms=lookback_ms or self._lookback_ms,
            subquery_step_ms=self._subquery_step_ms,
            budget=Budget(self._max_samples),
            notes=Notes(query),
            control=control,
        )


def _finish(ev: Evaluation, value: QueryValue) -> QueryResult:
    ev.control.check()
    notes = ev.notes
    warnings, infos = notes.listed(notes.warnings, "warning"), notes.listed(notes.infos, "info")
    return QueryResult(value, warnings, infos, ev.budget.stats())


def _instant_value(ev: Evaluation, value: Value, at_ms: int) -> QueryValue:
    match value:
        case Row():
            return Scalar(at_ms, float(value.values[0]))
        case Text():
            return String(at_ms, value.value)
        case RangeVector():
            return _samples(ev, value)
        case Frame():
            rows = np.flatnonzero(value.present[:, 0])
            return Vector(at_ms, [value.labels[row] for row in rows], np.ascontiguousarray(value.values[rows, 0]))


def _samples(ev: Evaluation, vector: RangeVector) -> Selection:
    """Return the samples of the only window of each series; series without any are left out, the rest are sorted."""
    slices: dict[Labels, slice] = {}
    for rows, block in windows(ev, vector):
        start = int(vector.offsets[rows.start])
        for labels, low, high in zip(vector.labels[rows], block.low[:, 0], block.high[:, 0], strict=True):
            if low < high:
                slices[labels] = slice(start + int(low), start + int(high))
    ordered = sorted(slices)
    counts = [slices[labels].stop - slices[labels].start for labels in ordered]
    return Selection(
        ordered,
        np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        np.concatenate([vector.timestamps[:0], *(vector.timestamps[slices[labels]] for labels in ordered)]),
        np.concatenate([vector.values[:0], *(vector.values[slices[labels]] for labels in ordered)]),
    )


def _matrix(value: Value, times: Int64Array) -> Matrix:
    if isinstance(value, Row):
        return Matrix([()], times, value.values[None, :], np.ones((1, len(times)), dtype=np.bool_))
    assert isinstance(value, Frame)
    rows = np.flatnonzero(value.present.any(axis=1)).tolist()
    rows.sort(key=value.labels.__getitem__)
    return Matrix([value.labels[row] for row in rows], times, value.values[rows], value.present[rows])
