"""A block: an immutable directory with the samples of a span of time, sorted by series.

meta.json               what the block holds, with size and CRC-32 of every file; without it a block is unfinished
series.parquet          labels (label fields of the wire format), samples, first, last of each series; row n is reference n
samples-00000.parquet   chunk rows (see `codec`), each file a range of references
tombstones.json         deleted spans, when there are any
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from tocsin_tsdb.storage import codec
from tocsin_tsdb.storage.duck import Parquet
from tocsin_tsdb.storage.errors import CorruptBlock
from tocsin_tsdb.storage.pieces import Piece
from tocsin_tsdb.storage.wal import sync_directory
from tocsin_tsdb.storage.wire import Float64Array, Int32Array, Int64Array

FORMAT = 1
META, SERIES, TOMBSTONES = "meta.json", "series.parquet", "tombstones.json"


@dataclass(frozen=True, slots=True)
class SampleFile:
    """One sample file: it holds the references [first, last]."""

    name: str
    first: int
    last: int
    longest_chunk_ms: int


@dataclass(frozen=True, slots=True)
class Meta:
    """The content of `meta.json`. Times in ms, both ends included; `start`/`end` is the aligned span [start, end)."""

    id: str
    start: int
    end: int
    min_time: int
    max_time: int
    series: int
    samples: int
    level: int
    sources: list[str]
    files: list[SampleFile]
    sums: dict[str, tuple[int, int]]
    format: int = FORMAT


@dataclass(slots=True)
class SeriesRows:
    """The series of a block, by reference."""

    keys: list[bytes]
    samples: Int64Array
    first: Int64Array
    last: Int64Array


@dataclass(slots=True)
class Tombstones:
    """Deleted spans [start, end] by reference."""

    spans: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def keep(self, refs: Int32Array, times: Int64Array) -> Int64Array | slice:
        """Return what selects the rows that were not deleted."""
        if not self.spans:
            return slice(None)
        keep = np.ones(len(refs), bool)
        for ref, spans in self.spans.items():
            begin, end = np.searchsorted(refs, [ref, ref + 1])
            for start, stop in spans:
                part = times[begin:end]
                keep[begin:end] &= (part < start) | (part > stop)
        return np.flatnonzero(keep)


class Block:
    """An open block. Readers hold a reference (`with block:`), so that compaction can delete it when the last one has left."""

    def __init__(self, path: Path, meta: Meta, sids: Int32Array, rows: SeriesRows, parquet: Parquet) -> None:
        """`sids[ref]` is the series id of each reference."""
        self.path = path
        self.meta = meta
        self.tombstones = _load_tombstones(path)
        self.size = sum(size for size, _ in meta.sums.values())
        self._parquet = parquet
        self._samples = rows.samples
        self._refs_by_sid = np.argsort(sids, kind="stable").astype(np.int32)
        self._sids = sids[self._refs_by_sid]
        self._lock = threading.Lock()
        self._readers = 0
        self._doomed = False

    @property
    def sids(self) -> Int32Array:
        """Ascending ids of the series in the block."""
        return self._sids

    def refs(self, wanted: Int32Array) -> tuple[Int32Array, Int64Array]:
        """Return the references of wanted series (ascending ids) that the block has, ascending, and their positions in `wanted`."""
        if len(self._sids) == 0 or len(wanted) == 0:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        at = np.searchsorted(self._sids, wanted)
        at[at == len(self._sids)] = 0
        positions = np.flatnonzero(self._sids[at] == wanted)
        refs = self._refs_by_sid[at[positions]]
        order = np.argsort(refs)
        return refs[order], positions[order]

    def overlaps(self, start: int, end: int) -> bool:
        """Tell whether the block may have samples in [start, end]."""
        return start <= self.meta.max_time and end >= self.meta.min_time

    def piece(self, wanted: Int32Array, start: int, end: int, limit: int) -> Piece:
        """Return the samples of the wanted series (ascending ids) in [start, end].

        Stops somewhere after `limit` samples. Raises CorruptBlock.
        """
        refs, positions = self.refs(wanted)
        parts = []
        for file in self.meta.files:
            mine = slice(*np.searchsorted(refs, [file.first, file.last + 1]))
            if mine.start < mine.stop and limit >= 0:
                parts.append(self._rows(file, refs[mine], start, end, limit))
                limit -= len(parts[-1][0])
        if not parts:
            return Piece(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))
        place = np.zeros(self.meta.series, np.int64)
        place[refs] = positions
        found = place[np.concatenate([refs for refs, _, _ in parts])]
        times = np.concatenate([times for _, times, _ in parts])
        values = np.concatenate([values for _, _, values in parts])
        order = np.argsort(found, kind="stable")
        return Piece(found[order], times[order], values[order])

    def _rows(
        self, file: SampleFile, refs: Int32Array, start: int, end: int, limit: int
    ) -> tuple[Int32Array, Int64Array, Float64Array]:
        chunk_starts = (max(start, self.meta.min_time) - file.longest_chunk_ms, min(end, self.meta.max_time))
        rows = limit + codec.CHUNK * 2 * len(refs) + codec.CHUNK
        columns = self._parquet.read_rows(self.path / file.name, codec.COLUMNS, refs, chunk_starts, rows)
        found, times, values = codec.decode(columns)
        keep = np.flatnonzero((times >= start) & (times <= end))
        found, times, values = found[keep], times[keep], values[keep]
        left = self.tombstones.keep(found, times)
        return found[left], times[left], values[left]

    def pieces(self, wanted: Int32Array, start: int, end: int) -> Iterator[Piece]:
        """Yield all samples of the wanted series (ascending ids) in [start, end]. Raises CorruptBlock."""
        yield self.piece(wanted, start, end, 1 << 40)

    def weights(self) -> tuple[Int32Array, Int64Array]:
        """Return the ascending ids of the series and their numbers of samples."""
        return self._sids, self._samples[self._refs_by_sid]

    def delete_span(self, refs: Iterable[int], start: int, end: int) -> None:
        """Mark samples as deleted; durable when this returns. Raises OSError."""
        spans = {ref: list(have) for ref, have in self.tombstones.spans.items()}
        for ref in refs:
            spans.setdefault(int(ref), []).append((start, end))
        write_atomically(self.path / TOMBSTONES, json.dumps({str(ref): have for ref, have in spans.items()}).encode())
        self.tombstones = Tombstones(spans)

    def verify(self) -> None:
        """Compare size and checksum of every file. Raises CorruptBlock."""
        for name in self.meta.sums:
            check_file(self.path, self.meta, name)

    def __enter__(self) -> Block:
        with self._lock:
            self._readers += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._readers -= 1
            last = self._doomed and self._readers == 0
        if last:
            shutil.rmtree(self.path, ignore_errors=True)

    def drop(self) -> None:
        """Delete the block's directory as soon as nobody reads it."""
        with self._lock:
            self._doomed = True
            idle = self._readers == 0
        if idle:
            shutil.rmtree(self.path, ignore_errors=True)


