"""Label sets as text, and the identity of an alert."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from tocsin.template.show import quote

METRIC_NAME = "__name__"


def notation(labels: Mapping[str, str]) -> str:
    """Return a label set as ``name{a="x", b="y"}``; without labels the name alone, ``{}`` when there is nothing."""
    name = labels.get(METRIC_NAME, "")
    texts = sorted(f"{label}={quote(value)}" for label, value in labels.items() if label != METRIC_NAME)
    if texts:
        return f"{name}{{{', '.join(texts)}}}"
    return name or "{}"


def identity(rule_id: int, labels: str, datasource_id: int, severity: int, query: str) -> str:
    """Return the hash that names one alert: rule, label set as :func:`notation`, datasource, severity and query."""
    text = f"{rule_id}_{labels}_{datasource_id}_{severity}_{query}"
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
