"""How samples become integers that compress: the columns of a block's sample files.

A chunk is up to `CHUNK` consecutive samples of one series. Its first row carries absolute numbers, the others differences to the
row before. Values of a chunk that are decimals with few digits are stored as integers scaled by a power of ten (`scale` says
which); any other chunk (`scale` = `RAW`) stores the bits of its doubles. Either way every bit comes back, NaN payloads included.
Differences are zigzag-encoded and split into bytes 0, 1 and the rest: noise in the low bytes then does not spoil the compression
of the high ones. The columns of a row:

    ref INTEGER     the series, as the n-th of the block's series file
    start BIGINT    time of the chunk's first sample (ms)
    scale UTINYINT  power of ten, or 255
    dt BIGINT       milliseconds since the sample before (0 in the first row)
    v0, v1 UTINYINT, v2 BIGINT  the value's difference, zigzag, in bytes 0, 1 and 2-7
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin_tsdb.storage.wire import Float64Array, Int64Array

CHUNK = 120
RAW = 255
MAX_SCALE = 6
_EXACT = float(1 << 53)

Columns: TypeAlias = dict[str, npt.NDArray[np.generic]]
COLUMNS = ("ref", "start", "scale", "dt", "v0", "v1", "v2")


def encode(refs: Int64Array, offsets: Int64Array, times: Int64Array, values: Float64Array) -> Columns:
    """Encode series `refs[i]` with the samples `offsets[i]:offsets[i + 1]` (CSR, none of them empty)."""
    starts, lengths = _chunks(offsets)
    chunk_of = np.repeat(np.arange(len(starts)), lengths)
    numbers, scales = _integers(values, starts, chunk_of)
    steps = np.empty_like(numbers)
    steps[0:1] = numbers[0:1]
    np.subtract(numbers[1:], numbers[:-1], out=steps[1:])
    steps[starts] = numbers[starts]
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    gaps = np.diff(times, prepend=times[:1])
    gaps[starts] = 0
    return {
        "ref": np.repeat(refs, np.diff(offsets)).astype(np.int32),
        "start": times[starts][chunk_of],
        "scale": scales[chunk_of],
        "dt": gaps,
        "v0": (zigzag & np.uint64(0xFF)).astype(np.uint8),
        "v1": ((zigzag >> np.uint64(8)) & np.uint64(0xFF)).astype(np.uint8),
        "v2": (zigzag >> np.uint64(16)).view(np.int64),
    }


def _chunks(offsets: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return start row and length of every chunk."""
    sizes = np.diff(offsets)
    per_series = -(-sizes // CHUNK)
    first = np.cumsum(per_series) - per_series
    within = np.arange(int(per_series.sum()), dtype=np.int64) - np.repeat(first, per_series)
    starts = np.repeat(offsets[:-1], per_series) + within * CHUNK
    return starts, np.diff(np.append(starts, offsets[-1]))


def _integers(
    values: Float64Array, starts: Int64Array, chunk_of: Int64Array
) -> tuple[Int64Array, npt.NDArray[np.uint8]]:
    """Scale chunks to integers where that is exact; the cheapest scale that fits wins."""
    numbers = values.view(np.int64).copy()
    scales = np.full(len(starts), RAW, np.uint8)
    rows = np.arange(len(values))
    begins, pending = starts, np.arange(len(starts))
    left = values
    for scale in range(MAX_SCALE + 1):
        if len(pending) == 0:
            break
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.rint(left * 10.0**scale)
            exact = (np.abs(scaled) < _EXACT) & (scaled / 10.0**scale == left) & ~((scaled == 0) & np.signbit(left))
        fits = np.logical_and.reduceat(exact, begins)
        scales[pending[fits]] = scale
        fitting = np.repeat(fits, np.diff(np.append(begins, len(left))))
        numbers[rows[fitting]] = scaled[fitting].astype(np.int64)
        rest = ~fitting
        lengths = np.diff(np.append(begins, len(left)))[~fits]
        rows, left, pending = rows[rest], left[rest], pending[~fits]
        begins = np.cumsum(lengths) - lengths
    return numbers, scales


def decode(columns: Columns) -> tuple[npt.NDArray[np.int32], Int64Array, Float64Array]:
    """Return series, time and value of every row. The rows must be whole chunks in file order."""
    refs = columns["ref"].astype(np.int32, copy=False)
    if len(refs) == 0:
        return refs, np.empty(0, np.int64), np.empty(0, np.float64)
    begin = columns["start"].astype(np.int64, copy=False)
    first = np.empty(len(refs), bool)
    first[0] = True
    first[1:] = (begin[1:] != begin[:-1]) | (refs[1:] != refs[:-1])
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(refs)))
    times = begin + _running_sum(columns["dt"].astype(np.int64, copy=False), starts, lengths)
    zigzag = (
        columns["v0"].astype(np.uint64)
        | (columns["v1"].astype(np.uint64) << np.uint64(8))
        | (columns["v2"].astype(np.int64, copy=False).view(np.uint64) << np.uint64(16))
    )
    steps = (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
    numbers = _running_sum(steps, starts, lengths)
    return refs, times, _doubles(numbers, columns["scale"].astype(np.uint8, copy=False))


def _running_sum(steps: Int64Array, starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """Sum up within chunks; int64 wraps around on purpose, so raw bits survive."""
    total = np.cumsum(steps)
    before = total[starts] - steps[starts]
    return total - np.repeat(before, lengths)


def _doubles(numbers: Int64Array, scales: npt.NDArray[np.uint8]) -> Float64Array:
    powers = 10.0 ** np.arange(MAX_SCALE + 1)
    raw = scales == RAW
    values = numbers / powers[np.where(raw, 0, scales)]
    if raw.any():
        values[raw] = numbers[raw].view(np.float64)
    return values
