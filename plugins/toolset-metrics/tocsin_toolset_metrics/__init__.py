"""The toolset ``metrics``: PromQL queries for AI clients."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tocsin.plugin import ApiCall, Tool, Toolset, hookimpl

DEFAULT_POINTS = 1000
DATASOURCE = {"type": "integer", "description": "Data source id."}
EXPRESSION = {"type": "string", "description": "PromQL expression."}


def _positive(arguments: Mapping[str, Any], name: str) -> int:
    value = int(arguments[name])
    if value <= 0:
        raise ValueError(f"{name} must be positive")
    return value


def _query(arguments: Mapping[str, Any]) -> str:
    query = str(arguments["query"])
    if not query.strip():
        raise ValueError("query must not be empty")
    return query


def instant_call(arguments: Mapping[str, Any]) -> ApiCall:
    """Return the page-API call of an instant query; a missing time means now."""
    query = {"time": int(arguments.get("time") or time.time()), "query": _query(arguments)}
    return ApiCall(
        "POST", "/query-instant-batch", body={"datasource_id": _positive(arguments, "ds_id"), "queries": [query]}
    )


def effective_step(arguments: Mapping[str, Any]) -> tuple[int, int, bool]:
    """Return step in seconds, most points per series, and whether the wanted step was raised."""
    width = _positive(arguments, "end") - _positive(arguments, "start")
    if width <= 0:
        raise ValueError("end must be after start")
    points = int(arguments.get("max_points") or 0)
    points = points if points > 0 else DEFAULT_POINTS
    coarse = max(1, -(-width // points))
    wanted = int(arguments.get("step") or 0)
    if wanted <= 0:
        return coarse, points, False
    return (coarse, points, True) if width // wanted > points else (wanted, points, False)


def range_call(arguments: Mapping[str, Any]) -> ApiCall:
    """Return the page-API call of a range query."""
    step, points, _ = effective_step(arguments)
    query = {
        "start": arguments["start"],
        "end": arguments["end"],
        "step": step,
        "max_points": points,  # the page API would raise the step to its own default otherwise
        "query": _query(arguments),
    }
    return ApiCall(
        "POST", "/query-range-batch", body={"datasource_id": _positive(arguments, "ds_id"), "queries": [query]}
    )


def first(found: Any) -> Any:
    """Return the answer to the one query of a batch; nothing for an empty answer."""
    return found[0] if isinstance(found, list) and found else None


def range_answer(found: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the series with the step that was really used."""
    step, points, truncated = effective_step(arguments)
    return {"effective_step": step, "max_points": points, "truncated": truncated, "data": first(found)}


class Metrics(Toolset):
    """PromQL queries."""

    name = "metrics"

    def tools(self) -> Sequence[Tool]:
        """Return the two query tools."""
        return (
            Tool(
                name="query_instant",
                title="PromQL Instant Query",
                description=(
                    "Evaluates a PromQL expression at one moment against a Prometheus-compatible data source and returns "
                    "the series with labels and [timestamp, value]."
                ),
                call=instant_call,
                shape=lambda found, _arguments: first(found),
                input_schema={
                    "type": "object",
                    "required": ["ds_id", "query"],
                    "properties": {
                        "ds_id": DATASOURCE,
                        "query": EXPRESSION,
                        "time": {"type": "integer", "description": "Evaluation time, Unix seconds. Default now."},
                    },
                },
            ),
            Tool(
                name="query_range",
                title="PromQL Range Query",
                description=(
                    "Evaluates a PromQL expression over a time range. The step is raised when a series would have more "
                    "than max_points points; 'truncated' tells about it."
                ),
                call=range_call,
                shape=range_answer,
                input_schema={
                    "type": "object",
                    "required": ["ds_id", "query", "start", "end"],
                    "properties": {
                        "ds_id": DATASOURCE,
                        "query": EXPRESSION,
                        "start": {"type": "integer", "description": "Start, Unix seconds."},
                        "end": {"type": "integer", "description": "End, Unix seconds."},
                        "step": {"type": "integer", "description": "Resolution in seconds; chosen when left out."},
                        "max_points": {
                            "type": "integer",
                            "description": f"Most points per series. Default {DEFAULT_POINTS}.",
                            "default": DEFAULT_POINTS,
                        },
                    },
                },
            ),
        )


@hookimpl
def tocsin_toolsets() -> list[Toolset]:
    """Return the toolset."""
    return [Metrics()]
