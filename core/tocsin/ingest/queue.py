"""A queue of series: written by requests, read by each backend at its own pace.

A queue is a log with one cursor per reader, so that a chunk is held once, however many backends wait for it, and a backend that
hangs holds up nobody. Its *depth*, which admission and the limit look at, is what the reader that is furthest ahead has yet to
take: while any backend keeps up, requests are accepted. A reader that lags by more than the limit loses its oldest chunks,
which are counted as that backend's loss; when all backends stand still, the depth grows and the senders are told.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tocsin.ingest.board import Board
from tocsin.ingest.interface import Chunk
from tocsin.ingest.wire import wire
from tocsin.plugin import Batch


class QueueClosedError(Exception):
    """The queue takes nothing more."""


@dataclass
class Reader:
    """A backend's place in a queue."""

    skipped: Callable[[int], None]
    """Called with the entries that the reader lost because it lags too far."""
    cursor: int = 0
    """Number of the next chunk."""
    taken: int = 0
    """Entries taken or skipped since the beginning."""


class Queue:
    """One queue of one worker; its limit holds for the queues of all workers with the same number."""

    def __init__(
        self,
        number: int,
        limit: int,
        lag_limit: int,
        batch: int,
        board: Board,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make an empty queue.

        :param number: its column on the board.
        :param limit: entries that the queues of this number hold over all workers.
        :param lag_limit: entries that a reader may lag behind in this worker.
        :param batch: entries that a reader takes at once.
        """
        self.number, self._limit, self._lag_limit, self._batch = number, limit, lag_limit, batch
        self._board, self._clock = board, clock
        self._chunks: deque[tuple[Chunk, float]] = deque()
        self._first = 0
        self._pushed = 0
        self._readers: list[Reader] = []
        self._closed = False
        self._last_push = clock()
        self._changed = threading.Condition()

    def reader(self, skipped: Callable[[int], None]) -> Reader:
        """Add a reader that sees what is pushed from now on."""
        with self._changed:
            reader = Reader(skipped, self._first + len(self._chunks), self._pushed)
            self._readers.append(reader)
            return reader

    @property
    def depth(self) -> int:
        """Entries that the reader furthest ahead has yet to take."""
        return self._pushed - max((reader.taken for reader in self._readers), default=self._pushed)

    def lag(self, reader: Reader) -> int:
        """Return the entries that a reader has yet to take."""
        return self._pushed - reader.taken

    def push(self, chunks: Iterable[Chunk]) -> Chunk | None:
        """Append chunks as far as there is room; return what did not fit, or None; raise `QueueClosedError`."""
        refused: list[Chunk] = []
        with self._changed:
            if self._closed:
                raise QueueClosedError
            self._last_push = self._clock()
            others = self._board.sum(self.number) - self.depth
            waiting = any(self.lag(reader) == 0 for reader in self._readers)
            for chunk in chunks:
                fitting, rest = _split(chunk, self._limit - others - self.depth)
                if fitting is not None:
                    self._chunks.append((fitting, self._last_push))
                    self._pushed += fitting.series
                if rest is not None:
                    refused.append(rest)
            lost = self._leave_behind()
            self._board.put(self.number, self.depth)
            # PERF: readers that wait for a batch to fill are left asleep until it is full.
            if waiting or any(self.lag(reader) >= self._batch for reader in self._readers):
                self._changed.notify_all()
        for reader, entries in lost:
            reader.skipped(entries)
        if not refused:
            return None
        series, samples = sum(c.series for c in refused), sum(c.samples for c in refused)
        return Chunk(b"".join(chunk.data for chunk in refused), series, samples)

    def pull(self, reader: Reader, linger: float = 0.0) -> Batch | None:
        """Wait for entries and take up to a batch of them; None when the queue is closed and the reader has all.

        :param linger: seconds that the first entry may wait for the batch to fill.
        """
        with self._changed:
            while self.lag(reader) < self._batch and not self._closed:
                wait = None
                if self.lag(reader):
                    wait = self._chunks[reader.cursor - self._first][1] + linger - self._clock()
                    if wait <= 0:
                        break
                self._changed.wait(wait)
            parts: list[Chunk] = []
            series = 0
            while reader.cursor < self._first + len(self._chunks):
                chunk = self._chunks[reader.cursor - self._first][0]
                if parts and series + chunk.series > self._batch:
                    break
                parts.append(chunk)
                series += chunk.series
                reader.cursor += 1
            reader.taken += series
            self._forget()
            self._board.put(self.number, self.depth)
        if not parts:
            return None
        return Batch(b"".join(part.data for part in parts), series, sum(part.samples for part in parts))

    def close(self) -> None:
        """Let readers take what is there without lingering, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close_if_idle(self, since: float) -> bool:
        """Close when nothing came after a time of the clock and every reader has all; return whether it is closed."""
        with self._changed:
            if self._last_push <= since and not any(self.lag(reader) for reader in self._readers):
                self.close()
            return self._closed

    def _leave_behind(self) -> list[tuple[Reader, int]]:
        """Move readers that lag too far, except the one furthest ahead; return what each lost."""
        ahead = max((reader.taken for reader in self._readers), default=0)
        lost = []
        for reader in self._readers:
            before = reader.taken
            while reader.taken < ahead and self.lag(reader) > self._lag_limit:
                reader.taken += self._chunks[reader.cursor - self._first][0].series
                reader.cursor += 1
            if reader.taken > before:
                lost.append((reader, reader.taken - before))
        self._forget()
        return lost

    def _forget(self) -> None:
        """Drop chunks that every reader has taken."""
        needed = min((reader.cursor for reader in self._readers), default=self._first + len(self._chunks))
        while self._first < needed:
            self._chunks.popleft()
            self._first += 1


def _split(chunk: Chunk, room: int) -> tuple[Chunk | None, Chunk | None]:
    """Cut a chunk into what fits and what does not."""
    if chunk.series <= room:
        return chunk, None
    if room <= 0:
        return None, chunk
    behind, samples = wire.skip(chunk.data, 0, room)
    head = Chunk(chunk.data[:behind], room, samples)
    return head, Chunk(chunk.data[behind:], chunk.series - room, chunk.samples - samples)
