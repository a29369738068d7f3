"""`query`, `query_range`, `format_query`, `parse_query`, `query_exemplars`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import falcon
import orjson

from tocsin_tsdb.api.failure import Failure, bad_data, invalid_parameter
from tocsin_tsdb.api.options import MAX_POINTS
from tocsin_tsdb.api.params import Parameters
from tocsin_tsdb.api.service import OPENING, Service, answer, client_left, notes
from tocsin_tsdb.promql.describe import describe
from tocsin_tsdb.promql.interface import (
    ExecutionError,
    Matrix,
    ParseError,
    PromQLError,
    QueryCanceled,
    QueryResult,
    QueryTimeout,
    QueryValue,
    Selection,
    Vector,
)
from tocsin_tsdb.promql.nodes import Expr
from tocsin_tsdb.promql.parser import parse
from tocsin_tsdb.promql.printer import pretty
from tocsin_tsdb.promql.render import render_data
from tocsin_tsdb.storage.errors import StoreError

TRUNCATED = "results truncated due to limit"


class QueryResource:
    """Instant queries."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer a query at one time."""
        params = Parameters(req)
        query = _query_text(params)
        at = params.time("time", int(self._service.store.clock() * 1000))
        settings = _QuerySettings(self._service, params, client_left(req))
        settings.run(
            resp,
            lambda timeout: self._service.engine.instant(
                query, at, lookback_ms=settings.lookback, timeout=timeout, cancelled=settings.cancelled
            ),
        )

    on_post = on_get


class QueryRangeResource:
    """Range queries."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer a query on a grid of times."""
        params = Parameters(req)
        start, end, step = _grid(params)
        query = _query_text(params)
        settings = _QuerySettings(self._service, params, client_left(req))
        settings.run(
            resp,
            lambda timeout: self._service.engine.range(
                query, start, end, step, lookback_ms=settings.lookback, timeout=timeout, cancelled=settings.cancelled
            ),
        )

    on_post = on_get


class FormatQueryResource:
    """Checks a query and gives it back in its usual form."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with the query's text."""
        answer(resp, orjson.dumps(pretty(_parsed(req))))

    on_post = on_get


class ParseQueryResource:
    """Checks a query and gives back its syntax tree."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with the tree's root."""
        answer(resp, orjson.dumps(describe(_parsed(req))))

    on_post = on_get


class ExemplarsResource:
    """Exemplars are not stored: every valid query has none."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with an empty list."""
        params = Parameters(req)
        try:
            parse(_query_text(params))
        except PromQLError as error:
            raise bad_data(str(error)) from None
        params.span()
        answer(resp, b"[]")

    on_post = on_get


def _parsed(req: falcon.Request) -> Expr:
    try:
        return parse(_query_text(Parameters(req)))
    except PromQLError as error:
        raise invalid_parameter("query", str(error)) from None


def _query_text(params: Parameters) -> str:
    query = params.text("query")
    if not query:
        raise bad_data("query parameter is required")
    return query


def _grid(params: Parameters) -> tuple[int, int, int]:
    start, end = params.required_time("start"), params.required_time("end")
    if end < start:
        raise invalid_parameter("end", "end timestamp must not be before start time")
    if not params.text("step"):
        raise invalid_parameter("step", 'cannot parse "" to a valid duration')
    step = params.duration("step", 0)
    if step <= 0:
        raise invalid_parameter(
            "step", "zero or negative query resolution step widths are not accepted. Try a positive integer"
        )
    if (end - start) // step > MAX_POINTS:
        raise bad_data(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"
        )
    return start, end, step


class _QuerySettings:
    """The parameters that both kinds of query share, and how a query runs under them."""

    def __init__(self, service: Service, params: Parameters, cancelled: Callable[[], bool]) -> None:
        limit = service.options.query_timeout
        self._service = service
        self._limit = params.limit()
        self._stats = params.text("stats")
        self.timeout = min(limit, params.duration("timeout", round(limit * 1000)) / 1000)
        self.lookback = params.duration("lookback_delta", 0) or None
        self.cancelled = cancelled

    def run(self, resp: falcon.Response, evaluate: Callable[[float], QueryResult]) -> None:
        """Wait for a slot, evaluate, answer."""
        service, metrics = self._service, self._service.metrics
        try:
            with (
                metrics.queries.track_inprogress(),
                service.slot(service.queries, "query", self.cancelled, self.timeout) as waited,
            ):
                started = time.perf_counter()
                result = _evaluated(lambda: evaluate(self.timeout - waited))
                evaluated = time.perf_counter()
                self._answer(resp, result, waited, evaluated - started)
        except Failure as failure:
            metrics.failures.labels(failure.error_type).inc()
            raise
        metrics.queue_time.observe(waited)
        metrics.inner_eval.observe(evaluated - started)
        metrics.result_sort.observe(time.perf_counter() - evaluated)
        metrics.samples.inc(result.stats.total)

    def _answer(self, resp: falcon.Response, result: QueryResult, waited: float, evaluated: float) -> None:
        value, cut = _limited(result.value, self._limit)
        warnings = (*result.warnings, TRUNCATED) if cut else result.warnings
        stats = b',"stats":' + _stats(result, waited, evaluated) if self._stats else b""
        resp.content_type = falcon.MEDIA_JSON
        resp.data = render_data(value, OPENING, b"%b}%b}" % (stats, notes(warnings, result.infos)))


def _evaluated(evaluate: Callable[[], QueryResult]) -> QueryResult:
    """Run an evaluation and turn what it raises into answers."""
    try:
        return evaluate()
    except ParseError as error:
        raise invalid_parameter("query", str(error)) from None
    except QueryTimeout as error:
        raise Failure(503, "timeout", str(error)) from None
    except QueryCanceled as error:
        raise Failure(503, "canceled", str(error)) from None
    except ExecutionError as error:
        raise Failure(422, "execution", str(error)) from None
    except (StoreError, MemoryError) as error:
        raise Failure(500, "internal", str(error) or "out of memory") from error


def _limited(value: QueryValue, limit: int) -> tuple[QueryValue, bool]:
    """Keep the first series of an answer; tell whether any were cut off."""
    if limit <= 0 or not isinstance(value, Vector | Matrix | Selection) or len(value.labels) <= limit:
        return value, False
    labels = value.labels[:limit]
    if isinstance(value, Selection):
        return dataclasses.replace(value, labels=labels, offsets=value.offsets[: limit + 1]), True
    if isinstance(value, Matrix):
        return dataclasses.replace(
            value, labels=labels, values=value.values[:limit], present=value.present[:limit]
        ), True
    return dataclasses.replace(value, labels=labels, values=value.values[:limit]), True


def _stats(result: QueryResult, queued: float, evaluated: float) -> bytes:
    """Return what the query took, in seconds; its answer is sorted while it is evaluated."""
    timings = {
        "evalTotalTime": evaluated,
        "resultSortTime": 0.0,
        "queryPreparationTime": 0.0,
        "innerEvalTime": evaluated,
        "execQueueTime": queued,
        "execTotalTime": queued + evaluated,
    }
    samples = {"totalQueryableSamples": result.stats.total, "peakSamples": result.stats.peak}
    return orjson.dumps({"timings": timings, "samples": samples})
