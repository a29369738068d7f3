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
from tocsin_tsdb.storage.errors import CorruptBlock, ReadFailed, unreadable
from tocsin_tsdb.storage.hot import BYTES_PER_SAMPLE, HotFile, HotFiles
from tocsin_tsdb.storage.pieces import Piece, expand, narrow
from tocsin_tsdb.storage.wal import sync_directory
from tocsin_tsdb.storage.wire import Int32Array, Int64Array

FORMAT = 2
NO_LIMIT = 1 << 40
META, SERIES, TOMBSTONES = "meta.json", "series.parquet", "tombstones.json"


@dataclass(frozen=True, slots=True)
class SampleFile:
    """One sample file: it holds the references [first, last]."""

    name: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Meta:
    """The content of `meta.json`. Times in ms, both ends included; `start`/`end` is the aligned span [start, end).

    Where blocks overlap and disagree, the one with the lower `sequence` was written first and is right.
    """

    id: str
    start: int
    end: int
    min_time: int
    max_time: int
    series: int
    samples: int
    level: int
    sequence: int
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of one sample file: references of series at positions of a selection, and times in [start, end]."""

    refs: Int32Array
    positions: Int64Array
    start: int
    end: int


class FileReader:
    """Reads sample files: from memory where they are hot, else what is asked for, or once for all."""

    def __init__(self, parquet: Parquet, hot: HotFiles) -> None:
        self.parquet = parquet
        self.hot = hot

    def read(self, path: Path, file: SampleFile, offsets: Int64Array | None, wanted: Wanted) -> Piece:
        """Return what is wanted of a file.

        `offsets` says where the rows of each reference begin; without it the file is not taken into memory.
        Raises CorruptBlock, ReadFailed.
        """
        key = (path.name, file.name)
        if offsets is None:
            hot = self.hot.get(key)
        else:
            rows_begin = offsets
            size = int(offsets[-1]) * BYTES_PER_SAMPLE
            hot = self.hot.get_or_load(key, size, lambda: self._load(path, file, rows_begin))
        if hot is not None:
            return hot.piece(wanted.positions, wanted.refs, wanted.start, wanted.end)
        return self._cold(path, file, wanted)

    def _cold(self, path: Path, file: SampleFile, wanted: Wanted) -> Piece:
        chunks = self.parquet.read_chunks(
            path / file.name, codec.COLUMNS, np.sort(wanted.refs), wanted.start, wanted.end
        )
        found = decoded(chunks, path / file.name)
        begins = found.offsets[np.searchsorted(found.refs, wanted.refs)]
        ends = found.offsets[np.searchsorted(found.refs, wanted.refs, side="right")]
        low, high = narrow(found.times, begins, ends, wanted.start, wanted.end)
        return Piece(wanted.positions, low, high - low, found.times, found.values)

    def _load(self, path: Path, file: SampleFile, offsets: Int64Array) -> HotFile:
        found = decoded(self.parquet.read(path / file.name, codec.COLUMNS), path / file.name)
        if len(found.times) != offsets[-1]:
            raise CorruptBlock(f"{path.name}/{file.name}: {len(found.times)} samples, expected {offsets[-1]}")
        return HotFile(file.first, offsets, found.times, found.values)


def decoded(chunks: codec.Columns, path: Path) -> codec.Decoded:
    """Decode chunks of a sample file. Raises CorruptBlock."""
    try:
        return codec.decode(chunks)
    except ValueError as error:
        raise CorruptBlock(f"{path.parent.name}/{path.name}: {error}") from error


@dataclass(slots=True)
class Tombstones:
    """Deleted spans [start, end] by reference."""

    spans: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def thin_out(self, refs: Int32Array, piece: Piece) -> Piece:
        """Return the samples that were not deleted."""
        rows = expand(piece.starts, piece.counts)
        times, values = piece.times[rows].astype(np.int64) + piece.base, piece.values[rows]
        ends = np.cumsum(piece.counts)
        keep = np.ones(len(times), bool)
        for place, ref in enumerate(refs.tolist()):
            mine = slice(int(ends[place] - piece.counts[place]), int(ends[place]))
            for start, stop in self.spans.get(ref, ()):
                keep[mine] &= (times[mine] < start) | (times[mine] > stop)
        counts = np.bincount(np.repeat(np.arange(len(refs)), piece.counts)[keep], minlength=len(refs))
        return Piece(piece.positions, np.cumsum(counts) - counts, counts, times[keep], values[keep])


class Block:
    """An open block. Readers hold a reference (`with block:`), so that compaction can delete it when the last one has left."""

    def __init__(self, path: Path, meta: Meta, sids: Int32Array, rows: SeriesRows, files: FileReader) -> None:
        """`sids[ref]` is the series id of each reference."""
        self.path = path
        self.meta = meta
        self.tombstones = _load_tombstones(path)
        self.size = sum(size for size, _ in meta.sums.values())
        self._files = files
        self._samples = rows.samples
        self._rows_before = np.concatenate(([0], np.cumsum(rows.samples)))
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
        """Return the references of those wanted series (ascending ids) that the block has, and their positions in `wanted`."""
        if len(self._sids) == 0 or len(wanted) == 0:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        at = np.searchsorted(self._sids, wanted)
        at[at == len(self._sids)] = 0
        positions = np.flatnonzero(self._sids[at] == wanted)
        return self._refs_by_sid[at[positions]], positions

    def overlaps(self, start: int, end: int) -> bool:
        """Tell whether the block may have samples in [start, end]."""
        return start <= self.meta.max_time and end >= self.meta.min_time

    def pieces(
        self, wanted: Int32Array, start: int, end: int, limit: int = NO_LIMIT, *, passing: bool = True
    ) -> Iterator[Piece]:
        """Yield the samples of the wanted series (ascending ids) in [start, end] file by file; stops after `limit` of them.

        `passing`: this use says nothing about which samples queries need. Raises CorruptBlock, ReadFailed.
        """
        refs, positions = self.refs(wanted)
        start, end = max(start, self.meta.min_time), min(end, self.meta.max_time)
        for file in self.meta.files:
            mine = np.flatnonzero((refs >= file.first) & (refs <= file.last))
            if len(mine) and limit >= 0:
                offsets = None if passing else self._offsets(file)
                piece = self._read(file, offsets, Wanted(refs[mine], positions[mine], start, end))
                if self.tombstones.spans:
                    piece = self.tombstones.thin_out(refs[mine], piece)
                limit -= len(piece)
                yield piece

    def _read(self, file: SampleFile, offsets: Int64Array | None, wanted: Wanted) -> Piece:
        try:
            return self._files.read(self.path, file, offsets, wanted)
        except ReadFailed:
            check_file(self.path, self.meta, file.name)  # damage can look like a lack of memory
            raise

    def _offsets(self, file: SampleFile) -> Int64Array:
        """Return where the rows of each reference of a file begin, and where the last ends."""
        rows = self._rows_before[file.first : file.last + 2]
        offsets: Int64Array = rows - rows[0]
        return offsets

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
        """Compare size and checksum of every file. Raises CorruptBlock, ReadFailed."""
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
            self._files.hot.forget(self.meta.id)
            shutil.rmtree(self.path, ignore_errors=True)

    def drop(self) -> None:
        """Delete the block's directory as soon as nobody reads it."""
        with self._lock:
            self._doomed = True
            idle = self._readers == 0
        if idle:
            self._files.hot.forget(self.meta.id)
            shutil.rmtree(self.path, ignore_errors=True)


def load_block(path: Path, parquet: Parquet) -> tuple[Meta, SeriesRows]:
    """Read what describes a block and check that its files are whole in size. Raises CorruptBlock, ReadFailed."""
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
    except OSError as error:
        raise unreadable(path.name, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptBlock(f"{path.name}: {error}") from error
    check_file(path, meta, SERIES)
    columns = parquet.read(path / SERIES, ("labels", "samples", "first", "last"))
    return meta, SeriesRows(
        [bytes(key) for key in columns["labels"]], columns["samples"], columns["first"], columns["last"]
    )


def check_file(path: Path, meta: Meta, name: str) -> None:
    """Compare a file's checksum with the block's. Raises CorruptBlock, ReadFailed."""
    size, expected = meta.sums[name]
    try:
        found = file_sum(path / name)
    except OSError as error:
        raise unreadable(f"{path.name}/{name}", error) from error
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
    except OSError as error:
        raise unreadable(f"{path.name}/{TOMBSTONES}", error) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptBlock(f"{path.name}/{TOMBSTONES}: {error}") from error