def load_block(path: Path, parquet: Parquet) -> tuple[Meta, SeriesRows]:
    """Read what describes a block and check that its files are whole in size. Raises CorruptBlock."""
    try:
        raw = json.loads((path / META).read_bytes())
        if raw["format"] != FORMAT:
            raise CorruptBlock(f"{path.name}: format {raw['format']} is not known, expected {FORMAT}")
        raw["files"] = [SampleFile(**file) for file in raw["files"]]
        raw["sums"] = {name: (size, crc) for name, (size, crc) in raw["sums"].items()}
        meta = Meta(**raw)
        for name, (size, _) in meta.sums.items():
            found = (path / name).stat().st_size
            if found != size:
                raise CorruptBlock(f"{path.name}/{name}: {found} bytes, expected {size}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptBlock(f"{path.name}: {error}") from error
    check_file(path, meta, SERIES)
    columns = parquet.read(path / SERIES, ("labels", "samples", "first", "last"))
    return meta, SeriesRows(
        [bytes(key) for key in columns["labels"]], columns["samples"], columns["first"], columns["last"]
    )


def check_file(path: Path, meta: Meta, name: str) -> None:
    """Compare a file's checksum with the block's. Raises CorruptBlock."""
    size, expected = meta.sums[name]
    try:
        found = file_sum(path / name)
    except OSError as error:
        raise CorruptBlock(f"{path.name}/{name}: {error}") from error
    if found != (size, expected):
        raise CorruptBlock(f"{path.name}/{name}: checksum does not match")


def file_sum(path: Path) -> tuple[int, int]:
    """Return size and CRC-32 of a file."""
    size = crc = 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            size += len(part)
            crc = zlib.crc32(part, crc)
    return size, crc


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that it is old or new after a crash, never half. Raises OSError."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def dump_meta(meta: Meta) -> bytes:
    """Return the content of `meta.json`."""
    return json.dumps(asdict(meta), indent=1).encode()


def _load_tombstones(path: Path) -> Tombstones:
    try:
        raw = json.loads((path / TOMBSTONES).read_bytes())
        return Tombstones({int(ref): [(start, end) for start, end in spans] for ref, spans in raw.items()})
    except FileNotFoundError:
        return Tombstones()
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CorruptBlock(f"{path.name}/{TOMBSTONES}: {error}") from error
