"""Binary operators between scalars and vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import nodes
from .context import Budget
from .frames import Frame, Row
from .grouping import Key, by_labels, matching_labels
from .interface import BoolArray, Float64Array
from .matching import match
from .nodes import COMPARISONS, SET_OPERATORS

_ARITHMETIC: dict[str, Callable[[Any, Any], Float64Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
_COMPARE: dict[str, Callable[[Any, Any], BoolArray]] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}


def binary(node: nodes.Binary, left: Frame | Row, right: Frame | Row, budget: Budget) -> Frame | Row:
    """Evaluate an operator on two evaluated operands."""
    if isinstance(left, Row) and isinstance(right, Row):
        if node.operator in COMPARISONS:
            return Row(_COMPARE[node.operator](left.values, right.values).astype(np.float64))
        return Row(_ARITHMETIC[node.operator](left.values, right.values))
    if isinstance(left, Frame) and isinstance(right, Frame):
        key = by_labels(node.matching.labels) if node.matching.on else matching_labels(node.matching.labels)
        if node.operator in SET_OPERATORS:
            return set_operation(node.operator, left, right, key)
        return match(node, left, right, key, lambda a, b: apply(node, a, b), budget)
    frame, values = (left, right) if isinstance(left, Frame) else (right, left)
    assert isinstance(frame, Frame)
    assert isinstance(values, Row)
    operands = (frame.values, values.values) if frame is left else (values.values, frame.values)
    result, keep = apply(node, *operands)
    if node.operator in COMPARISONS and not node.return_bool:
        return Frame(frame.labels, frame.values, frame.present & keep)
    return frame.nameless(result)


def apply(node: nodes.Binary, left: Float64Array, right: Float64Array) -> tuple[Float64Array, BoolArray | np.bool_]:
    """Return the operator's values, and where a filtering comparison holds (everywhere for other operators)."""
    if node.operator in _ARITHMETIC:
        return _ARITHMETIC[node.operator](left, right), np.True_
    holds = _COMPARE[node.operator](left, right)
    if node.return_bool:
        return holds.astype(np.float64), np.True_
    return left, holds


def set_operation(operator: str, left: Frame, right: Frame, key: Key) -> Frame:
    """Evaluate `and`, `or` or `unless`, step by step on what is present."""
    seen: dict[object, int] = {}
    left_ids = np.array([seen.setdefault(key(each), len(seen)) for each in left.labels], dtype=np.int64)
    right_ids = np.array([seen.setdefault(key(each), len(seen)) for each in right.labels], dtype=np.int64)
    if operator == "or":
        extra = right.present & ~_present_by_id(left, left_ids, len(seen))[right_ids]
        return _union(left, right, extra)
    matched = _present_by_id(right, right_ids, len(seen))[left_ids]
    keep = left.present & (matched if operator == "and" else ~matched)
    return Frame(left.labels, left.values, keep)


def _present_by_id(frame: Frame, ids: np.ndarray[Any, np.dtype[np.int64]], count: int) -> BoolArray:
    present = np.zeros((count, frame.steps), dtype=np.bool_)
    np.logical_or.at(present, ids, frame.present)
    return present


def _union(left: Frame, right: Frame, extra: BoolArray) -> Frame:
    """Join rows; a row that exists on both sides is filled from the right where the left has nothing."""
    places = {labels: row for row, labels in enumerate(left.labels)}
    targets = [places.setdefault(labels, len(places)) for labels in right.labels]
    shape = (len(places), left.steps)
    values, present = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    values[: len(left.labels)], present[: len(left.labels)] = left.values, left.present
    if targets:
        rows = np.array(targets)
        values[rows] = np.where(extra, right.values, values[rows])
        present[rows] |= extra
    return Frame(list(places), values, present)
