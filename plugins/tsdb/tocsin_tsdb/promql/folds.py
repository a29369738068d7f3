"""Working through windows of different lengths without a Python step per sample.

Windows are sorted by length, cut into chunks that fit the processor's cache, and folded position by position: step k
takes the k-th sample of every window of the chunk that has one. Those windows are a prefix of the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .context import Control
from .doubled import Prefixes
from .frames import Windows
from .interface import BoolArray, Float64Array, Int64Array

_CHUNK_CELLS = 1 << 12
_GATHER_SAMPLES = 1 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some windows, longest first: their place in the flattened (series x steps) matrix, first sample, length."""

    cells: Int64Array
    low: Int64Array
    counts: Int64Array

    def turns(self) -> Iterator[tuple[int, Int64Array]]:
        """Yield for k = 0, 1, ... how many windows have a k-th sample, and where those samples are."""
        longest = int(self.counts[0])
        active = np.searchsorted(-self.counts, -np.arange(longest), side="left")
        for k in range(longest):
            yield int(active[k]), self.low[: active[k]] + k


ChunkFunction: TypeAlias = Callable[[Chunk], Float64Array]


def chunks(windows: Windows, chosen: BoolArray, control: Control, most_samples: int | None = None) -> Iterator[Chunk]:
    """Yield the chosen windows, which must not be empty; `most_samples` bounds a chunk's windows x longest window."""
    counts = windows.counts.ravel()
    cells = np.flatnonzero(chosen)
    counts = counts[cells]
    longest = int(counts.max(initial=0))
    if longest - int(counts.min(initial=longest)) > 0:
        keys = (longest - counts).astype(np.uint16 if longest < 1 << 16 else np.int64)
        order = np.argsort(keys, kind="stable")
        cells, counts = cells[order], counts[order]
    low = windows.low.ravel()[cells]
    start = 0
    while start < len(cells):
        control.check()
        size = _CHUNK_CELLS if most_samples is None else max(1, most_samples // int(counts[start]))
        stop = start + size
        yield Chunk(cells[start:stop], low[start:stop], counts[start:stop])
        start = stop


def fold(
    windows: Windows, chosen: BoolArray, control: Control, function: ChunkFunction, out: Float64Array | None = None
) -> Float64Array:
    """Apply a function to the chosen windows; the others keep `out` (0 if not given). Returns [series x steps]."""
    result = np.zeros(windows.low.size) if out is None else out.ravel()
    for chunk in chunks(windows, chosen, control):
        result[chunk.cells] = function(chunk)
    return result.reshape(windows.low.shape)


def fold_padded(
    windows: Windows, control: Control, function: Callable[[Float64Array, Chunk], Float64Array]
) -> Float64Array:
    """Like `fold`, for functions that need a window's samples side by side.

    `function` gets [windows x longest] values, padded with +Inf, and the chunk; it may overwrite the values.
    """
    out = np.zeros(windows.low.size)
    for chunk in chunks(windows, windows.counts > 0, control, _GATHER_SAMPLES):
        place = np.arange(int(chunk.counts[0]))
        index = np.minimum(chunk.low[:, None] + place, len(windows.values) - 1)
        padded = windows.values[index]
        if chunk.counts[-1] < chunk.counts[0]:
            padded[place >= chunk.counts[:, None]] = np.inf
        out[chunk.cells] = function(padded, chunk)
    return out.reshape(windows.low.shape)


def accumulate(total: Float64Array, error: Float64Array, value: Float64Array) -> None:
    """Add in place, collecting the exact rounding errors (Neumaier's sum by Knuth's two-sum); overwrites `value`."""
    result = total + value
    shift = result - total
    value -= shift
    np.subtract(result, shift, out=shift)
    np.subtract(total, shift, out=shift)
    shift += value
    error += shift
    total[...] = result


def settle(total: Float64Array, error: Float64Array) -> Float64Array:
    """Return the compensated sum; once a sum has left the finite numbers its collected error means nothing."""
    settled: Float64Array = np.where(np.isfinite(total), total + error, total)
    return settled


def compensated_sums(values: Float64Array, chunk: Chunk) -> tuple[Float64Array, Float64Array]:
    """Return total and collected error of every window's samples."""
    total, error = np.zeros(len(chunk.cells)), np.zeros(len(chunk.cells))
    for active, index in chunk.turns():
        accumulate(total[:active], error[:active], values.take(index))
    return total, error


def sums(windows: Windows, control: Control) -> Float64Array:
    """Return the compensated sum of every window, [series x steps]."""
    values = windows.values
    quick = Prefixes(values).window(windows.low, windows.high)
    doubtful = (windows.counts > 0) & ~quick.trusted()
    return fold(windows, doubtful, control, lambda chunk: settle(*compensated_sums(values, chunk)), quick.value())
