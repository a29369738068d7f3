"""Reading what the Prometheus HTTP API answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from tocsin.plugin import DatasourceError, HttpAnswer, Series

SHOWN = 512
"""Characters of an unexpected answer that an error message quotes."""
REFUSALS = frozenset(("bad_data", "execution"))
"""Kinds of error with which a store says that the question is wrong."""


def data_of(answer: HttpAnswer) -> tuple[Any, list[str]]:
    """Return ``data`` of a successful answer and the warnings that make it incomplete.

    Raises :class:`DatasourceError` with the store's own words for an error, and with the beginning of the body for
    anything that is no answer of this API.
    """
    body = _parsed(answer)
    if body is None or body.get("status") not in ("success", "error"):
        raise DatasourceError(f"HTTP {answer.status}, not an answer of the Prometheus API: {excerpt(answer.body)}")
    if body["status"] == "error" or answer.status >= 300:
        kind, text = str(body.get("errorType") or "error"), str(body.get("error") or f"HTTP {answer.status}")
        raise DatasourceError(f"{kind}: {text[:4096]}", refused=kind in REFUSALS)
    return body.get("data"), _losses(body)


def excerpt(body: bytes) -> str:
    """Return the beginning of a body for a message."""
    return body[:SHOWN].decode("utf-8", "replace").strip() or "empty body"


def _parsed(answer: HttpAnswer) -> dict[str, Any] | None:
    try:
        body = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _losses(body: dict[str, Any]) -> list[str]:
    """Return why an answer lacks data; notes on the expression itself, which begin with ``PromQL``, are no reason."""
    warnings = [str(w) for w in body.get("warnings") or () if not str(w).startswith("PromQL")]
    if body.get("isPartial") is True:
        warnings.append("the store says that it is partial")
    return warnings


def result_of(data: Any) -> Any:
    """Return ``result`` of a query's data: the list of series, or the pair of a scalar or string."""
    if not isinstance(data, dict) or not isinstance(data.get("result"), list):
        raise DatasourceError("the answer holds no result")
    return data["result"]


def columns(data: Any) -> list[Series]:
    """Return the series of a query's data as columns of numbers; native histograms have no number and are left out."""
    result = result_of(data)
    kind = data.get("resultType")
    try:
        if kind == "vector":
            return [_point(item["metric"], item["value"]) for item in result if "value" in item]
        if kind == "matrix":
            return [_column(item["metric"], item["values"]) for item in result if item.get("values")]
        if kind == "scalar":
            return [_point({}, result)]
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        raise DatasourceError(f"the answer's {kind} is malformed") from None
    raise DatasourceError(f"the result is a {kind}, expected numbers", refused=True)


def _point(labels: dict[str, str], point: Sequence[Any]) -> Series:
    at, text = point
    return Series(_labels(labels), (at + 0.0,), (float(text),))


def _column(labels: dict[str, str], points: Sequence[Sequence[Any]]) -> Series:
    timestamps, texts = zip(*points, strict=True)
    return Series(_labels(labels), [*map(float, timestamps)], [*map(float, texts)])


def _labels(labels: dict[str, str]) -> dict[str, str]:
    if not isinstance(labels, dict):
        raise TypeError
    return labels
