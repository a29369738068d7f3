"""Metric queries of the page API: several expressions to one datasource, with a bound on points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tocsin.plugin import ApiError, MetricQuery, PluginCallError, invalid

if TYPE_CHECKING:
    from tocsin.datasources.pool import DatasourcePool


def effective_step(span: float, step: float, max_points: int) -> tuple[float, bool]:
    """Return the step of a range query over ``span`` seconds and whether it was raised to keep to ``max_points``.

    Without a wanted step (0) it is chosen so that ``max_points`` suffice; nothing was taken away then.
    """
    wide = float(max(1, math.ceil(span / max_points)))
    if not step:
        return wide, False
    if span / step >= max_points + 1:
        return wide, True
    return step, False


def run_range(
    pool: DatasourcePool, datasource_id: int, queries: Sequence[Mapping[str, Any]], max_points: int
) -> tuple[list[Any], list[float], bool]:
    """Return the matrices of range queries, the steps used, and whether any step was raised; the first failure ends it.

    A query holds ``query``, ``start``, ``end`` and, 0 for the default, ``step`` and ``max_points``.
    """
    found, steps, truncated = [], [], False
    timeout = pool.timeout(datasource_id)
    for i, item in enumerate(queries):
        span = item["end"] - item["start"]
        if span < 0:
            raise invalid(
                f"queries[{i}].end: got {item['end']:.15g}, expected a time not before start {item['start']:.15g}"
            )
        step, raised = effective_step(span, item["step"], item["max_points"] or max_points)
        question = MetricQuery({"query": item["query"]}, item["start"], item["end"], step, timeout)
        found.append(_ask(pool, datasource_id, question))
        steps.append(step)
        truncated = truncated or raised
    return found, steps, truncated


def run_instant(pool: DatasourcePool, datasource_id: int, queries: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the results of instant queries in order; the first failure ends it."""
    timeout = pool.timeout(datasource_id)
    return [
        _ask(pool, datasource_id, MetricQuery({"query": item["query"]}, item["time"], item["time"], timeout=timeout))
        for item in queries
    ]


def _ask(pool: DatasourcePool, datasource_id: int, question: MetricQuery) -> Any:
    try:
        return pool.query_result(datasource_id, question)
    except PluginCallError as error:
        raise as_api_error(error) from None


def as_api_error(error: PluginCallError) -> ApiError:
    """Return what a client is told of a failed call of a datasource: refused by it, or not answered at all."""
    return ApiError(str(error), "invalid" if getattr(error, "refused", False) else "unavailable")
