"""Vector matching: which element of one side meets which of the other, and what the result is called."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import nodes
from .context import Budget
from .frames import Frame, empty_frame, label_value, make_labels, merge_same_labels, without_name
from .grouping import Key
from .interface import BoolArray, ExecutionError, Float64Array, Int64Array, Labels
from .labeltext import labels_text
from .nodes import COMPARISONS

Apply = Callable[[Float64Array, Float64Array], tuple[Float64Array, BoolArray | np.bool_]]


def match(node: nodes.Binary, left: Frame, right: Frame, key: Key, apply: Apply, budget: Budget) -> Frame:
    """Evaluate an arithmetic or comparison operator between two vectors."""
    many, one = (right, left) if node.matching.group == "right" else (left, right)
    seen: dict[Labels, int] = {}
    many_ids = np.array([seen.setdefault(key(each), len(seen)) for each in many.labels], dtype=np.int64)
    one_ids = np.array([seen.setdefault(key(each), len(seen)) for each in one.labels], dtype=np.int64)
    filling = node.matching.fill_left is not None or node.matching.fill_right is not None
    if not filling and not (many.labels and one.labels):
        return empty_frame(left.steps)
    active = np.logical_and(many.present.any(axis=0), one.present.any(axis=0)) | filling
    _check_one_side(node, one, one_ids, list(seen), active)
    if not node.matching.include:
        one, one_ids = _collapse(one, one_ids, list(seen))
    sides = _Sides(node, many, one, many_ids, one_ids, list(seen))
    many_rows, one_rows = _pairs(many_ids, one_ids, len(seen))
    budget.hold(len(many_rows) * left.steps)
    labels, ids, met, values, present = sides.combine(many_rows, one_rows, apply)
    if filling:
        for extra in (sides.fill_one(apply), sides.fill_many(apply)):
            labels, ids = labels + extra[0], np.concatenate((ids, extra[1]))
            met, values = np.concatenate((met, extra[2])), np.concatenate((values, extra[3]))
            present = np.concatenate((present, extra[4]))
    _check_unique(labels, ids, met, grouped=node.matching.group is not None)
    return merge_same_labels(labels, values, present)


def _pairs(many_ids: Int64Array, one_ids: Int64Array, groups: int) -> tuple[Int64Array, Int64Array]:
    """Return all pairs of rows in the same match group, in the order of the many side."""
    order = np.argsort(one_ids, kind="stable")
    sizes = np.bincount(one_ids, minlength=groups)
    starts = np.cumsum(sizes) - sizes
    repeats = sizes[many_ids]
    many_rows = np.repeat(np.arange(len(many_ids)), repeats)
    within = np.arange(len(many_rows)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return many_rows, order[starts[many_ids[many_rows]] + within]


def _collapse(one: Frame, ids: Int64Array, keys: list[Labels]) -> tuple[Frame, Int64Array]:
    """Make one row of all elements of a match group, of which no two are there at one step.

    Where nothing of their labels gets into the result, series that follow each other need not be paired one by one.
    """
    if len(np.unique(ids)) == len(ids):
        return one, ids
    values, present = np.zeros((len(keys), one.steps)), np.zeros((len(keys), one.steps), dtype=np.bool_)
    rows, columns = np.nonzero(one.present)
    values[ids[rows], columns] = one.values[rows, columns]
    present[ids[rows], columns] = True
    groups = np.unique(ids)
    return Frame([keys[group] for group in groups], values[groups], present[groups]), groups


def _check_one_side(node: nodes.Binary, one: Frame, ids: Int64Array, keys: list[Labels], active: BoolArray) -> None:
    """Raise ExecutionError if a match group has two elements at one step on the side that may have one."""
    if len(np.unique(ids)) == len(ids):
        return
    counts = np.zeros((len(keys), one.steps), dtype=np.int64)
    np.add.at(counts, ids, one.present)
    groups, steps = np.nonzero((counts > 1) & active)
    if not len(groups):
        return
    step = int(steps.min())
    group = int(groups[steps == step][0])
    rows = np.flatnonzero((ids == group) & one.present[:, step])[:2]
    side = "left" if node.matching.group == "right" else "right"
    names = f"[{labels_text(one.labels[rows[1]])}, {labels_text(one.labels[rows[0]])}]"
    raise ExecutionError(
        f"found duplicate series for the match group {labels_text(keys[group])} on the {side} hand-side of the "
        f"operation: {names};many-to-many matching not allowed: matching labels must be unique on one side"
    )


def _check_unique(labels: list[Labels], ids: Int64Array, met: BoolArray, *, grouped: bool) -> None:
    """Raise ExecutionError if two results of one match group cannot be told apart at some step.

    What counts is that two elements met there, whether or not a comparison lets the result through.
    """
    if len(np.unique(ids)) == len(ids):
        return
    places: dict[tuple[int, Labels], int] = {}
    keys = [(int(group), labels[row] if grouped else ()) for row, group in enumerate(ids)]
    index = [places.setdefault(each, len(places)) for each in keys]
    if len(places) == len(labels):
        return
    counts = np.zeros((len(places), met.shape[1]), dtype=np.int64)
    np.add.at(counts, np.array(index), met)
    if (counts > 1).any():
        reason = "grouping labels must ensure unique matches"
        if not grouped:
            reason = "many-to-one matching must be explicit (group_left/group_right)"
        raise ExecutionError(f"multiple matches for labels: {reason}")


_Part = tuple[list[Labels], Int64Array, BoolArray, Float64Array, BoolArray]
"""Results: labels, match groups, where two elements met, values, and where there is a value."""


class _Sides:
    """Both operands of one operation, seen as the side with many elements and the side with one."""

    def __init__(
        self, node: nodes.Binary, many: Frame, one: Frame, many_ids: Int64Array, one_ids: Int64Array, keys: list[Labels]
    ) -> None:
        self.node = node
        self.many, self.one = many, one
        self.many_ids, self.one_ids = many_ids, one_ids
        self.keys = keys
        self.swapped = node.matching.group == "right"
        fills = (node.matching.fill_left, node.matching.fill_right)
        self.many_fill, self.one_fill = reversed(fills) if self.swapped else fills

    def _evaluate(
        self, apply: Apply, many: Float64Array, one: Float64Array, present: BoolArray
    ) -> tuple[Float64Array, BoolArray]:
        values, keep = apply(one, many) if self.swapped else apply(many, one)
        return np.broadcast_to(values, present.shape), present & keep

    def combine(self, many_rows: Int64Array, one_rows: Int64Array, apply: Apply) -> _Part:
        met = self.many.present[many_rows] & self.one.present[one_rows]
        values, present = self._evaluate(apply, self.many.values[many_rows], self.one.values[one_rows], met)
        return self._names(many_rows, one_rows), self.many_ids[many_rows], met, values, present

    def _names(self, many_rows: Int64Array, one_rows: Int64Array) -> list[Labels]:
        include = self.node.matching.include
        base = self._base([self.many.labels[row] for row in many_rows], self.many_ids[many_rows])
        if not include:
            return base
        rows = zip(base, one_rows, strict=True)
        return [self._with_included(labels, self.one.labels[row]) for labels, row in rows]

    def _with_included(self, labels: Labels, one: Labels) -> Labels:
        include = self.node.matching.include
        kept = [pair for pair in labels if pair[0] not in include]
        return make_labels((*kept, *((name, label_value(one, name)) for name in include)))

    def _base(self, labels: list[Labels], ids: Int64Array) -> list[Labels]:
        """Name results before labels of the one side are added."""
        node = self.node
        nameless = node.operator not in COMPARISONS or node.return_bool
        if node.matching.group is not None:
            return without_name(labels) if nameless else labels
        if nameless or node.matching.on:
            keys = [self.keys[group] for group in ids]
            return without_name(keys) if nameless else keys
        dropped = set(node.matching.labels)
        return [tuple([pair for pair in each if pair[0] not in dropped]) for each in labels] if dropped else labels

    def _present(self, frame: Frame, ids: Int64Array) -> BoolArray:
        present = np.zeros((len(self.keys), frame.steps), dtype=np.bool_)
        np.logical_or.at(present, ids, frame.present)
        return present

    def fill_one(self, apply: Apply) -> _Part:
        """Let elements of the many side that found no partner meet the fill value."""
        if self.one_fill is None:
            return self._nothing()
        missing = self.many.present & ~self._present(self.one, self.one_ids)[self.many_ids]
        rows = np.flatnonzero(missing.any(axis=1))
        fill = np.full((len(rows), self.many.steps), self.one_fill)
        values, present = self._evaluate(apply, self.many.values[rows], fill, missing[rows])
        labels = self._base([self.many.labels[row] for row in rows], self.many_ids[rows])
        if self.node.matching.include:
            labels = [
                self._with_included(each, self.keys[self.many_ids[row]]) for each, row in zip(labels, rows, strict=True)
            ]
        return labels, self.many_ids[rows], missing[rows], values, present

    def fill_many(self, apply: Apply) -> _Part:
        """Let elements of the one side that found no partner meet the fill value."""
        if self.many_fill is None:
            return self._nothing()
        missing = self.one.present & ~self._present(self.many, self.many_ids)[self.one_ids]
        rows = np.flatnonzero(missing.any(axis=1))
        fill = np.full((len(rows), self.one.steps), self.many_fill)
        values, present = self._evaluate(apply, fill, self.one.values[rows], missing[rows])
        keys = [self.keys[self.one_ids[row]] for row in rows]
        labels = [
            self._with_included(key, self.one.labels[row]) if self.node.matching.include else key
            for key, row in zip(keys, rows, strict=True)
        ]
        return labels, self.one_ids[rows], missing[rows], values, present

    def _nothing(self) -> _Part:
        steps = self.many.steps
        nowhere = np.empty((0, steps), dtype=np.bool_)
        return [], np.empty(0, dtype=np.int64), nowhere, np.empty((0, steps)), nowhere
