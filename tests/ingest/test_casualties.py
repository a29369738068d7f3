"""What killed processes had in memory is counted by whoever starts next."""

import os
import subprocess
import sys
import threading

import pytest

from tocsin.http.metrics import Metrics
from tocsin.ingest.casualties import count_casualties
from tocsin.ingest.metrics import GatewayMetrics

VICTIM = """
import os, signal
from tocsin.http.metrics import Metrics
from tocsin.ingest.metrics import GatewayMetrics

metrics = GatewayMetrics.make(Metrics())
metrics.received.labels("x").inc(1000)
metrics.dropped.labels("queue_full").inc(10)
for url in ("http://behind", "http://ahead", "http://spooled"):
    metrics.written.labels(url)
metrics.written.labels("http://behind").inc(300)
metrics.rejected.labels("http://behind", "400").inc(20)
metrics.lost.labels("http://behind", "retries_exhausted").inc(3)
metrics.lost.labels("http://behind", "spool_full").inc(50)  # these were on disk
metrics.written.labels("http://ahead").inc(990)
metrics.spooled.labels("http://spooled").inc(900)
metrics.written.labels("http://spooled").inc(400)  # 340 of them of an earlier process, from the disk
metrics.replayed.labels("http://spooled").inc(340)
print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def victim(directory):
    """A process that was killed, after it had counted."""
    ended = subprocess.run([sys.executable, "-c", VICTIM], capture_output=True, text=True, check=False)
    assert ended.returncode == -9, ended.stderr
    return int(ended.stdout)


@pytest.fixture
def metrics():
    """Metrics of this process, whose values are kept in its memory whatever the environment says."""
    return Metrics()


def killed(metrics, url):
    return metrics.registry.get_sample_value("svc_pushgw_writer_dropped_total", {"url": url, "reason": "worker_killed"})


def test_what_was_in_memory_is_lost(victim, metrics):
    count_casualties(GatewayMetrics.make(metrics))
    assert killed(metrics, "http://behind") == 1000 - 10 - 300 - 20 - 3
    assert killed(metrics, "http://spooled") == 1000 - 10 - 900 - (400 - 340)
    assert killed(metrics, "http://ahead") is None


def test_each_death_is_counted_once(victim, metrics):
    made = GatewayMetrics.make(metrics)
    starting = [threading.Thread(target=count_casualties, args=(made,)) for _ in range(4)]
    for thread in starting:
        thread.start()
    for thread in starting:
        thread.join()
    assert killed(metrics, "http://behind") == 667


def test_the_living_are_left_alone(victim, directory, metrics):
    (directory / f"counter_{victim}.db").rename(directory / f"counter_{os.getpid()}.db")
    count_casualties(GatewayMetrics.make(metrics))
    assert killed(metrics, "http://behind") is None


def test_without_shared_counters_there_is_nothing_to_count(monkeypatch, metrics):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    count_casualties(GatewayMetrics.make(metrics))
    assert killed(metrics, "http://behind") is None


def test_a_process_that_ended_before_it_counted_had_nothing(directory, metrics):
    directory.joinpath("counter_999999.db").touch()
    count_casualties(GatewayMetrics.make(metrics))
    assert b"worker_killed" not in metrics.exposition("")[0]
