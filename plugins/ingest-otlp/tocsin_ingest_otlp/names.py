"""Names of metrics and attributes as Prometheus has them, after the published compatibility rules of OpenTelemetry."""

from __future__ import annotations

import re
from functools import lru_cache

NOT_WORD = re.compile(r"[^a-zA-Z0-9:]+")
NOT_LABEL = re.compile(r"[^a-zA-Z0-9_]")

UNITS = {
    "d": "days", "h": "hours", "min": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
    "By": "bytes", "KiBy": "kibibytes", "MiBy": "mebibytes", "GiBy": "gibibytes", "TiBy": "tibibytes",
    "KBy": "kilobytes", "kBy": "kilobytes", "MBy": "megabytes", "GBy": "gigabytes", "TBy": "terabytes",
    "m": "meters", "V": "volts", "A": "amperes", "J": "joules", "W": "watts", "g": "grams",
    "Cel": "celsius", "Hz": "hertz", "%": "percent", "1": "",
}  # fmt: skip
"""Words for the units of UCUM that are common; other units stand for themselves."""
PER = {"s": "second", "min": "minute", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}

COUNTER, GAUGE, OTHER = "counter", "gauge", "other"


@lru_cache(maxsize=8192)
def metric_name(name: str, unit: str, kind: str) -> str:
    """Return a metric's name with its unit, ``_total`` for counters and ``_ratio`` for gauges without unit.

    Empty when nothing of the name is left.
    """
    words = [word for word in NOT_WORD.split(name) if word]
    if not words:
        return ""
    main, _, per = unit.partition("/")
    for word in _words(UNITS.get(main.strip(), main)):
        if word not in words:
            words.append(word)
    per_words = _words(PER.get(per.strip(), per))
    if per_words and per_words[-1] not in words:
        words += ["per", *per_words]
    if kind == COUNTER:
        words = [*(word for word in words if word != "total"), "total"]
    elif kind == GAUGE and unit == "1":
        words = [*(word for word in words if word != "ratio"), "ratio"]
    joined = "_".join(words)
    return f"_{joined}" if joined[0].isdigit() else joined


def label_name(name: str) -> str:
    """Return the name of an attribute as label; empty for an empty one."""
    clean = NOT_LABEL.sub("_", name)
    return f"key_{clean}" if clean[:1].isdigit() else clean


def _words(unit: str) -> list[str]:
    """Return the words of a unit; an annotation in braces is none."""
    return [] if "{" in unit or "}" in unit else [word for word in NOT_WORD.split(unit) if word]
