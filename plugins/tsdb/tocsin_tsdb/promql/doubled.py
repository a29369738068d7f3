"""Sums over overlapping windows in time proportional to samples plus windows, as exact as compensated summation.

A plain prefix sum loses digits. Here every prefix is kept as an unevaluated pair (sum, collected rounding errors), which
together carry about 106 bits; the difference of two prefixes is the window's sum. What such a difference may still be
wrong by is bounded; windows whose bound is not far below their result (sums that cancel to almost nothing, infinities,
NaN) are reported, and the caller folds those sample by sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .interface import BoolArray, Float64Array, Int64Array

Pair: TypeAlias = tuple[Float64Array, Float64Array]
"""An unevaluated sum of a value and a much smaller one."""

_EPSILON = float(np.finfo(np.float64).eps)
TRUSTED_ERROR = 2.0**-46
"""A result is taken from prefixes only if its error is certainly below this share of it."""


def two_sum(a: Float64Array, b: Float64Array) -> Pair:
    """Return a + b and its exact rounding error (Knuth)."""
    total = a + b
    shift = total - a
    return total, (a - (total - shift)) + (b - shift)


@dataclass(frozen=True, slots=True)
class WindowSum:
    """Sums of many windows, and what each may be wrong by."""

    pair: Pair
    error: Float64Array

    def value(self) -> Float64Array:
        """Return the sums, rounded once."""
        total: Float64Array = self.pair[0] + self.pair[1]
        return total

    def trusted(self) -> BoolArray:
        """Tell where the error certainly does not matter."""
        sure: BoolArray = np.isfinite(self.error) & (self.error <= TRUSTED_ERROR * np.abs(self.pair[0]))
        return sure


class Prefixes:
    """Prefix sums of samples.

    NaN and infinities count as nothing; windows that contain one are never trusted.
    """

    def __init__(self, values: Float64Array) -> None:
        finite = np.isfinite(values)
        self._all_finite = bool(finite.all())
        if not self._all_finite:
            values = np.where(finite, values, 0.0)
            self._strange = np.concatenate(([0], np.cumsum(~finite)))
        self._total = np.concatenate(([0.0], np.cumsum(values)))
        before, after = self._total[:-1], self._total[1:]
        shift = after - before
        errors = (before - (after - shift)) + (values - shift)
        self._rest = np.concatenate(([0.0], np.cumsum(errors)))
        self._scale = float(np.abs(self._rest).max()) * _EPSILON

    def window(self, low: Int64Array, high: Int64Array) -> WindowSum:
        """Return the sums of the samples low to high (exclusive)."""
        total, error = two_sum(self._total[high], -self._total[low])
        rest = error + (self._rest[high] - self._rest[low])
        doubt = (high - low + 2) * self._scale + np.abs(rest) * _EPSILON
        if not self._all_finite:
            doubt = np.where(self._strange[high] > self._strange[low], np.inf, doubt)
        return WindowSum((total, rest), np.where(np.isfinite(total), doubt, np.inf))
