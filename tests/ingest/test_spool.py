"""The spool: ordered, bounded, and whole after a kill."""

from __future__ import annotations

import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from tocsin.ingest import spool as module
from tocsin.ingest.spool import Spool
from tocsin.plugin import Batch


def batch(text, series=1):
    return Batch(text.encode(), series, series)


class Lost(list):
    def __call__(self, series, how):
        self.append((series, how))


@pytest.fixture
def lost():
    return Lost()


@pytest.fixture
def opened():
    spools: list[Spool] = []
    yield spools
    for spool in spools:
        spool.close()


@pytest.fixture
def make_spool(tmp_path, lost, opened):
    def make(limit=10**6, clock=lambda: 100.0):
        opened.append(Spool(tmp_path, "http://a", limit, lost, clock))
        return opened[-1]

    return make


def drain(spool):
    found = []
    while (head := spool.head()) is not None:
        found.append(head.batch.body.decode())
        spool.done(head)
    return found


def test_what_another_run_left_is_counted_once(tmp_path, lost, opened):
    def start(run):
        found: list[int] = []
        opened.append(Spool(tmp_path, "http://a", 10**6, lost, run=run, found=found.append))
        return opened[-1], found

    first, found = start("one")
    first.append(batch("a", 3))
    first.append(batch("b", 4))
    first.close()
    second, found_in_same = start("one")
    assert sum(found + found_in_same) == 0  # its counters are still there
    second.append(batch("c", 5))
    second.done(second.head())
    second.close()
    third, found = start("two")
    assert sum(found) == 9
    third.close()
    fourth, found = start("two")
    assert sum(found) == 0
    assert fourth.stored().series == 9
    opened.clear()
    fourth.close()


def test_what_was_taken_over_is_counted_though_the_rest_cannot_be_read(tmp_path, lost, opened, monkeypatch):
    for text, series in (("a", 3), ("b", 4)):
        opened.append(Spool(tmp_path, "http://a", 10**6, lost, run=text))
        opened[-1].append(batch(text, series))
    first, second = (spool._home for spool in opened)
    os.rename(next(second.glob("*.seg")), first / "99999999999999999999.seg")
    for spool in opened:
        spool.close()
    opened.clear()
    scan = module._scan
    found: list[int] = []

    def unreadable(path):
        if path.name.startswith("9"):
            raise OSError("input/output error")
        return scan(path)

    monkeypatch.setattr(module, "_scan", unreadable)
    with pytest.raises(OSError, match="input/output"):
        Spool(tmp_path, "http://a", 10**6, lost, run="two", found=found.append)
    assert found == [3]


def test_damage_that_another_run_left_is_found_and_lost(tmp_path, lost, opened):
    first = Spool(tmp_path, "http://a", 10**6, lost, run="one")
    first.append(batch("a", 3))
    first.append(batch("b", 4))
    first.close()
    [segment] = tmp_path.glob("*/*/*.seg")
    segment.write_bytes(segment.read_bytes()[:-1])
    found: list[int] = []
    opened.append(Spool(tmp_path, "http://a", 10**6, lost, run="two", found=found.append))
    assert (found, lost) == ([7], [(4, "torn")])


def test_order_and_state(make_spool):
    now = [100.0]
    spool = make_spool(clock=lambda: now[0])
    assert spool.empty
    for n in range(3):
        spool.append(batch(f"b{n}", n + 1))
        now[0] += 10
    stored = spool.stored()
    assert (stored.series, stored.oldest, spool.empty) == (6, 100.0, False)
    assert drain(spool) == ["b0", "b1", "b2"]
    assert spool.empty
    assert (spool.stored().series, spool.stored().bytes, spool.stored().oldest) == (0, 0, 0.0)
    spool.append(batch("again"))
    assert drain(spool) == ["again"]


def test_head_stays_until_done(make_spool):
    spool = make_spool()
    spool.append(batch("a"))
    assert spool.head().batch == spool.head().batch == batch("a")


def test_survives_its_owner(make_spool, opened):
    first = make_spool()
    for name in "abc":
        first.append(batch(name))
    first.done(first.head())
    opened.remove(first)
    first.close()
    assert drain(make_spool()) == ["b", "c"]


def test_living_owners_are_left_alone(make_spool):
    first = make_spool()
    first.append(batch("mine"))
    assert make_spool().empty
    assert drain(first) == ["mine"]


def test_those_who_live_on_take_over_what_is_left(make_spool, opened, lost):
    """In the order of time, and without mixing it up with what they write themselves."""
    old, living = make_spool(), make_spool()
    old.append(batch("1", 1))
    living.append(batch("2", 2))
    old._stop_writing()
    old.append(batch("3", 3))
    living.append(batch("2b", 2))
    living.adopt()
    assert living.stored().series == 4
    opened.remove(old)
    old.close()
    head = living.head()
    living.adopt()
    living.append(batch("4", 4))
    assert living.stored().series == 12
    living.done(head)
    assert drain(living) == ["1", "2b", "3", "4"]
    assert not lost


