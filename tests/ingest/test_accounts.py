"""Accounting: whatever backends and disks do, each accepted series is found again under one of the counters."""

import errno
import os
import random
import threading

import pytest

from tocsin.ingest import spool
from tocsin.ingest.relabel import RelabelRule
from tocsin.plugin import Decoded, WriteError, WriteResult
from tocsin.plugin.testkit.components import PATIENCE

QUICK = {"retry_interval": 0.001}


class Whims:
    """A backend that answers, refuses, fails, crashes or dawdles as a seeded random generator wants."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()

    def __call__(self, batch):
        with self.lock:
            whim = self.random.choice(["take", "take", "refuse", "fail", "busy", "crash", "dawdle"])
        if whim == "refuse":
            return WriteResult(refused_with=400, detail="no")
        if whim == "fail":
            raise WriteError("HTTP 500", status=500)
        if whim == "busy":
            raise WriteError("HTTP 429", retry_after=0.001, status=429)
        if whim == "crash":
            raise RuntimeError("a bug")
        if whim == "dawdle":
            threading.Event().wait(0.001)
        return None


class Hangs:
    """A backend that takes its first batches and then answers nobody until it is let go."""

    def __init__(self, taken=2):
        self.taken, self.go = taken, threading.Event()

    def __call__(self, batch):
        self.taken -= 1
        if self.taken < 0:
            self.go.wait(PATIENCE)
            raise WriteError("no answer")


@pytest.fixture
def disk(monkeypatch):
    """A disk that is full now and then, when a part of a record has been written."""
    chosen, write_all = random.Random(1), spool._write_all

    def write(descriptor, record):
        if chosen.random() < 0.4:
            os.write(descriptor, record[: len(record) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        write_all(descriptor, record)

    monkeypatch.setattr(spool, "_write_all", write)


def settled(count, url):
    """Return the series of a backend whose fate is known, and those that are on disk."""
    names = ("written_total", "write_rejected_total", "writer_dropped_total", "spool_series")
    return {name: count(name, url=url) for name in names}


def send(gateway, make_series, make_body, seed):
    """Send a hundred requests of some series, a few of them unusable; return how many series they had."""
    chosen, sent = random.Random(seed), 0
    for _ in range(100):
        series = [make_series(n=str(chosen.randrange(40)), m=str(number)) for number in range(chosen.randrange(30))]
        if chosen.random() < 0.1:
            series.append(make_series(pairs=[(b"a", b"1"), (b"a", b"1")]))
        sent += gateway.accept("x", Decoded(make_body(*series)))
    return sent


@pytest.mark.parametrize("seed", range(4))
def test_every_entry_is_accounted_for(make_gateway, make_writer, make_series, make_body, count, tmp_path, disk, seed):
    """For each backend: received = dropped before the queue + written + rejected + lost by reason + on disk."""
    options = {
        "http://critical": {"retry_count": 5, **QUICK},
        "http://async": {"critical": False, **QUICK},
        "http://spooled": {"spool_directory": tmp_path, "spool_max_bytes": 4000, "retry_count": 3, **QUICK},
        "http://relabelled": {"relabel": [RelabelRule(action="drop", source_labels=("n",), regex=".*3")], **QUICK},
    }
    writers = [make_writer(url) for url in options]
    for number, writer in enumerate(writers):
        writer.behave = Whims(seed * 10 + number)
    small = {"queue_number": 3, "queue_max_size": 200, "queue_pop_size": 7, "drop_sample": [{"n": "5"}]}
    gateway = make_gateway(*writers, outlet=options, **small)
    sent = send(gateway, make_series, make_body, seed)
    gateway.stop(0.2)
    assert count("samples_received_total") == sent
    before = sum(count("dropped_total", reason=reason) for reason in ("drop_rule", "duplicate_label", "queue_full"))
    for url in options:
        fates = settled(count, url)
        assert before + sum(fates.values()) == sent, (url, before, fates)
        assert count("writer_pending", url=url) == 0


@pytest.mark.parametrize("critical", [True, False])
@pytest.mark.parametrize("on_disk", [True, False])
def test_a_stop_with_a_backend_that_hangs(
    make_gateway, make_writer, make_series, make_body, count, tmp_path, critical, on_disk
):
    """What still waits for it goes to the disk, or is lost by name, before the process ends."""
    writer, url = make_writer("http://hangs"), "http://hangs"
    writer.behave = Hangs()
    options = {"critical": critical, "spool_directory": tmp_path if on_disk else None, **QUICK}
    gateway = make_gateway(writer, outlet={url: options}, queue_number=2, queue_pop_size=7)
    sent = send(gateway, make_series, make_body, 1)
    lost = gateway.stop(0.1)
    fates, before = settled(count, url), count("dropped_total")
    writer.behave.go.set()
    assert before + sum(fates.values()) == sent, (before, fates)
    assert count("writer_pending") == 0
    assert (fates["spool_series"] > 0, lost > 0) == (on_disk, not on_disk)
