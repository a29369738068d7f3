"""Label sets as text, in the notation of selectors."""

from __future__ import annotations

import re

from .durations import quote
from .interface import METRIC_NAME, Labels

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def is_plain_metric(name: str) -> bool:
    """Tell whether a metric name can be written without quotes."""
    return _METRIC.fullmatch(name) is not None


def label_name(name: str) -> str:
    """Return a label name, quoted where it needs it."""
    return name if _LABEL.fullmatch(name) else quote(name)


def labels_text(labels: Labels) -> str:
    """Return `{a="b", c="d"}` with all labels inside, the metric's name too, as error messages show label sets."""
    return "{" + ", ".join(f"{label_name(name)}={quote(value)}" for name, value in labels) + "}"


def series_text(labels: Labels) -> str:
    """Return `name{a="b"}`, the usual way to write a series."""
    name = dict(labels).get(METRIC_NAME, "")
    rest = tuple(pair for pair in labels if pair[0] != METRIC_NAME)
    if name and not is_plain_metric(name):
        inner = labels_text(rest)[1:]
        return "{" + quote(name) + (", " if rest else "") + inner
    return name + labels_text(rest) if rest or not name else name