def test_killed_owner(tmp_path, make_spool, lost):
    """A process is killed in the middle of its work: what it stored is there, what it handed over is not repeated."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        spool = Spool(tmp_path, "http://a", 10**6, lambda series, how: None)
        for n in range(10):
            spool.append(batch(str(n)))
        for _ in range(3):
            head = spool.head()
            assert head is not None
            spool.done(head)
        os.write(write, b"x")
        while True:
            signal.pause()
    os.read(read, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    os.close(write)
    assert drain(make_spool()) == [str(n) for n in range(3, 10)]
    assert not lost


def test_torn_record_ends_its_segment(make_spool, opened, tmp_path, lost):
    first = make_spool()
    first.append(batch("whole"))
    first.append(batch("torn", 5))
    [segment] = tmp_path.rglob("*.seg")
    opened.remove(first)
    first.close()
    os.truncate(segment, segment.stat().st_size - 1)
    assert drain(make_spool()) == ["whole"]
    assert lost == [(5, "torn")]


def test_damaged_record_is_counted(make_spool, tmp_path, lost):
    spool = make_spool()
    spool.append(batch("aaaa", 2))
    spool.append(batch("bbbb", 3))
    [segment] = tmp_path.rglob("*.seg")
    with segment.open("r+b") as file:
        file.seek(-6, os.SEEK_END)
        file.write(b"X")
    assert drain(spool) == ["aaaa"]
    assert lost == [(3, "torn")]


def test_bounded_by_giving_up_the_oldest(make_spool, lost, monkeypatch):
    monkeypatch.setattr(module, "SEGMENT_BYTES", 100)
    spool = make_spool(limit=1000)
    for n in range(50):
        spool.append(batch(f"{n:080d}"))
    assert spool.stored().bytes <= 1000
    assert sum(series for series, how in lost) + spool.stored().series == 50
    assert {how for _, how in lost} == {"full"}
    assert [int(text) for text in drain(spool)] == list(range(50 - spool_size(lost), 50))


def spool_size(lost):
    return 50 - sum(series for series, _ in lost)


def test_batch_under_way_is_not_given_up(make_spool, lost, monkeypatch):
    monkeypatch.setattr(module, "SEGMENT_BYTES", 50)
    spool = make_spool(limit=300)
    spool.append(batch("first" + "x" * 80))
    head = spool.head()
    for n in range(10):
        spool.append(batch(f"{n:080d}"))
    spool.done(head)
    assert spool.head().batch.body != head.batch.body
    assert sum(series for series, _ in lost) + spool.stored().series == 10


def test_batch_that_was_not_taken_is_given_up_first(make_spool, lost, monkeypatch):
    monkeypatch.setattr(module, "SEGMENT_BYTES", 50)
    spool = make_spool(limit=300)
    spool.append(batch("first" + "x" * 80))
    spool.keep(spool.head())
    for n in range(10):
        spool.append(batch(f"{n:080d}"))
    kept = [int(text) for text in drain(spool)]
    assert kept == list(range(10 - len(kept), 10))
    assert lost == [(1, "full")] * (11 - len(kept))


def test_a_disk_that_cannot_be_read_loses_nothing(make_spool, lost):
    spool = make_spool()
    spool.append(batch("a"))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))  # no file can be opened
    try:
        with pytest.raises(OSError, match="Too many open files"):
            spool.head()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert drain(spool) == ["a"]
    assert not lost


def test_segments_that_were_deleted_are_counted(make_spool, lost, tmp_path):
    spool = make_spool()
    spool.append(batch("a", 7))
    for segment in tmp_path.rglob("*.seg"):
        segment.unlink()
    assert drain(spool) == []
    assert lost == [(7, "torn")]


def test_workers_that_start_at_once_do_not_meet(make_spool, opened):
    """One takes over what was left, the others wait until it has: none finds a directory half gone."""
    first = make_spool()
    first.append(batch("left behind"))
    opened.remove(first)
    first.close()
    with ThreadPoolExecutor() as pool:
        with module._alone(first._home.parent):
            starts = [pool.submit(make_spool) for _ in range(3)]
            done, _ = wait(starts, timeout=0.2)
            assert not done
        spools = [start.result() for start in starts]
    assert sorted(spool.stored().series for spool in spools) == [0, 0, 1]


def test_full_disk_keeps_what_was_there(make_spool):
    spool = make_spool()
    spool.append(batch("a"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            spool.append(batch("b" * 100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    spool.append(batch("c"))
    assert drain(spool) == ["a", "c"]


def test_many_segments_in_order(make_spool, opened, monkeypatch):
    monkeypatch.setattr(module, "SEGMENT_BYTES", 64)
    first = make_spool()
    for n in range(20):
        first.append(batch(f"{n:040d}"))
    opened.remove(first)
    first.close()
    assert [int(text) for text in drain(make_spool())] == list(range(20))
