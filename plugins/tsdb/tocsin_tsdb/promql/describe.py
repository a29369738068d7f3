"""The syntax tree as plain values, in the shape of Prometheus's `parse_query` answers."""

from __future__ import annotations

from typing import Any

from . import nodes
from .interface import Matcher
from .nodes import Expr
from .numbers import format_decimal

_CARDINALITY = {"left": "many-to-one", "right": "one-to-many"}


def describe(expr: Expr) -> dict[str, Any]:
    """Return a node and everything below it; durations and times are milliseconds."""
    match expr:
        case nodes.NumberLiteral():
            return {"type": "numberLiteral", "val": format_decimal(expr.value)}
        case nodes.StringLiteral():
            return {"type": "stringLiteral", "val": expr.value}
        case nodes.VectorSelector():
            return {"type": "vectorSelector", **_selector(expr)}
        case nodes.MatrixSelector():
            return {"type": "matrixSelector", "range": expr.range_ms, **_selector(expr.selector)}
        case nodes.Subquery():
            inner = {"expr": describe(expr.expr), "range": expr.range_ms, "step": expr.step_ms or 0}
            return {"type": "subquery", **inner, **_time(expr)}
        case nodes.Call():
            return {"type": "call", "func": _function(expr.function), "args": [describe(arg) for arg in expr.args]}
        case nodes.Aggregate():
            return _aggregate(expr)
        case nodes.Binary():
            return _binary(expr)
        case nodes.Unary():
            return {"type": "unaryExpr", "op": expr.operator, "expr": describe(expr.expr)}
        case nodes.Paren():
            return {"type": "parenExpr", "expr": describe(expr.expr)}


def _aggregate(expr: nodes.Aggregate) -> dict[str, Any]:
    return {
        "type": "aggregation",
        "op": expr.operator,
        "expr": describe(expr.expr),
        "param": None if expr.param is None else describe(expr.param),
        "grouping": list(expr.grouping),
        "without": expr.without,
    }


def _binary(expr: nodes.Binary) -> dict[str, Any]:
    """Describe a chain of operators from the inside out."""
    first, operations = nodes.chain(expr)
    result = describe(first)
    for operation in operations:
        result = {
            "type": "binaryExpr",
            "op": operation.operator,
            "lhs": result,
            "rhs": describe(operation.right),
            "matching": _matching(operation),
            "bool": operation.return_bool,
        }
    return result


def _matching(expr: nodes.Binary) -> dict[str, Any] | None:
    if not expr.left.kind == expr.right.kind == "vector":
        return None
    matching = expr.matching
    card = "many-to-many" if expr.operator in nodes.SET_OPERATORS else "one-to-one"
    return {
        "card": _CARDINALITY[matching.group] if matching.group else card,
        "labels": list(matching.labels),
        "on": matching.on,
        "include": list(matching.include),
    }


def _function(signature: nodes.Signature) -> dict[str, Any]:
    return {
        "name": signature.name,
        "argTypes": list(signature.args),
        "variadic": signature.variadic,
        "returnType": signature.returns,
    }


def _selector(expr: nodes.VectorSelector) -> dict[str, Any]:
    return {"name": expr.name, "matchers": [_matcher(matcher) for matcher in expr.matchers], **_time(expr)}


def _matcher(matcher: Matcher) -> dict[str, str]:
    return {"name": matcher.name, "type": matcher.op, "value": matcher.value}


def _time(expr: nodes.VectorSelector | nodes.Subquery) -> dict[str, Any]:
    named = isinstance(expr.at, str)
    return {
        "offset": expr.offset_ms or 0,
        "timestamp": None if named else expr.at,
        "startOrEnd": expr.at if named else None,
    }
