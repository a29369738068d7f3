"""Samples of a query, as ``query`` gives them to a template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CallError
from ..values import Field, Function, StringMap, Struct, StructType

SAMPLE = StructType("Sample", {"Labels": Field("labels", StringMap()), "Value": Field("value", 0.0)})
"""The type of a sample in templates: ``.Labels`` and ``.Value``."""


def sample(labels: Mapping[str, str], value: float) -> Struct:
    """A sample for templates."""
    return SAMPLE.wrap({"labels": StringMap(labels), "value": value})


def _checked(value: Any) -> Struct:
    if not isinstance(value, Struct) or value.struct is not SAMPLE:
        raise CallError("expected a sample")
    return value


def _first(samples: Any) -> Any:
    if not samples:
        raise CallError("first() called on vector with no elements")
    return samples[0]


def _label(name: str, item: Any) -> str:
    return str(_checked(item).data["labels"].get(name, ""))


def _sorted(name: str, samples: Any) -> list[Any]:
    return sorted(samples, key=lambda item: _label(name, item))


FUNCTIONS = (
    Function("first", _first, ("list",)),
    Function("label", _label, ("string", "record")),
    Function("value", lambda item: _checked(item).data["value"], ("record",)),
    Function("strvalue", lambda item: _label("__value__", item), ("record",)),
    Function("sortByLabel", _sorted, ("string", "list")),
)
"""Functions of query results."""
