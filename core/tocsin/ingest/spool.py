"""Batches that a backend could not take, kept on disk in order until it can.

A spool is a directory of segment files. A record is a header (state, checksum, length, entries, samples, time) and the batch;
records are only appended, and read from the front. What was handed over is noted in the record's state, so a process that is
killed repeats at most the batch it was sending. A record that a crash cut short ends its segment.

Each worker has a spool of its own per backend, locked while it lives. Whoever starts, and the others from time to time, takes
over the segments of spools whose owners are gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tocsin.plugin import Batch

SEGMENT_BYTES = 16 << 20
_HEADER = struct.Struct("<BIIIIQ")
_FIELDS = struct.Struct("<IIIQ")
_WAITING, _DONE = 0, 1


@dataclass
class Segment:
    """A file of records: what is yet to be read of it."""

    path: Path
    offset: int = 0
    size: int = 0
    series: int = 0
    oldest_ms: int = 0


@dataclass(frozen=True)
class Head:
    """The oldest batch, on loan to whoever tries to write it."""

    batch: Batch
    segment: Segment


@dataclass(frozen=True)
class Stored:
    """The state of a spool: entries, bytes, and Unix time of the oldest batch (0 when empty)."""

    series: int
    bytes: int
    oldest: float


class Spool:
    """The spool of one backend in one worker; safe for use by several threads."""

    def __init__(
        self,
        directory: Path,
        url: str,
        limit: int,
        lost: Callable[[int, str], None],
        clock: Callable[[], float] = time.time,
        *,
        found: Callable[[int], None] = lambda series: None,
        run: str = "",
    ) -> None:
        """Open a spool below `directory` and take over what others left.

        :param limit: bytes it may hold; beyond, its oldest segments go.
        :param lost: called with the entries that were given up, and `full` or `torn`.
        :param found: called with the entries that were left by processes of another run.
        :param run: what the processes have in common whose counters are added up.
        :raises OSError: the directory cannot be used.
        """
        self._limit, self._lost, self._clock, self._found = limit, lost, clock, found
        self._run = hashlib.sha256(run.encode()).hexdigest()[:8]
        self._lock = threading.Lock()
        self._segments: deque[Segment] = deque()
        self._lent: Segment | None = None
        self._writing: int | None = None
        self._root = directory / hashlib.sha256(url.encode()).hexdigest()[:16]
        self._root.mkdir(parents=True, exist_ok=True)
        with _alone(self._root):
            self._home, self._guard = _own_directory(self._root, self._run)
        self.adopt()

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._segments

    def stored(self) -> Stored:
        """Return what is there."""
        with self._lock:
            series, size = sum(s.series for s in self._segments), self._bytes()
            return Stored(series, size, self._segments[0].oldest_ms / 1000 if self._segments else 0.0)

    def append(self, batch: Batch) -> None:
        """Store a batch behind all others.

        :raises OSError: the disk does not take it; nothing of it is kept.
        """
        now_ms = int(self._clock() * 1000)
        record = _encode(batch, now_ms)
        with self._lock:
            segment = self._segment(now_ms)
            assert self._writing is not None
            try:
                _write_all(self._writing, record)
            except OSError:
                os.ftruncate(self._writing, segment.size)
                os.lseek(self._writing, segment.size, os.SEEK_SET)
                if segment.size == 0:
                    self._drop(segment)
                raise
            segment.size += len(record)
            segment.series += batch.series
            self._trim()

    def head(self) -> Head | None:
        """Return the oldest batch, or None when there is none; it stays until `done`, and is safe until then or `keep`.

        :raises OSError: the disk does not give it back.
        """
        with self._lock:
            while self._segments:
                segment = self._segments[0]
                batch = _read(segment)
                if batch is not None:
                    self._lent = segment
                    return Head(batch, segment)
                self._drop(segment)
                self._lost(segment.series, "torn")
        return None

    def keep(self, head: Head) -> None:
        """Take the oldest batch back: nobody took it, so it may be given up like the others."""
        with self._lock:
            if self._lent is head.segment:
                self._lent = None

    def done(self, head: Head) -> None:
        """Forget the oldest batch."""
        segment = head.segment
        with self._lock:
            self._lent = None
            _mark_done(segment)
            segment.offset += _HEADER.size + len(head.batch.body)
            segment.series -= head.batch.series
            if segment.offset >= segment.size:
                self._drop(segment)

    def adopt(self) -> None:
        """Take over the segments of spools without an owner, in the order in which they were begun.

        :raises OSError: the disk cannot be used.
        """
        taken: list[Segment] = []
        try:
            with _alone(self._root):
                for home in sorted(path for path in self._root.iterdir() if path.is_dir() and path != self._home):
                    self._inherit(home, taken)
        finally:
            if taken:
                with self._lock:
                    self._stop_writing()  # the segment that is written to has to be the last one
                    self._segments = deque(sorted([*self._segments, *taken], key=lambda segment: segment.path.name))

    def close(self) -> None:
        """Leave everything on disk for the next owner."""
        with self._lock:
            self._stop_writing()
            os.close(self._guard)

    def _bytes(self) -> int:
        return sum(segment.size - segment.offset for segment in self._segments)

    def _segment(self, now_ms: int) -> Segment:
        """Return the segment to append to."""
        if self._writing is not None and self._segments and self._segments[-1].size < self._segment_limit():
            return self._segments[-1]
        self._stop_writing()
        segment = Segment(self._home / f"{time.time_ns():020d}.seg", oldest_ms=now_ms)
        self._writing = os.open(segment.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._segments.append(segment)
        return segment

    def _segment_limit(self) -> int:
        return min(SEGMENT_BYTES, self._limit // 4)

    def _stop_writing(self) -> None:
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def _drop(self, segment: Segment) -> None:
        """Remove a segment, whatever is left of it."""
        if segment is self._segments[-1]:
            self._stop_writing()
        self._segments.remove(segment)
        segment.path.unlink(missing_ok=True)

    def _trim(self) -> None:
        """Give up the oldest segments beyond the limit, but not the one that is being sent or written."""
        while self._bytes() > self._limit:
            spare = [segment for segment in list(self._segments)[:-1] if segment is not self._lent]
            if not spare:
                return
            self._drop(spare[0])
            self._lost(spare[0].series, "full")

    def _inherit(self, home: Path, taken: list[Segment]) -> None:
        """Empty the directory of a spool without an owner."""
        guard = _lock(home)
        if guard is None:
            return
        try:
            for path in sorted(home.glob("*.seg")):
                series = self._take(path, f"{path.stem[:20]}-{os.urandom(4).hex()}.seg", taken)
                if not home.name.endswith(self._run):
                    self._found(series)  # one by one: what follows may be unreadable, and stays where it is
            (home / "lock").unlink()
            home.rmdir()
        finally:
            os.close(guard)

    def _take(self, path: Path, name: str, taken: list[Segment]) -> int:
        """Make a segment ours, unless nothing in it waits; return the entries in it, damaged ones included."""
        segment, torn = _scan(path)
        if torn:
            self._lost(torn, "torn")
        if segment.size > segment.offset:
            segment.path = path.rename(self._home / name)
            taken.append(segment)
        else:
            path.unlink()
        return segment.series + torn


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Keep other processes from making and adopting directories below `root`: they must not meet one half made or half gone."""
    guard = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
    finally:
        os.close(guard)


