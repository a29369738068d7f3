"""Aggregation operators that pick or count elements: topk, bottomk, limitk, limit_ratio, count_values."""

from __future__ import annotations

import numpy as np
from xxhash import xxh64_intdigest

from .frames import Frame, column_blocks, make_labels
from .grouping import Groups
from .interface import BoolArray, Float64Array, Int64Array, Labels
from .numbers import format_decimal

_HASH_RANGE = float(1 << 64)
_LONG_TEXT = 255


def top(frame: Frame, groups: Groups, k: Float64Array, *, largest: bool) -> Frame:
    """Keep the k largest or smallest elements of each group at each step; k is [steps]. NaN ranks last."""
    keep = np.empty(frame.present.shape, dtype=np.bool_)
    order = np.empty((len(frame.labels), 1), dtype=np.int64)
    for steps in column_blocks(len(frame.labels), frame.steps):
        order = _rank(frame.values[:, steps], frame.present[:, steps], groups.ids, largest=largest)
        keep[:, steps] = _first_of_groups(frame.present[:, steps], groups, order, k[steps])
    best = Frame(frame.labels, frame.values, keep)
    return best.take(order[:, 0]) if frame.steps == 1 else best  # the order shows only at a single step


def _rank(values: Float64Array, present: BoolArray, ids: Int64Array, *, largest: bool) -> Int64Array:
    """Return for every step the rows in order of group, then presence, then value, then row, [rows x steps]."""
    nan = np.isnan(values)
    keys = np.where(nan, np.inf, -values if largest else values)
    spread = np.broadcast_to(ids[:, None], keys.shape)
    order: Int64Array = np.lexsort((keys, nan, ~present, spread), axis=0)
    return order


def first(frame: Frame, groups: Groups, k: Float64Array) -> Frame:
    """Keep the first k elements of each group at each step."""
    keep = np.empty(frame.present.shape, dtype=np.bool_)
    for steps in column_blocks(len(frame.labels), frame.steps):
        present = frame.present[:, steps]
        order = np.lexsort((~present, np.broadcast_to(groups.ids[:, None], present.shape)), axis=0)
        keep[:, steps] = _first_of_groups(present, groups, order, k[steps])
    return Frame(frame.labels, frame.values, keep)


def _first_of_groups(present: BoolArray, groups: Groups, order: Int64Array, k: Float64Array) -> BoolArray:
    """Mark, per step, the first k rows of every group in the given order."""
    _, starts = groups.ordered()
    sorted_ids = np.take(groups.ids, order)
    place = np.arange(len(order))[:, None] - starts[sorted_ids]
    wanted = np.where(k >= 1, np.minimum(k, len(order)), 0).astype(np.int64)
    keep = np.zeros(present.shape, dtype=np.bool_)
    np.put_along_axis(keep, order, place < wanted, axis=0)
    return keep & present


def sample_ratio(frame: Frame, ratio: Float64Array) -> Frame:
    """Keep a share of the elements, chosen by the labels alone: r > 0 and r - 1 complement each other."""
    offsets = np.array([_share(labels) for labels in frame.labels])[:, None]
    keep = np.where(ratio >= 0, offsets < ratio, offsets >= 1 + ratio)
    return Frame(frame.labels, frame.values, frame.present & keep)


def _share(labels: Labels) -> float:
    """Map a label set to a number in [0, 1] that looks random but never changes: the hash of its texts, each with its
    length before it, which is the choice that Prometheus makes."""
    return xxh64_intdigest(b"".join(_with_length(text.encode()) for pair in labels for text in pair)) / _HASH_RANGE


def _with_length(text: bytes) -> bytes:
    size = len(text)
    return (bytes([size]) if size < _LONG_TEXT else b"\xff" + size.to_bytes(3, "little")) + text


def count_values(frame: Frame, groups: Groups, label: str, *, drop_label: bool = False) -> Frame:
    """Count equal values per group and step; the value becomes a label (unless the grouping drops that label)."""
    rows, steps = np.nonzero(frame.present)
    values = frame.values[rows, steps]
    distinct, inverse = np.unique(values, return_inverse=True)
    codes, series = np.unique(groups.ids[rows] * max(1, len(distinct)) + inverse, return_inverse=True)
    texts = ["" if drop_label else format_decimal(value) for value in distinct.tolist()]
    places: dict[Labels, int] = {}
    target = np.empty(len(codes), dtype=np.int64)
    for index, code in enumerate(codes.tolist()):
        labels = _with_value(groups.keys[code // len(distinct)], label, texts[code % len(distinct)])
        target[index] = places.setdefault(labels, len(places))
    counts = np.zeros((len(places), frame.steps))
    np.add.at(counts, (target[series], steps), 1.0)
    return Frame(list(places), counts, counts > 0)


def _with_value(labels: Labels, name: str, value: str) -> Labels:
    return make_labels((*(pair for pair in labels if pair[0] != name), (name, value)))
