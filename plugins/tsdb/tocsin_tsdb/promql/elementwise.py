"""Functions of single values: rounding, logarithms, trigonometry, parts of a date."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .interface import Float64Array

Unary = Callable[[Float64Array], Float64Array]


def _sign(values: Float64Array) -> Float64Array:
    return np.where(values < 0, -1.0, np.where(values > 0, 1.0, values))


MATH: dict[str, Unary] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "deg": lambda values: values * 180 / np.pi,
    "exp": np.exp,
    "floor": np.floor,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "rad": lambda values: values * np.pi / 180,
    "sgn": _sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}


def round_to(values: Float64Array, nearest: Float64Array) -> Float64Array:
    """Round to the nearest multiple, ties upwards. The inverse keeps 0.1 and its like exact."""
    inverse = 1.0 / nearest
    result: Float64Array = np.floor(values * inverse + 0.5) / inverse
    return result


def clamp(values: Float64Array, low: Float64Array, high: Float64Array) -> Float64Array:
    """Limit values to [low, high]. NaN wins over numbers, but -Inf over NaN from above and +Inf from below, as in Go."""
    least = np.where((high == -np.inf) | (values == -np.inf), -np.inf, np.minimum(high, values))
    return np.where((low == np.inf) | (least == np.inf), np.inf, np.maximum(low, least))


def _seconds(values: Float64Array) -> np.ndarray[tuple[int, ...], np.dtype[np.datetime64]]:
    """Read values as Unix times; what cannot be one becomes the smallest integer, as Go converts it on amd64."""
    bad = ~(np.abs(values) < 2.0**62)
    whole = np.where(bad, 0.0, values).astype(np.int64)
    return whole.astype("datetime64[s]")


def _since(values: Float64Array, unit: str, within: str) -> Float64Array:
    moments = _seconds(values)
    parts = moments.astype(f"datetime64[{unit}]") - moments.astype(f"datetime64[{within}]").astype(
        f"datetime64[{unit}]"
    )
    result: Float64Array = parts.astype(np.float64)
    return result


def _days_in_month(values: Float64Array) -> Float64Array:
    month = _seconds(values).astype("datetime64[M]")
    days = (month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")
    result: Float64Array = days.astype(np.float64)
    return result


def _day_of_week(values: Float64Array) -> Float64Array:
    days = _seconds(values).astype("datetime64[D]").astype(np.int64)
    return ((days + 4) % 7).astype(np.float64)  # 1970-01-01 was a Thursday


TIME_PARTS: dict[str, Unary] = {
    "day_of_month": lambda values: _since(values, "D", "M") + 1,
    "day_of_week": _day_of_week,
    "day_of_year": lambda values: _since(values, "D", "Y") + 1,
    "days_in_month": _days_in_month,
    "hour": lambda values: _since(values, "h", "D"),
    "minute": lambda values: _since(values, "m", "h"),
    "month": lambda values: _since(values, "M", "Y") + 1,
    "year": lambda values: _seconds(values).astype("datetime64[Y]").astype(np.float64) + 1970,
}
"""Parts of a Unix time in UTC."""
