"""Debian's Prometheus as a reference: a private instance on a loopback port, filled through remote write."""

from __future__ import annotations

import contextlib
import http.client
import json
import struct
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam

from tocsin.plugin.testkit.components import PATIENCE, free_port
from tocsin_tsdb.promql.interface import Labels


@contextlib.contextmanager
def run_prometheus(program: Path, directory: Path) -> Iterator[Prometheus]:
    """Start an instance, wait until it is ready, stop it at the end."""
    port = free_port()
    config = directory / "prometheus.yml"
    config.write_text("global: {}\n")
    command = [
        str(program),
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
        "--enable-feature=promql-at-modifier,promql-negative-offset",
        "--log.level=error",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        server = Prometheus(port)
        try:
            server.wait_ready(process)
            yield server
        finally:
            server.close()
            process.terminate()
            process.wait(PATIENCE)


class Prometheus:
    """A client of one instance."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Return when the server answers; fail when it ends or takes too long."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and process.poll() is None:
            with contextlib.suppress(OSError):
                if self._request("GET", "/-/ready")[0] == 200:
                    return
            self._connection.close()
            time.sleep(0.05)
        raise AssertionError(f"prometheus did not start, exit status {process.poll()}")

    def _request(self, method: str, path: str, body: bytes = b"", kind: str = "") -> tuple[int, bytes]:
        headers = {"Content-Type": kind} if kind else {}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def write(self, series: list[tuple[Labels, list[tuple[int, float]]]]) -> None:
        """Append samples; those of one series in order of time."""
        payload = bytes(cramjam.snappy.compress_raw(b"".join(_series(labels, each) for labels, each in series)))
        status, answer = self._request("POST", "/api/v1/write", payload, "application/x-protobuf")
        assert status == 204, answer

    def query(self, endpoint: str, **parameters: str | float) -> dict[str, Any]:
        """Ask `query` or `query_range`; returns the decoded answer."""
        body = urllib.parse.urlencode(parameters).encode()
        _, answer = self._request("POST", f"/api/v1/{endpoint}", body, "application/x-www-form-urlencoded")
        decoded: dict[str, Any] = json.loads(answer)
        return decoded


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _series(labels: Labels, samples: list[tuple[int, float]]) -> bytes:
    body = b"".join(_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in labels)
    for stamp, value in samples:
        body += _field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(stamp))
    return _field(1, body)
