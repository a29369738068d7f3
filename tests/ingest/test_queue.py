"""Queues: one log, a cursor for each backend, limits over all workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from tocsin.ingest.board import ROWS, Board
from tocsin.ingest.decode import decode_chunk
from tocsin.ingest.interface import Chunk
from tocsin.ingest.queue import Queue
from tocsin.ingest.wire import wire
from tocsin.plugin import Batch
from tocsin.plugin.testkit.components import PATIENCE


def chunk(*names):
    """Return a chunk with one series per name."""
    data = b"".join(wire.encode_series(wire.encode_labels([(b"n", name.encode())]), [1], [1.0]) for name in names)
    return Chunk(data, len(names), len(names))


def names(batch):
    return [series.labels[0][1] for series in decode_chunk(batch.body)]


@pytest.fixture
def board():
    board = Board(3)
    board.claim()
    return board


@pytest.fixture
def make_queue(board):
    def make(limit=100, lag_limit=100, batch=10, clock=lambda: 0.0):
        return Queue(1, limit, lag_limit, batch, board, clock)

    return make


def test_fifo_in_batches(make_queue, board):
    queue = make_queue(batch=3)
    reader = queue.reader(lambda lost: None)
    assert queue.push([chunk("a", "b"), chunk("c"), chunk("d", "e")]) is None
    assert (queue.depth, board.sum(1)) == (5, 5)
    assert names(queue.pull(reader)) == ["a", "b", "c"]
    assert names(queue.pull(reader)) == ["d", "e"]
    assert (queue.depth, board.sum(1)) == (0, 0)


def test_what_does_not_fit_is_returned(make_queue):
    queue = make_queue(limit=3)
    reader = queue.reader(lambda lost: None)
    refused = queue.push([chunk("a", "b"), chunk("c", "d"), chunk("e")])
    assert (refused.series, refused.samples, names_of(refused)) == (2, 2, ["d", "e"])
    assert names(queue.pull(reader)) == ["a", "b", "c"]
    assert queue.push([chunk("f")]) is None


def names_of(refused):
    return names(Batch(*refused))


def test_limit_holds_over_all_workers(make_queue, board):
    queue = make_queue(limit=5)
    queue.reader(lambda lost: None)
    other = os.fork()
    if other == 0:  # another worker has three entries in its queue of the same number
        board.claim()
        board.put(1, 3)
        while True:
            signal.pause()
    try:
        wait_for(lambda: board.sum(1) == 3)
        assert queue.push([chunk("a", "b", "c")]).series == 1
        assert board.sum(1) == 5
    finally:
        os.kill(other, 9)
        os.waitpid(other, 0)


def wait_for(check):
    deadline = time.monotonic() + 10
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_dead_worker_gives_its_row_back(board):
    child = os.fork()
    if child == 0:
        board.claim()
        board.put(0, 7)
        os._exit(0)
    os.waitpid(child, 0)
    assert board.sum(0) == 7
    child = os.fork()
    if child == 0:  # the worker that replaces it
        board.claim()
        os._exit(0 if board.slot == 1 and board.sum(0) == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_board_rows_are_reused_by_one_process(board):
    for _ in range(ROWS + 1):
        board.claim()
        assert board.slot == 0
    board.add(2, 5)
    board.release()
    assert board.sum(2) == 0


def test_a_slow_reader_delays_nobody(make_queue):
    queue = make_queue(limit=4, lag_limit=100, batch=2)
    fast, slow = queue.reader(lambda lost: None), queue.reader(lambda lost: None)
    for n in range(10):
        assert queue.push([chunk(f"{n}a", f"{n}b")]) is None
        assert names(queue.pull(fast)) == [f"{n}a", f"{n}b"]
    assert (queue.depth, queue.lag(slow)) == (0, 20)
    assert names(queue.pull(slow)) == ["0a", "0b"]


def test_a_reader_that_lags_too_far_loses_its_oldest(make_queue):
    lost: list[Any] = []
    queue = make_queue(limit=100, lag_limit=4, batch=2)
    fast, slow = queue.reader(lambda entries: lost.append(("fast", entries))), queue.reader(lost.append)
    for n in range(4):
        queue.push([chunk(f"{n}a", f"{n}b")])
        queue.pull(fast)
    assert sum(lost) == 4
    assert names(queue.pull(slow)) == ["2a", "2b"]


def test_the_furthest_reader_is_never_skipped(make_queue):
    lost: list[int] = []
    queue = make_queue(limit=100, lag_limit=2, batch=100)
    readers = [queue.reader(lost.append) for _ in range(2)]
    queue.push([chunk(*"abcdef")])
    assert not lost
    assert [len(names(queue.pull(reader))) for reader in readers] == [6, 6]


def test_linger_waits_for_a_batch_to_fill(make_queue):
    now = [0.0]
    queue = make_queue(batch=3, clock=lambda: now[0])
    reader = queue.reader(lambda lost: None)
    queue.push([chunk("a")])
    got = []
    thread = threading.Thread(target=lambda: got.append(queue.pull(reader, linger=1000.0)))
    thread.start()
    queue.push([chunk("b")])
    assert thread.is_alive()
    queue.push([chunk("c")])
    thread.join(PATIENCE)
    assert names(got[0]) == ["a", "b", "c"]
    queue.push([chunk("d")])
    now[0] = 1000.0
    assert names(queue.pull(reader, linger=1000.0)) == ["d"]


def test_close_lets_readers_finish(make_queue):
    queue = make_queue(batch=2)
    reader = queue.reader(lambda lost: None)
    queue.push([chunk("a", "b"), chunk("c")])
    queue.close()
    assert names(queue.pull(reader, linger=1000.0)) == ["a", "b"]
    assert names(queue.pull(reader, linger=1000.0)) == ["c"]
    assert queue.pull(reader) is None


def test_without_readers_nothing_is_kept(make_queue):
    queue = make_queue()
    assert queue.push([chunk("a")]) is None
    assert queue.depth == 0


def test_threads_lose_nothing(make_queue):
    """Four writers, two readers: every reader sees every entry once."""
    queue = make_queue(limit=10**6, lag_limit=10**6, batch=7)
    readers = [queue.reader(lambda lost: None) for _ in range(2)]
    seen: list[list[str]] = [[] for _ in readers]

    def read(index):
        while (batch := queue.pull(readers[index])) is not None:
            seen[index] += names(batch)

    def write(prefix):
        for n in range(200):
            queue.push([chunk(f"{prefix}{n}", f"{prefix}{n}x")])

    consumers = [threading.Thread(target=read, args=(index,)) for index in range(2)]
    producers = [threading.Thread(target=write, args=(prefix,)) for prefix in "abcd"]
    for thread in [*consumers, *producers]:
        thread.start()
    for thread in producers:
        thread.join()
    queue.close()
    for thread in consumers:
        thread.join()
    assert [len(set(one)) for one in seen] == [1600, 1600]
    assert [len(one) for one in seen] == [1600, 1600]
