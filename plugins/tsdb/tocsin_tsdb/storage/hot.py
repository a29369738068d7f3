"""Decoded sample files in memory, the most recently used of them: what makes queries on recent blocks as fast as on the head.

A file comes in when it is written, for its samples are at hand then, or when queries keep asking for it. The bound is in bytes.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tocsin_tsdb.storage.pieces import IndexArray, Piece, narrow
from tocsin_tsdb.storage.wire import Float64Array, Int32Array, Int64Array

FileKey = tuple[str, str]
"""Block id and file name."""
MISSES_TO_LOAD = 2
BYTES_PER_SAMPLE = 12
_MOST_OFFSET = 0xFFFFFFFF


class HotFile:
    """The samples of one file: references [first, first + n), CSR, times as offsets of 32 bits where they fit."""

    def __init__(self, first: int, offsets: Int64Array, times: Int64Array, values: Float64Array) -> None:
        """The arrays may be views of larger ones; they are copied where that saves memory."""
        self._first = first
        self._offsets = offsets
        self._base = int(times.min(initial=0))
        fits = int(times.max(initial=0)) - self._base <= _MOST_OFFSET
        self._times: npt.NDArray[np.integer] = (times - self._base).astype(np.uint32) if fits else times - self._base
        self._values = np.ascontiguousarray(values)
        self.nbytes = self._times.nbytes + self._values.nbytes + self._offsets.nbytes

    def piece(self, positions: IndexArray, refs: Int32Array, start: int, end: int) -> Piece:
        """Return the samples of references in [start, end] as those of the series at `positions`."""
        at = refs.astype(np.int64) - self._first
        begins, ends = self._offsets[at], self._offsets[at + 1]
        low, high = narrow(self._times, begins, ends, start - self._base, end - self._base)
        return Piece(positions, low, high - low, self._times, self._values, self._base)


class HotFiles:
    """A bounded set of `HotFile`, least recently used out first."""

    def __init__(self, room: int) -> None:
        """`room` is the bound in bytes."""
        self._room = room
        self._files: OrderedDict[FileKey, HotFile] = OrderedDict()
        self._misses: Counter[FileKey] = Counter()
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: FileKey) -> HotFile | None:
        """Return a file that is in memory."""
        with self._lock:
            found = self._files.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._files.move_to_end(key)
            return found

    def get_or_load(self, key: FileKey, size: int, load: Callable[[], HotFile]) -> HotFile | None:
        """Return a file, loading it (about `size` bytes) once queries have missed it often enough; else None.

        One file is loaded at a time, for that takes a multiple of its size in memory.
        """
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            self._misses[key] += 1
            if self._misses[key] < MISSES_TO_LOAD or size > self._room // 2:
                return None
        with self._loading:
            found = self.get(key)
            if found is None:
                found = load()
                self.put(key, found)
            return found

    def put(self, key: FileKey, file: HotFile) -> None:
        """Take a file in, and out go as many others as needed."""
        with self._lock:
            self._misses.pop(key, None)
            if file.nbytes > self._room // 2 or key in self._files:
                return
            self._files[key] = file
            self.bytes += file.nbytes
            while self.bytes > self._room:
                _, gone = self._files.popitem(last=False)
                self.bytes -= gone.nbytes

    def worth_keeping(self, blocks: Sequence[str], samples: int) -> bool:
        """Tell whether what is merged from some blocks belongs into memory: one of them is there, and not too much comes in."""
        with self._lock:
            return samples * BYTES_PER_SAMPLE <= self._room // 2 and any(key[0] in blocks for key in self._files)

    def forget(self, block: str) -> None:
        """Drop the files of a block that is gone."""
        with self._lock:
            for key in [key for key in self._files if key[0] == block]:
                self.bytes -= self._files.pop(key).nbytes
            for key in [key for key in self._misses if key[0] == block]:
                del self._misses[key]
