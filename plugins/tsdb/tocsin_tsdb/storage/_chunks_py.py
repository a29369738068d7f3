"""The decoder of chunks with NumPy: the twin of `_chunks.pyx`, for machines without a C compiler.

See `codec` for what the columns mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MOST_SCALE = 6
RAW = 255


def decode(
    gaps: Sequence[bytes | bytearray],
    low: Sequence[bytes | bytearray],
    middle: Sequence[bytes | bytearray],
    high: Sequence[bytes | bytearray],
    starts: npt.NDArray[np.int64],
    steps: npt.NDArray[np.int64],
    firsts: npt.NDArray[np.int64],
    scales: npt.NDArray[np.uint8],
    samples: npt.NDArray[np.int32],
    times: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
) -> None:
    """Decode chunks into `times` and `values`, which must have room for exactly their samples.

    Raises ValueError when the columns contradict each other.
    """
    if len({len(column) for column in (gaps, low, middle, high, starts, steps, firsts, scales, samples)}) != 1:
        raise ValueError("columns differ in length")
    if len(times) != len(values):
        raise ValueError("times and values differ in length")
    begin = 0
    for chunk, count in enumerate(samples.tolist()):
        rows = count - 1
        if rows < 0 or begin + rows >= len(times):
            raise ValueError("a chunk's number of samples is wrong")
        scale = int(scales[chunk])
        if scale > MOST_SCALE and scale != RAW:
            raise ValueError("a chunk's scale is wrong")
        numbers = np.zeros(count, np.uint64)
        _add_planes(low[chunk], 0, 1, numbers[1:])
        _add_planes(middle[chunk], 1, 1, numbers[1:])
        _add_planes(high[chunk], 2, 6, numbers[1:])
        numbers = (numbers >> np.uint64(1)) ^ (np.uint64(0) - (numbers & np.uint64(1)))
        numbers[0] = firsts[chunk : chunk + 1].view(np.uint64)[0]
        deltas = np.zeros(count, np.uint64)
        _add_planes(gaps[chunk], 0, 8, deltas[1:])
        deltas[1:] += steps[chunk : chunk + 1].view(np.uint64)[0]
        deltas[0] = starts[chunk : chunk + 1].view(np.uint64)[0]
        mine = slice(begin, begin + count)
        times[mine] = np.cumsum(deltas).view(np.int64)
        bits = np.cumsum(numbers)
        values[mine] = bits.view(np.float64) if scale == RAW else bits.view(np.int64) / 10.0**scale
        begin += count
    if begin != len(times):
        raise ValueError("chunks hold fewer samples than expected")


def _add_planes(packed: bytes | bytearray, first: int, most: int, out: npt.NDArray[np.uint64]) -> None:
    """Add the planes of some bytes, the lowest of which is byte `first`, to integers."""
    if not isinstance(packed, bytes | bytearray):
        raise ValueError("a chunk's column is not bytes")
    planes = len(packed) // len(out) if len(out) else 0
    if planes * len(out) != len(packed) or planes > most:
        raise ValueError("a chunk's column has the wrong length")
    for plane in range(planes):
        part = np.frombuffer(packed, np.uint8, len(out), plane * len(out))
        out |= part.astype(np.uint64) << np.uint64(8 * (first + plane))
