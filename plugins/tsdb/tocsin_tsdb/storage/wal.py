"""The write-ahead log: what makes an acknowledged write survive.

One segment belongs to one memtable and explains itself: the first record that uses a series in a segment comes after a record
with its labels, so that segments are replayed, set aside and deleted independently. A record is
`length u32 | crc32 u32 | kind u8 | payload`, all little-endian; the checksum covers kind and payload.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tocsin_tsdb.storage.errors import CommitFailed
from tocsin_tsdb.storage.wire import Float64Array, Int32Array, Int64Array

MAGIC = b"TOCSINW1"
SERIES, SAMPLES = 1, 2
_HEADER = struct.Struct("<II")
_COUNT = struct.Struct("<I")
MAX_RECORD = 1 << 30


def series_record(sids: list[int], keys: list[bytes]) -> bytes:
    """Pack the labels of series: count, ids, key lengths, keys."""
    lengths = np.array([len(key) for key in keys], np.uint32)
    payload = b"".join([_COUNT.pack(len(sids)), np.array(sids, np.int32).tobytes(), lengths.tobytes(), *keys])
    return _record(SERIES, payload)


def samples_record(sids: Int32Array, times: Int64Array, values: Float64Array) -> bytes:
    """Pack samples column by column: count, ids, times, values."""
    return _record(SAMPLES, b"".join([_COUNT.pack(len(sids)), sids.tobytes(), times.tobytes(), values.tobytes()]))


def _record(kind: int, payload: bytes) -> bytes:
    body = bytes([kind]) + payload
    return _HEADER.pack(len(body), zlib.crc32(body)) + body


class SegmentWriter:
    """An open segment. Not thread-safe: the commit lock guards it."""

    def __init__(self, path: Path) -> None:
        """Create the segment. Raises CommitFailed."""
        self.path = path
        self.size = 0
        self._dirty = False
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            sync_directory(path.parent)
        except OSError as error:
            raise CommitFailed(f"cannot create the log {path.name}: {error.strerror}") from error
        try:
            self.append(MAGIC)
        except CommitFailed:
            self.close()
            path.unlink(missing_ok=True)
            raise

    def append(self, data: bytes) -> None:
        """Write records and force them to disk; on failure the segment is as before. Raises CommitFailed."""
        try:
            if self._dirty:
                self._take_back()
            self._dirty = True
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            os.fdatasync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):  # tried again before the next record
                self._take_back()
            raise CommitFailed(f"cannot write to the log {self.path.name}: {error.strerror}") from error
        self._dirty = False
        self.size += len(data)

    def _take_back(self) -> None:
        os.ftruncate(self._fd, self.size)
        os.lseek(self._fd, self.size, os.SEEK_SET)
        self._dirty = False

    def close(self) -> None:
        """Close the file; the segment stays for replay."""
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Torn:
    """Bytes [offset, end) of a segment that make no sense; `end` None means that nothing after them can be read either."""

    offset: int
    end: int | None
    reason: str


def replay(path: Path) -> Iterator[tuple[list[int], list[bytes]] | tuple[Int32Array, Int64Array, Float64Array] | Torn]:
    """Yield the series and sample records of a segment in order, and a `Torn` for what cannot be read.

    Raises OSError when the file itself cannot be read.
    """
    data = memoryview(path.read_bytes())
    if bytes(data[: len(MAGIC)]) != MAGIC:
        yield Torn(0, None, "not a log segment")
        return
    at = len(MAGIC)
    while at < len(data):
        body = _next_body(data, at)
        if isinstance(body, Torn):
            yield body
            if body.end is None:
                return
            at = body.end
            continue
        at += _HEADER.size + len(body)
        count = _COUNT.unpack_from(body, 1)[0]
        payload = body[1 + _COUNT.size :]
        yield _series(payload, count) if body[0] == SERIES else _samples(payload, count)


def _next_body(data: memoryview, at: int) -> memoryview | Torn:
    if len(data) - at < _HEADER.size:
        return Torn(at, None, "a record header is cut off")
    length, checksum = _HEADER.unpack_from(data, at)
    start = at + _HEADER.size
    if length < 1 + _COUNT.size or length > MAX_RECORD or length > len(data) - start:
        return Torn(at, None, "a record is cut off")
    body = data[start : start + length]
    if zlib.crc32(body) == checksum and body[0] in (SERIES, SAMPLES):
        return body
    end = start + length
    return Torn(at, end if end < len(data) else None, "the checksum of a record does not match")


def _series(payload: memoryview, count: int) -> tuple[list[int], list[bytes]]:
    sids = np.frombuffer(payload, np.int32, count).tolist()
    ends = np.cumsum(np.frombuffer(payload, np.uint32, count, 4 * count), dtype=np.int64).tolist()
    base = 8 * count
    keys = [bytes(payload[base + start : base + end]) for start, end in zip([0, *ends], ends, strict=False)]
    return sids, keys


def _samples(payload: memoryview, count: int) -> tuple[Int32Array, Int64Array, Float64Array]:
    return (
        np.frombuffer(payload, np.int32, count),
        np.frombuffer(payload, np.int64, count, 4 * count),
        np.frombuffer(payload, np.float64, count, 12 * count),
    )


def sync_directory(path: Path) -> None:
    """Make the creation, renaming and removal of a directory's entries durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
