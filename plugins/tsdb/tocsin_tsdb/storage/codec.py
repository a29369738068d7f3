"""How samples become bytes that compress: the columns of a block's sample files.

A row is a chunk: up to `CHUNK` consecutive samples of one series. Values that are decimals with few digits become integers by a
power of ten (`scale` says which); any other chunk (`scale` = `RAW`) takes the bits of its doubles. Either way every bit comes
back, NaN payloads included. After the first sample a chunk holds differences. They are unsigned integers of as many bytes as the
largest needs, stored by planes: byte 0 of all samples, then byte 1 of all, and so on, because noise in low bytes must not spoil
the compression of high ones. The columns:

    ref INTEGER         the series, as the n-th of the block's series file
    start, stop BIGINT  time of the first and the last sample (ms)
    samples INTEGER     their number, n
    step BIGINT         shortest time between two of them (ms)
    gaps BLOB           n - 1 times since the sample before, less `step`: planes
    scale UTINYINT      power of ten, or 255
    first BIGINT        first value
    v0, v1, v2 BLOB     n - 1 differences to the value before, zigzag: plane 0, plane 1, the other planes
"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin_tsdb.storage import _chunks_py
from tocsin_tsdb.storage._chunks_py import MOST_SCALE, RAW
from tocsin_tsdb.storage.wire import Float64Array, Int32Array, Int64Array

_twin: Any = _chunks_py
with contextlib.suppress(ImportError):  # no C compiler when the distribution was installed
    _twin = importlib.import_module("tocsin_tsdb.storage._chunks")

CHUNK = 120
ROW_GROUP = 2_048
"""Chunks that a Parquet reader has to decompress together."""
_EXACT = float(1 << 53)

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
COLUMNS = ("ref", "start", "samples", "step", "gaps", "scale", "first", "v0", "v1", "v2")
"""What `decode` needs."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Samples of chunks in file order: chunk i is of series `refs[i]` and owns rows `offsets[i]:offsets[i + 1]`."""

    refs: Int32Array
    offsets: Int64Array
    times: Int64Array
    values: Float64Array


def encode(refs: Int64Array, offsets: Int64Array, times: Int64Array, values: Float64Array) -> Columns:
    """Encode series `refs[i]` with the samples `offsets[i]:offsets[i + 1]` (CSR, none of them empty)."""
    starts, lengths = _chunks(offsets)
    ends = starts + lengths
    numbers, scales = _integers(values, starts, np.repeat(np.arange(len(starts)), lengths))
    gaps, steps = _gaps(times, starts, lengths)
    differences = np.diff(numbers, prepend=numbers[:1])
    zigzag = ((differences << 1) ^ (differences >> 63)).view(np.uint64)
    zigzag[starts] = 0
    planes = _planes(zigzag, starts, ends)
    return {
        "ref": refs[np.searchsorted(offsets, starts, side="right") - 1].astype(np.int32),
        "start": times[starts],
        "stop": times[ends - 1],
        "samples": lengths.astype(np.int32),
        "step": steps,
        "gaps": _joined(_planes(gaps, starts, ends), len(starts)),
        "scale": scales,
        "first": numbers[starts],
        "v0": _joined(planes[:1], len(starts)),
        "v1": _joined(planes[1:2], len(starts)),
        "v2": _joined(planes[2:], len(starts)),
    }


def _gaps(times: Int64Array, starts: Int64Array, lengths: Int64Array) -> tuple[npt.NDArray[np.uint64], Int64Array]:
    """Return the time since the sample before, less the chunk's shortest, and these; 0 for a chunk's first sample."""
    gaps = np.diff(times, prepend=times[:1])
    gaps[starts] = np.iinfo(np.int64).max
    steps = np.minimum.reduceat(gaps, starts)
    steps[lengths == 1] = 0
    gaps -= np.repeat(steps, lengths)
    gaps[starts] = 0
    return gaps.view(np.uint64), steps


def _planes(numbers: npt.NDArray[np.uint64], starts: Int64Array, ends: Int64Array) -> list[list[bytes]]:
    """Return for each byte of the largest number the plane of every chunk: empty where none of its numbers needs the byte.

    The first sample of a chunk is left out.
    """
    largest = np.maximum.reduceat(numbers, starts)
    begins, stops = (starts + 1).tolist(), ends.tolist()
    planes: list[list[bytes]] = []
    for shift in map(np.uint64, range(0, 64, 8)):
        needed = largest >> shift != 0
        if not needed.any():
            break
        plane = (numbers >> shift).astype(np.uint8).tobytes()
        chunks = zip(begins, stops, needed.tolist(), strict=True)
        planes.append([plane[begin:stop] if here else b"" for begin, stop, here in chunks])
    return planes


def _joined(planes: list[list[bytes]], chunks: int) -> npt.NDArray[np.object_]:
    column = np.empty(chunks, object)
    column[:] = [b"".join(parts) for parts in zip(*planes, strict=True)] if planes else [b""] * chunks
    return column


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
    for scale in range(MOST_SCALE + 1):
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


def decode(columns: Columns) -> Decoded:
    """Return the samples of chunks. Raises ValueError when they are none."""
    samples = columns["samples"].astype(np.int32, copy=False)
    if np.any((samples < 1) | (samples > CHUNK)):
        raise ValueError(f"a chunk has less than one sample or more than {CHUNK}")
    if np.any(np.diff(columns["ref"]) < 0):
        raise ValueError("chunks are not in the order of their series")
    offsets = np.concatenate(([0], np.cumsum(samples, dtype=np.int64)))
    times, values = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.float64)
    _twin.decode(
        *(columns[name].tolist() for name in ("gaps", "v0", "v1", "v2")),
        *(np.ascontiguousarray(columns[name], np.int64) for name in ("start", "step", "first")),
        np.ascontiguousarray(columns["scale"], np.uint8),
        np.ascontiguousarray(samples),
        times,
        values,
    )
    return Decoded(columns["ref"].astype(np.int32, copy=False), offsets, times, values)
