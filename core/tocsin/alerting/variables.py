"""Variables in the queries of a rule: one query per combination of values, worked out when the rule is compiled.

``"$name"`` in a matcher stands for each value of an ``enum``, a bare ``$name`` for the number of a ``threshold``.  A level
of ``child_var_configs`` says again what holds for some combinations, with thresholds of its own, and wins over the levels
above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any

from tocsin.template.show import quote

ENUM, THRESHOLD = "enum", "threshold"
MAX_QUERIES = 500
MAX_LEVELS = 20
PLACE = re.compile(r"""(?P<mark>["'])\$(?P<inside>\w+)(?P=mark)|\$(?P<bare>\w+)""")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")

Parameters = Mapping[str, Mapping[str, Any]]


class VariableError(ValueError):
    """Variables that cannot be filled in; the text says which and why."""


def uses_variables(query: Mapping[str, Any]) -> bool:
    """Return whether a query of a rule has variables to fill in."""
    return bool(query.get("var_enabled")) and "$" in str(query.get("prom_ql") or "")


def filled(query: Mapping[str, Any]) -> list[str]:
    """Return the queries that stand for one with variables, without doubles; raise :class:`VariableError`."""
    config = query.get("var_config")
    if not isinstance(config, dict):
        raise VariableError("var_config: expected an object")
    found: dict[tuple[tuple[str, str], ...], str] = {}
    for parameters in _levels(config):
        lists, numbers = _values(parameters)
        names = sorted(lists)
        for combination in islice(product(*(lists[name] for name in names)), MAX_QUERIES + 1):
            chosen = dict(zip(names, combination, strict=True))
            found[tuple(chosen.items())] = _substituted(str(query["prom_ql"]).strip(), chosen, numbers)
            if len(found) > MAX_QUERIES:
                raise VariableError(f"var_config: more than {MAX_QUERIES} combinations of values")
    return list(dict.fromkeys(found.values()))


def _levels(config: Mapping[str, Any]) -> Iterator[Parameters]:
    """Yield the parameters of every level, the upper ones first."""
    top = config.get("param_val")
    if not isinstance(top, list) or not all(isinstance(item, dict) and item.get("name") for item in top):
        raise VariableError("var_config.param_val: expected an array of objects with a name")
    yield {str(item["name"]): item for item in top}
    child, depth = config.get("child_var_configs"), 0
    while isinstance(child, dict):
        depth += 1
        if depth > MAX_LEVELS:
            raise VariableError(f"var_config.child_var_configs: more than {MAX_LEVELS} levels")
        for item in child.get("param_val") or ():
            if not isinstance(item, dict) or not all(isinstance(value, dict) for value in item.values()):
                raise VariableError("var_config.child_var_configs.param_val: expected objects by name of variable")
            yield item
        child = child.get("child_var_configs")


def _values(parameters: Parameters) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the lists of label values and the thresholds of one level."""
    lists: dict[str, list[str]] = {}
    numbers: dict[str, str] = {}
    for name, parameter in parameters.items():
        kind, values = parameter.get("param_type"), parameter.get("query")
        if kind == THRESHOLD:
            text = str(values)
            if isinstance(values, bool) or not NUMBER.fullmatch(text):
                raise VariableError(f"variable {name}: got {values!r}, expected a number")
            numbers[name] = text
        elif kind == ENUM:
            if not isinstance(values, list) or not values or not all(isinstance(v, str) for v in values):
                raise VariableError(f"variable {name}: expected an array of at least one text")
            lists[name] = values
        else:
            raise VariableError(
                f"variable {name}: param_type {kind!r} is not available, expected {ENUM} or {THRESHOLD}"
            )
    return lists, numbers


def _substituted(text: str, chosen: Mapping[str, str], numbers: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match["inside"] or match["bare"]
        if match["inside"] and name in chosen:
            return quote(chosen[name])
        if match["bare"] and name in numbers:
            return numbers[name]
        raise VariableError(f"variable {name} has no value where it stands: {match.group()}")

    return PLACE.sub(value, text)
