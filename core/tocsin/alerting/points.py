"""Answers of datasources as points: one per series, its latest value, decoded once for all rules that asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tocsin.alerting.labels import notation
from tocsin.plugin import Series


@dataclass(frozen=True, slots=True)
class Point:
    """The latest sample of one series; ``text`` is its label set as :func:`~tocsin.alerting.labels.notation`."""

    labels: Mapping[str, str]
    text: str
    value: float
    timestamp: int


def _encodable(text: str) -> str:
    """Return a label value that can be written as UTF-8; a datasource may send half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def decode(series: Sequence[Series]) -> tuple[Point, ...]:
    """Return the latest sample of each series; series without one, or whose latest is NaN, are left out."""
    found = []
    for one in series:
        if len(one.values):
            value = float(one.values[-1])
            if not math.isnan(value):
                labels = {name: _encodable(text) for name, text in one.labels.items()}
                found.append(Point(labels, notation(labels), value, int(one.timestamps[-1])))
    return tuple(found)
