"""Values with units, as people read them: ``81.50%``, ``1.50 h``, ``160.00MiB``."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

INFINITE = 9_999_999_999.0
SI = (("Y", 1e24), ("Z", 1e21), ("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
SI_SMALL = (("m", 1e-3), ("µ", 1e-6), ("n", 1e-9), ("p", 1e-12))
DURATIONS = (
    *(("y", 31_536_000.0), ("w", 604_800.0), ("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)),
    *(("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)),
)
SECONDS_PER = {
    "ns": 1e-9,
    "nanoseconds": 1e-9,
    "µs": 1e-6,
    "microseconds": 1e-6,
    "ms": 1e-3,
    "milliseconds": 1e-3,
    "s": 1.0,
    "seconds": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
    "humantimeSeconds": 1.0,
    "humantimeMilliseconds": 1e-3,
}
STEPS = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
BINARY_NAMES = {"kibi": 1, "mebi": 2, "gibi": 3, "tebi": 4, "pebi": 5}
DECIMAL_NAMES = {"kilo": 1, "mega": 2, "giga": 3, "tera": 4, "peta": 5}
SPACED = {
    "cps": "c/s",
    "ops": "ops/s",
    "reqps": "req/s",
    "rps": "rd/s",
    "wps": "wr/s",
    "iops": "io/s",
    "eps": "evt/s",
    "mps": "msg/s",
    "recps": "rec/s",
    "rowsps": "rows/s",
    "cpm": "c/m",
    "opm": "ops/m",
    "reqpm": "req/m",
    "rpm": "rd/m",
    "wpm": "wr/m",
    "epm": "evts/m",
    "mpm": "msgs/m",
    "recpm": "rec/m",
    "rowspm": "rows/m",
    "celsius": "°C",
    "fahrenheit": "°F",
    "kelvin": "K",
}
LENGTHS = {"millimeter": 1e-3, "meter": 1.0, "kilometer": 1e3}
PLAIN = {"inch": "in", "foot": "ft", "mile": "mi"}

Scaled = tuple[float, str]
"""A scaled value and its unit text, put behind the number without a space of its own."""


def formatted(unit: str, value: float) -> dict[str, Any]:
    """Return ``{"value", "unit", "text", "stat"}`` of a value in ``unit``; text and value have two decimals."""
    if math.isnan(value):
        return {"value": 0.0, "unit": "", "text": "NaN", "stat": 0.0}
    if math.isinf(value):
        sign = "+" if value > 0 else "-"
        bound = math.copysign(INFINITE, value)
        return {"value": bound, "unit": "", "text": f"{sign}Inf", "stat": bound}
    stat = value * 100 if unit == "percentUnit" else value
    if unit in ("", "none"):
        return {"value": value, "unit": "", "text": f"{value:.2f}", "stat": stat}
    if unit in ("datetimeSeconds", "datetimeMilliseconds"):
        seconds = value / 1000 if unit == "datetimeMilliseconds" else value
        return {"value": value, "unit": "", "text": _local_time(seconds), "stat": stat}
    number, suffix = scaled(unit, value)
    text = "0" if unit in ("default", "short", "sishort") and number == 0 else f"{number:.2f}{suffix}"
    return {"value": round(number, 2), "unit": suffix.strip(), "text": text, "stat": stat}


def scaled(unit: str, value: float) -> Scaled:
    """Return ``value`` on the scale of its unit that reads best; an unknown unit is kept as it is."""
    if unit in ("percent", "percentUnit"):
        return (value * 100 if unit == "percentUnit" else value), "%"
    if unit in ("default", "short", "sishort"):
        return _si(value, "")
    if unit in SECONDS_PER:
        return _duration(value * SECONDS_PER[unit])
    if unit in SPACED:
        number, suffix = _si(value, "")
        return number, f"{suffix} {SPACED[unit]}" if not suffix else f" {suffix}{SPACED[unit]}"
    if unit in LENGTHS:
        return _si(value * LENGTHS[unit], "m")
    if unit == "dBm":
        return _si(value, "dBm")
    if unit in PLAIN:
        return value, f" {PLAIN[unit]}"
    return _data(unit, value) or (value, f" {unit}")


def plain_number(value: float) -> str:
    """Return a value with at most five decimals and no trailing zeros."""
    return f"{value:.5f}".rstrip("0").rstrip(".")


def _si(value: float, symbol: str) -> Scaled:
    size = abs(value)
    for prefix, factor in SI:
        if size >= factor:
            return value / factor, prefix + symbol
    if symbol and 0 < size < 1:
        for prefix, factor in SI_SMALL:
            if size >= factor:
                return value / factor, prefix + symbol
    return value, symbol


def _duration(seconds: float) -> Scaled:
    for name, size in DURATIONS:
        if abs(seconds) >= size:
            return seconds / size, f" {name}"
    return (seconds / 1e-9, " ns") if seconds else (0.0, " s")


def _data(unit: str, value: float) -> Scaled | None:
    """Scale bits, bytes and packets, total or per second, in steps of 1024 or 1000."""
    name = unit.replace("(", "").replace(")", "")
    binary = name.endswith("IEC")
    rest = name.removesuffix("IEC").removesuffix("SI")
    step = 0
    for prefix, number in (*BINARY_NAMES.items(), *DECIMAL_NAMES.items()):
        if rest.startswith(prefix):
            rest, step, binary = rest.removeprefix(prefix), number, prefix in BINARY_NAMES
            break
    else:
        if rest == name and name != "packetsSec":
            return None
    per_second = rest.endswith("Sec")
    symbol = {"bits": "b", "bytes": "B", "packets": "p"}.get(rest.removesuffix("Sec"))
    if symbol is None:
        return None
    symbol += "/s" if per_second else ""
    base = 1024.0 if binary else 1000.0
    while abs(value) >= base and step < len(STEPS) - 1:
        value, step = value / base, step + 1
    while step and 0 < abs(value) < 1:
        value, step = value * base, step - 1
    prefix = STEPS[step].upper() + "i" if binary and step else STEPS[step]
    return value, prefix + symbol


def _local_time(seconds: float) -> str:
    try:
        return dt.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return plain_number(seconds)
