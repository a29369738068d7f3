"""Copying many ranges of samples at once, with NumPy: the twin of `_ranges.pyx`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def expand(starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the concatenation of the ranges [start, start + count)."""
    total = int(counts.sum())
    if total == 0:
        return np.empty(0, np.int64)
    ends = np.cumsum(counts)
    rows: npt.NDArray[np.int64] = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return rows


def copy_ranges(
    times: npt.NDArray[np.integer],
    base: int,
    values: npt.NDArray[np.float64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    out_times: npt.NDArray[np.int64],
    out_values: npt.NDArray[np.float64],
) -> None:
    """Copy the samples [start, start + count) to the rows from target on, adding `base` to their times (int64 or uint32)."""
    rows, places = expand(starts, counts), expand(targets, counts)
    out_times[places] = times[rows].astype(np.int64) + base
    out_values[places] = values[rows]
