"""Writing a block from anything that holds samples: a memtable that is full, or blocks that become one."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tocsin_tsdb.storage import codec
from tocsin_tsdb.storage.block import META, SERIES, FileReader, Meta, SampleFile, SeriesRows, dump_meta, file_sum
from tocsin_tsdb.storage.hot import HotFile
from tocsin_tsdb.storage.memtable import add_weights
from tocsin_tsdb.storage.pieces import Merged, Piece, expand, merge
from tocsin_tsdb.storage.wal import sync_directory
from tocsin_tsdb.storage.wire import Int32Array, Int64Array

ROWS_PER_FILE = 1 << 19
UNFINISHED = ".unfinished"


class Source(Protocol):
    """Where samples come from; `Memtable` and `Block` are sources."""

    def pieces(self, wanted: Int32Array, start: int, end: int) -> Iterator[Piece]:
        """Yield the samples of the wanted series (ascending ids) in [start, end]."""
        ...

    def weights(self) -> tuple[Int32Array, Int64Array]:
        """Return the ascending ids of the series and about how many samples each has."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What a new block is to hold: the samples of `sources` in [start, end) ms.

    `level`: number of merges behind it; `sequence`: see `Meta`; `replaces`: ids of the blocks it stands for;
    `hot`: keep its samples in memory.
    """

    sources: Sequence[Source]
    start: int
    end: int
    level: int
    sequence: int
    replaces: Sequence[str]
    hot: bool = True


@dataclass(frozen=True, slots=True)
class Built:
    """A new block on disk, with what is needed to open it without reading it back."""

    path: Path
    meta: Meta
    sids: Int32Array
    rows: SeriesRows
    dropped: int


class BlockBuilder:
    """Writes blocks into a directory; a block appears there by one rename when all its files are on disk."""

    def __init__(
        self, directory: Path, files: FileReader, key_of: Callable[[int], bytes], rows_per_file: int = ROWS_PER_FILE
    ) -> None:
        self._directory = directory
        self._files = files
        self._key_of = key_of
        self._rows_per_file = rows_per_file

    def build(self, plan: Plan) -> Built | None:
        """Write a block; None when there is no sample in the span. Raises OSError, StoreError; nothing is left behind then."""
        name = uuid.uuid4().hex
        path = self._directory / (name + UNFINISHED)
        path.mkdir()
        try:
            return self._fill(name, path, plan)
        except BaseException:
            self._files.hot.forget(name)
            raise
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _fill(self, name: str, path: Path, plan: Plan) -> Built | None:
        weights = [source.weights() for source in plan.sources]
        sids, counts = add_weights([sids for sids, _ in weights], [counts for _, counts in weights])
        keys = [self._key_of(sid) for sid in sids.tolist()]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
        files: list[SampleFile] = []
        parts: list[_Part] = []
        for first, last in _ranges(counts[order], self._rows_per_file):
            part = self._samples(plan, sids[order[first : last + 1]])
            if len(part.sids):
                file = self._write_samples(path, part, len(files), sum(len(done.sids) for done in parts))
                if plan.hot:
                    hot = HotFile(file.first, part.offsets, part.times, part.values)
                    self._files.hot.put((name, file.name), hot)
                part.forget_samples()
                files.append(file)
                parts.append(part)
        if not parts:
            return None
        kept = np.concatenate([part.sids for part in parts])
        rows = SeriesRows(
            [self._key_of(sid) for sid in kept.tolist()],
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.first for part in parts]),
            np.concatenate([part.last for part in parts]),
        )
        meta = self._finish(name, path, plan, rows, files)
        return Built(self._directory / name, meta, kept, rows, sum(part.dropped for part in parts))

    def _samples(self, plan: Plan, sids: Int32Array) -> _Part:
        """Collect the samples of some series, in the order given; series without any are left out."""
        order = np.argsort(sids)
        wanted = sids[order]
        pieces = [piece for source in plan.sources for piece in source.pieces(wanted, plan.start, plan.end - 1)]
        merged = merge(pieces, len(wanted))
        place = np.argsort(order)
        counts = np.diff(merged.offsets)[place]
        rows = expand(merged.offsets[:-1][place], counts)
        kept = counts > 0
        return _Part(sids[kept], counts[kept], merged, rows)

    def _write_samples(self, path: Path, part: _Part, number: int, first_ref: int) -> SampleFile:
        refs = np.arange(first_ref, first_ref + len(part.sids), dtype=np.int64)
        columns = codec.encode(refs, part.offsets, part.times, part.values)
        name = f"samples-{number:05d}.parquet"
        self._files.parquet.write(path / name, columns, codec.ROW_GROUP)
        return SampleFile(name, first_ref, first_ref + len(part.sids) - 1)

    def _finish(self, name: str, path: Path, plan: Plan, rows: SeriesRows, files: list[SampleFile]) -> Meta:
        labels = np.empty(len(rows.keys), object)
        labels[:] = rows.keys
        columns = {"labels": labels, "samples": rows.samples, "first": rows.first, "last": rows.last}
        self._files.parquet.write(path / SERIES, columns)
        names = [SERIES, *(file.name for file in files)]
        meta = Meta(
            id=name,
            start=plan.start,
            end=plan.end,
            min_time=int(rows.first.min()),
            max_time=int(rows.last.max()),
            series=len(rows.keys),
            samples=int(rows.samples.sum()),
            level=plan.level,
            sequence=plan.sequence,
            sources=list(plan.replaces),
            files=files,
            sums={file: file_sum(path / file) for file in names},
        )
        (path / META).write_bytes(dump_meta(meta))
        for file in [*names, META]:
            _sync_file(path / file)
        sync_directory(path)
        path.rename(self._directory / name)
        sync_directory(self._directory)
        return meta


class _Part:
    """The samples of the series of one file, in reference order."""

    def __init__(self, sids: Int32Array, counts: Int64Array, merged: Merged, rows: Int64Array) -> None:
        self.sids = sids
        self.counts = counts
        self.offsets = np.concatenate(([0], np.cumsum(counts)))
        self.times = merged.times[rows]
        self.values = merged.values[rows]
        self.dropped = merged.dropped
        self.first = self.times[self.offsets[:-1]]
        self.last = self.times[self.offsets[1:] - 1]

    def forget_samples(self) -> None:
        """Free the samples: they are on disk."""
        self.times, self.values = np.empty(0, np.int64), np.empty(0)


def _ranges(samples: Int64Array, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges [first, last] of series that hold about `rows` samples each."""
    total = np.cumsum(samples)
    first = 0
    while first < len(total):
        before = int(total[first - 1]) if first else 0
        last = max(first, int(np.searchsorted(total, before + rows, side="right")) - 1)
        yield first, last
        first = last + 1


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
