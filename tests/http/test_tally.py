"""Counters with very many values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import GaugeMetricFamily

from tocsin.http.metrics import Metrics

NAME = "svc_received_by_host"


def shown(metrics: Metrics, accept: str = "") -> list[str]:
    return sorted(line for line in metrics.exposition(accept)[0].decode().splitlines() if NAME in line)


def test_values_of_one_process_are_exposed_as_a_counter() -> None:
    metrics = Metrics()
    tally = metrics.tally(NAME, "Series by host.", "host")
    assert metrics.tally(NAME, "Series by host.", "host") is tally
    tally.add({"a": 1, 'quote" \\ \n': 2})
    tally.add({"a": 2})
    assert shown(metrics) == [
        f"# HELP {NAME} Series by host.",
        f"# TYPE {NAME} counter",
        f'{NAME}{{host="a"}} 3.0',
        f'{NAME}{{host="quote\\" \\\\ \\n"}} 2.0',
    ]


def test_values_of_several_processes_are_added_up_and_outlive_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    metrics = Metrics()
    tally = metrics.tally(NAME, "Series by host.", "host")
    for pid, counts in ((1001, {"a": 1, "b": 2}), (1001, {"a": 10}), (1002, {"a": 100, "ü": 5})):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        tally.add(counts)
    assert shown(metrics)[2:] == [f'{NAME}{{host="a"}} 111.0', f'{NAME}{{host="b"}} 2.0', f'{NAME}{{host="ü"}} 5.0']


def test_thousands_of_values_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    metrics = Metrics()
    for _ in range(2):
        metrics.tally(NAME, "Series by host.", "host").add({f"host-{n:05}": n for n in range(3000)})
    lines = shown(metrics)[2:]
    assert (len(lines), lines[0], lines[-1]) == (
        3000,
        f'{NAME}{{host="host-00000"}} 0.0',
        f'{NAME}{{host="host-02999"}} 5998.0',
    )


def test_a_process_with_the_number_of_an_earlier_one_adds_to_what_that_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    for counts in ({"a": 5, "b": 1}, {"a": 1}, {"b": 2}):
        metrics = Metrics()
        metrics.tally(NAME, "Series by host.", "host").add(counts)
    assert shown(metrics)[2:] == [f'{NAME}{{host="a"}} 6.0', f'{NAME}{{host="b"}} 3.0']


def test_a_fork_counts_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    metrics = Metrics()
    tally = metrics.tally(NAME, "Series by host.", "host")
    tally.add({"a": 1})
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                tally.add({"a": 10})
                tally.add({"a": 10})
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    tally.add({"a": 1})
    assert shown(metrics)[2:] == [f'{NAME}{{host="a"}} 42.0']


def test_values_may_be_added_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics()
    tally = metrics.tally(NAME, "Series by host.", "host")
    tally.add({"a": 1, "b": 1})
    write = GaugeMetricFamily.add_metric

    def interrupted(family: GaugeMetricFamily, labels: Any, value: float) -> None:
        write(family, labels, value)
        tally.add({f"beside {labels[0]}": 1})  # as another thread does

    monkeypatch.setattr(GaugeMetricFamily, "add_metric", interrupted)
    assert [line.rpartition("{")[2] for line in shown(metrics)[2:]] == ['host="a"} 1.0', 'host="b"} 1.0']
    monkeypatch.undo()
    assert len(shown(metrics)[2:]) == 4


def test_a_file_that_a_process_has_only_just_made_says_nothing_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    metrics = Metrics()
    metrics.tally(NAME, "Series by host.", "host").add({"a": 1})
    (tmp_path / "counter_1.db").touch()
    (tmp_path / "accounted_1").write_text("no metrics")
    assert shown(metrics)[2:] == [f'{NAME}{{host="a"}} 1.0']