def _own_directory(root: Path, run: str) -> tuple[Path, int]:
    """Return a new directory of one's own and the descriptor that keeps it locked."""
    home = root / f"{time.time_ns():020d}-{os.urandom(4).hex()}-{run}"
    home.mkdir(mode=0o700)
    guard = _lock(home)
    assert guard is not None
    return home, guard


def _lock(home: Path) -> int | None:
    """Lock a spool's directory for the life of the descriptor that is returned; None when somebody has it."""
    guard = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(guard)
        return None
    return guard


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _encode(batch: Batch, now_ms: int) -> bytes:
    """Return a batch as record."""
    fields = (len(batch.body), batch.series, batch.samples, now_ms)
    checksum = zlib.crc32(batch.body, zlib.crc32(_FIELDS.pack(*fields)))
    return _HEADER.pack(_WAITING, checksum, *fields) + batch.body


@dataclass(frozen=True)
class _Record:
    batch: Batch
    time_ms: int
    state: int


def _record(file: int, offset: int) -> _Record | None:
    """Return the record at an offset; None when it is not whole."""
    header = os.pread(file, _HEADER.size, offset)
    if len(header) < _HEADER.size:
        return None
    state, checksum, *fields = _HEADER.unpack(header)
    size, series, samples, time_ms = fields
    body = os.pread(file, size, offset + _HEADER.size)
    if len(body) < size or zlib.crc32(body, zlib.crc32(_FIELDS.pack(*fields))) != checksum:
        return None
    return _Record(Batch(body, series, samples), time_ms, state)


def _read(segment: Segment) -> Batch | None:
    """Return the record at the front of a segment, or None when it is damaged or gone."""
    try:
        with segment.path.open("rb") as file:
            record = _record(file.fileno(), segment.offset)
    except FileNotFoundError:
        return None
    if record is None:
        return None
    segment.oldest_ms = record.time_ms
    return record.batch


def _mark_done(segment: Segment) -> None:
    """Note in the file that the record at the front was handed over; without it, it would be repeated after a restart."""
    with contextlib.suppress(OSError), segment.path.open("r+b") as file:
        os.pwrite(file.fileno(), bytes([_DONE]), segment.offset)


def _scan(path: Path) -> tuple[Segment, int]:
    """Return what waits in a file, whole records only, and the entries of a record that is not whole."""
    segment = Segment(path)
    with path.open("rb") as file:
        while (record := _record(file.fileno(), segment.size)) is not None:
            segment.size += _HEADER.size + len(record.batch.body)
            if record.state == _DONE:
                segment.offset = segment.size
                continue
            segment.oldest_ms = segment.oldest_ms or record.time_ms
            segment.series += record.batch.series
        header = os.pread(file.fileno(), _HEADER.size, segment.size)
    return segment, int(_HEADER.unpack(header)[3]) if len(header) == _HEADER.size else 0
