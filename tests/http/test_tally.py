"""Counters with very many values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
