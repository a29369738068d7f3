"""Which rows belong together: label sets are looked at once per query, never per step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .frames import METADATA_LABELS
from .interface import METRIC_NAME, Int64Array, Labels

Key = Callable[[Labels], Labels]


def by_labels(names: tuple[str, ...]) -> Key:
    """Return a function that keeps the named labels of a label set."""
    if not names:
        return lambda labels: ()
    if len(names) == 1:
        only = names[0]

        def single(labels: Labels) -> Labels:
            for pair in labels:
                if pair[0] == only:
                    return (pair,)
            return ()

        return single
    wanted = frozenset(names)
    return lambda labels: tuple([pair for pair in labels if pair[0] in wanted])


def without_labels(names: tuple[str, ...]) -> Key:
    """Return a function that drops the named labels and the metric's name from a label set."""
    if not names:
        return lambda labels: labels[1:] if labels and labels[0][0] == METRIC_NAME else _no_name(labels)
    dropped = frozenset((*names, METRIC_NAME))
    return lambda labels: tuple([pair for pair in labels if pair[0] not in dropped])


def matching_labels(names: tuple[str, ...]) -> Key:
    """Return a function that drops the named labels from a label set, and what arithmetic takes away: the metric's name,
    type and unit. Otherwise a result would not match the series that it comes from."""
    dropped = METADATA_LABELS.union(names)

    def rest(labels: Labels) -> Labels:
        if not names and len(labels) > 1 and labels[0][0] == METRIC_NAME and labels[1][0] > "__unit__":
            return labels[1:]
        return tuple([pair for pair in labels if pair[0] not in dropped])

    return rest


def _no_name(labels: Labels) -> Labels:
    return tuple([pair for pair in labels if pair[0] != METRIC_NAME])


@dataclass(frozen=True, slots=True)
class Groups:
    """A partition of rows. `ids` [rows] numbers the groups in order of appearance, `keys` are their labels."""

    keys: list[Labels]
    ids: Int64Array

    def ordered(self) -> tuple[Int64Array, Int64Array]:
        """Return the rows sorted by group (stable), and where each group starts in that order."""
        order = np.argsort(self.ids, kind="stable")
        sizes = np.bincount(self.ids, minlength=len(self.keys))
        return order, np.cumsum(sizes) - sizes


def group(labels: list[Labels], key: Key) -> Groups:
    """Partition label sets by a key."""
    seen: dict[Labels, int] = {}
    ids = [seen.setdefault(key(each), len(seen)) for each in labels]
    return Groups(list(seen), np.array(ids, dtype=np.int64))
