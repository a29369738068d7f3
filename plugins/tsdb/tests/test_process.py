"""The store inside a running center: its process is killed, and nothing acknowledged is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import cramjam
import numpy as np
import pytest

from tocsin.plugin.testkit.components import PATIENCE, Prometheus
from tocsin_tsdb.storage import wire

SNAPPY = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
SETTINGS = "[EmbeddedTSDB]\nEnable = true\n"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def write(deployment: Any, value: float) -> int:
    """Write one sample of `counted` now and return the status."""
    key = wire.encode_labels([("__name__", "counted"), ("host", "a")])
    body = wire.encode_series(key, np.array([int(time.time() * 1000)]), np.array([value]))
    answer = deployment.request("POST", "/prometheus/api/v1/write", bytes(cramjam.snappy.compress_raw(body)), SNAPPY)
    return int(answer.status)


def query(deployment: Any, text: str) -> list[Any]:
    """Return the result of an instant query."""
    answer = deployment.request("GET", "/prometheus/api/v1/query?" + urlencode({"query": text}))
    assert answer.status == 200, answer.data
    found: list[Any] = json.loads(answer.data)["data"]["result"]
    return found


def test_a_killed_store_comes_back_with_everything(make_deployment: Callable[..., Any]) -> None:
    deployment = make_deployment(SETTINGS)
    acknowledged = 0
    for round_number in range(3):
        for _ in range(20):
            if write(deployment, float(acknowledged + 1)) == 204:
                acknowledged += 1
            time.sleep(0.002)
        before = deployment.kill("sidecar tsdb", signal.SIGKILL)
        assert before
        deployment.until(lambda: bool(query(deployment, "1 + 1")), "the store answers again")
        (found,) = query(deployment, "counted[5m]")
        values = [float(value) for _, value in found["values"]]
        assert values == [float(number) for number in range(1, acknowledged + 1)], round_number
    deployment.until(lambda: deployment.metric("prometheus_tsdb_head_series") == 1, "the metrics show it")
    assert deployment.metric("prometheus_tsdb_head_samples_appended_total") >= acknowledged
    assert deployment.stop() == 0


def test_a_real_prometheus_writes_into_it(
    make_deployment: Callable[..., Any], start_prometheus: Callable[..., Prometheus]
) -> None:
    deployment = make_deployment(SETTINGS)
    writing = {"url": f"{deployment.url}/prometheus/api/v1/write", "queue_config": {"batch_send_deadline": "1s"}}
    with start_prometheus(scrape={"center": [f"127.0.0.1:{deployment.port}"]}, remote_write=[writing]):
        deployment.until(
            lambda: any(found["value"][1] == "1" for found in query(deployment, 'up{job="center"}')),
            "its samples are there",
        )
        deployment.until(
            lambda: bool(query(deployment, "rate(prometheus_tsdb_head_samples_appended_total[1m]) > 0")), "a rate"
        )
    metadata = deployment.request("GET", "/prometheus/api/v1/metadata").data
    assert json.loads(metadata)["status"] == "success"


def test_a_directory_that_cannot_be_used_stops_the_start(make_box: Any, tmp_path: Path) -> None:
    make_box(tmp_path / "taken")
    (tmp_path / "file").write_text("")
    (tmp_path / "etc").mkdir()
    for directory, text in (
        (tmp_path / "taken", "is locked by another process"),
        (tmp_path / "file", "cannot be written"),
    ):
        (tmp_path / "etc" / "config.toml").write_text(
            f'[HTTP]\nPort = 0\nHost = "127.0.0.1"\n[Data]\nDir = "{tmp_path / "data"}"\n{SETTINGS}Dir = "{directory}"\n'
        )
        done = subprocess.run(
            [sys.executable, "-m", "tocsin", "center", "-c", str(tmp_path / "etc")],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 1
        assert f"EmbeddedTSDB.Dir: data directory {directory} {text}" in done.stderr
