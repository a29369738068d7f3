"""The embedded store against Debian's `prometheus`, on the same machine and the same data.

    python benchmarks/store.py [--series 10000] [--scrapes 240] [--active 100000] [--json FILE]

Both get the same remote-write requests (2,000 series each, snappy) and the same queries over HTTP: Prometheus on a loopback
port, ours on the unix socket of its process. CPU-seconds are those of the server process, all threads, background work included.
Ratios are ours / Prometheus: below 1 we are ahead. The data: `--series` series of 15 s scrapes over the last hour, 500 series of
realistic gauges and counters over 24 hours before it, and in fresh instances `--active` series for the resident memory.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import math
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cramjam
import numpy as np

from tocsin_tsdb.api.options import ApiOptions
from tocsin_tsdb.server import serve
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.options import StoreOptions

STEP_MS = 15_000
PER_REQUEST = 2_000
HISTORY_SERIES = 500
HISTORY_HOURS = 24
MOST_SAMPLES = 100_000_000
RESTARTS = 3
COLD = ("24 h, 100 series, step 5m", "range 1,000 x 240: rate", "instant, sum of 10,000, earlier")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=600)
        self.path = path

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


@dataclass
class Server:
    """One of the two stores, running."""

    name: str
    process: subprocess.Popen[bytes]
    connect: Callable[[], http.client.HTTPConnection]
    data: Path
    prefix: str

    def cpu(self) -> float:
        """CPU-seconds used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self) -> int:
        """Resident bytes now."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE

    def send(self, bodies: list[bytes]) -> None:
        """Send remote-write requests one after the other."""
        connection = self.connect()
        headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
        for body in bodies:
            connection.request("POST", f"{self.prefix}/api/v1/write", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 204:
                raise SystemExit(f"{self.name}: write answered {answer.status}: {text[:300]!r}")
        connection.close()

    def query(self, connection: http.client.HTTPConnection, path: str, parameters: dict[str, str]) -> bytes:
        """Run one query and return the answer's body."""
        connection.request("GET", f"{self.prefix}/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{self.name}: {path} answered {answer.status}: {body[:300]!r}")
        return body


@contextlib.contextmanager
def prometheus(directory: Path) -> Iterator[Server]:
    """Run Debian's Prometheus with its remote-write receiver on."""
    binary = shutil.which("prometheus")
    if binary is None:
        raise SystemExit("the peer is missing: apt-get install prometheus")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = directory / "prometheus.yml"
    config.write_text("storage:\n  tsdb:\n    out_of_order_time_window: 10m\n")
    data = directory / "data"
    options = [
        *(f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address=127.0.0.1:{port}"),
        *("--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=30d", "--log.level=error"),
        f"--query.max-samples={MOST_SAMPLES}",
    ]
    process = subprocess.Popen([binary, *options], stderr=subprocess.DEVNULL)
    connect = lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=600)  # noqa: E731
    yield from _running(Server("prometheus", process, connect, data, ""), "/-/ready")


@contextlib.contextmanager
def tocsin(directory: Path) -> Iterator[Server]:
    """Run our store as the launcher would."""
    path = directory / "store.sock"
    process = subprocess.Popen([sys.executable, __file__, "--serve", str(directory)])
    server = Server("tocsin", process, lambda: UnixConnection(str(path)), directory / "data", "")
    yield from _running(server, "/-/ready")


def _running(server: Server, ready: str) -> Iterator[Server]:
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                connection = server.connect()
                connection.request("GET", ready)
                if connection.getresponse().status == 200:
                    break
            except OSError:
                if server.process.poll() is not None or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)
        yield server
    finally:
        server.process.terminate()
        server.process.wait(60)


def run_store(directory: Path) -> None:
    """Body of our server process."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    serve(
        directory / "store.sock",
        StoreOptions(directory / "data", retention=30 * 86_400_000),
        ApiOptions(),
        lookback_ms=300_000,
        max_samples=MOST_SAMPLES,
        stopping=stopping,
        ready=lambda: None,
    )


def keys_of(metric: str, count: int, groups: int) -> list[bytes]:
    """Label bytes of `count` series with nine labels each."""
    return [
        wire.encode_labels(
            [
                ("__name__", metric),
                ("cluster", "production-eu-1"),
                ("container", f"worker-{i % 7}"),
                ("env", "prod"),
                ("group", f"g{i % groups}"),
                ("instance", f"10.0.{i // 250}.{i % 250}:9100"),
                ("job", "node-exporter"),
                ("pod", f"worker-{i:06d}-abcde"),
                ("zone", f"eu-1{'abc'[i % 3]}"),
            ]
        )
        for i in range(count)
    ]


def scrape(keys: list[bytes], time_ms: int, values: np.ndarray) -> list[bytes]:
    """Remote-write requests with one sample for each series."""
    times = np.array([time_ms])
    return [
        bytes(
            cramjam.snappy.compress_raw(
                b"".join(
                    wire.encode_series(key, times, values[i : i + 1])
                    for i, key in enumerate(keys[at : at + PER_REQUEST], at)
                )
            )
        )
        for at in range(0, len(keys), PER_REQUEST)
    ]


def history(end_ms: int) -> list[bytes]:
    """A day of realistic series: counters of several speeds, percentages, sizes, seconds, constants; times with jitter."""
    rng = np.random.default_rng(7)
    count = HISTORY_HOURS * 3_600_000 // STEP_MS
    grid = end_ms - HISTORY_HOURS * 3_600_000 + np.arange(count) * STEP_MS
    makers: list[Callable[[], np.ndarray]] = [
        lambda: np.cumsum(rng.poisson(rng.choice([0.05, 3, 200]), count)).astype(float),
        lambda: 1e10 + np.cumsum(rng.integers(0, 200_000, count)).astype(float),
        lambda: np.round(50 + np.cumsum(rng.normal(0, 0.5, count)), 2),
        lambda: np.full(count, float(rng.integers(0, 3))),
        lambda: np.round(np.cumsum(rng.random(count) * 4.5), 2),
        lambda: 8e9 + 4096.0 * np.cumsum(rng.integers(-50, 51, count)),
    ]
    keys = keys_of("history_metric", HISTORY_SERIES, 10)
    values = [makers[i % len(makers)]() for i in range(HISTORY_SERIES)]
    offsets = rng.integers(0, STEP_MS, HISTORY_SERIES)
    jitter = (rng.random((HISTORY_SERIES, count)) < 0.1) * rng.integers(-3, 4, (HISTORY_SERIES, count))
    bodies = []
    for at in range(0, count, 40):
        span = slice(at, at + 40)
        series = [
            wire.encode_series(key, grid[span] + offsets[i] + jitter[i, span], values[i][span])
            for i, key in enumerate(keys)
        ]
        bodies.append(bytes(cramjam.snappy.compress_raw(b"".join(series))))
    return bodies


def recent(metric: str, series: int, scrapes: int, end_ms: int) -> list[bytes]:
    """Scrapes of many counters up to `end_ms`."""
    rng = np.random.default_rng(3)
    keys = keys_of(metric, series, 20)
    values = np.zeros(series)
    bodies = []
    for number in range(scrapes):
        values += rng.integers(0, 50, series)
        bodies += scrape(keys, end_ms - (scrapes - number) * STEP_MS, values)
    return bodies


def measure(server: Server, path: str, parameters: dict[str, str]) -> tuple[float, float]:
    """CPU-seconds and wall seconds of one query, averaged over about two seconds; the first run is not counted."""
    connection = server.connect()
    server.query(connection, path, parameters)
    runs, started, cpu = 0, time.perf_counter(), server.cpu()
    while runs < 4 or (time.perf_counter() - started < 2.0 and runs < 200):
        server.query(connection, path, parameters)
        runs += 1
    wall = (time.perf_counter() - started) / runs
    used = (server.cpu() - cpu) / runs
    connection.close()
    return used, wall


def queries(end_ms: int) -> dict[str, tuple[str, dict[str, str]]]:
    """The queries of the comparison by title."""
    end = end_ms / 1000
    hour = {"start": str(end - 3600), "end": str(end - STEP_MS / 1000), "step": "15"}
    day = {"start": str(end - 3600 * 25), "end": str(end - 3600), "step": "300"}
    some = 'bench_total{group=~"g[01]"}'
    ranges = {
        "range 1,000 x 240: rate": f"rate({some}[5m])",
        "range 1,000 x 240: sum by": f"sum by (zone) (rate({some}[5m]))",
        "range 1,000 x 240: quantile": f"quantile by (zone) (0.9, {some})",
        "range 1,000 x 240: join": f"{some} / on (pod) group_left (zone) ({some} + 1)",
    }
    found = {title: ("query_range", {"query": text, **hour}) for title, text in ranges.items()}
    instant = {"time": str(end - STEP_MS / 1000)}
    earlier = {"time": str(end - 2700)}
    return {
        "instant, 10,000 series": ("query", {"query": "bench_total", **instant}),
        "instant, sum of 10,000": ("query", {"query": "sum by (zone) (bench_total)", **instant}),
        "instant, rate of 10,000": ("query", {"query": "sum(rate(bench_total[5m]))", **instant}),
        "instant, sum of 10,000, earlier": ("query", {"query": "sum by (zone) (bench_total)", **earlier}),
        "instant, 1 series": ("query", {"query": 'bench_total{pod="worker-000077-abcde"}', **instant}),
        **found,
        "24 h, 100 series, step 5m": ("query_range", {"query": 'history_metric{group=~"g[01]"}', **day}),
        "24 h, 100 series, rate[5m]": ("query_range", {"query": 'rate(history_metric{group=~"g[01]"}[5m])', **day}),
    }


def cold(
    start: Callable[[Path], contextlib.AbstractContextManager[Server]], directory: Path, end_ms: int
) -> list[Figure]:
    """First queries after a restart on the same data: the best of some restarts, in milliseconds."""
    everything, best = queries(end_ms), dict.fromkeys(COLD, (math.inf, math.inf))
    for _ in range(RESTARTS):
        with start(directory) as server:
            settle(server)
            connection = server.connect()
            for title in COLD:
                path, parameters = everything[title]
                cpu, started = server.cpu(), time.perf_counter()
                server.query(connection, path, parameters)
                took = time.perf_counter() - started
                best[title] = min(best[title], (server.cpu() - cpu, took))
            connection.close()
    return [
        figure
        for title, (cpu, took) in best.items()
        for figure in ((f"cold: {title}, CPU", "ms", cpu * 1000), (f"cold: {title}, wall", "ms", took * 1000))
    ]


def block_bytes(server: Server) -> float:
    """Bytes per sample in the blocks on disk."""
    root = server.data / "blocks" if server.name == "tocsin" else server.data
    size = samples = 0
    for meta in root.glob("*/meta.json"):
        content = json.loads(meta.read_text())
        samples += content["samples"] if server.name == "tocsin" else content["stats"]["numSamples"]
        size += sum(file.stat().st_size for file in meta.parent.rglob("*") if file.is_file())
    return size / samples if samples else float("nan")


def settle(server: Server) -> None:
    """Wait until background work has ended."""
    quiet, last = 0, server.cpu()
    deadline = time.monotonic() + 120
    while quiet < 4 and time.monotonic() < deadline:
        time.sleep(2)
        now = server.cpu()
        quiet = quiet + 1 if now - last < 0.1 else 0
        last = now


def main() -> None:
    """Run the comparison and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--scrapes", type=int, default=240)
    parser.add_argument("--active", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        run_store(options.serve)
        return
    table = compare(options)
    show(table)
    if options.json:
        machine = {"machine": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
        options.json.write_text(json.dumps({**machine, "rows": table}, indent=1))


Row = tuple[str, str, float, float]
Figure = tuple[str, str, float]


def compare(options: argparse.Namespace) -> list[Row]:
    """Return rows of title, unit, ours, Prometheus's."""
    now = int(time.time() * 1000) // STEP_MS * STEP_MS
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        figures: list[list[Figure]] = []
        past, bodies = history(now - 3_600_000), recent("bench_total", options.series, options.scrapes, now)
        for start in (tocsin, prometheus):
            directory = Path(name) / start.__name__
            directory.mkdir()
            with start(directory) as server:
                figures.append(_figures(server, past, bodies, options, now))
            figures[-1] += cold(start, directory, now)
        for ours, theirs in zip(*figures, strict=True):
            rows.append((ours[0], ours[1], ours[2], theirs[2]))
        del past, bodies
        memory = []
        bodies = recent("active_total", options.active, 20, now)
        for start in (tocsin, prometheus):
            directory = Path(name) / f"{start.__name__}-memory"
            directory.mkdir()
            with start(directory) as server:
                server.send(bodies)
                server.query(server.connect(), "query", {"query": "sum(active_total)"})
                settle(server)
                memory.append(server.resident() / 2**20)
        rows.append((f"resident memory, {options.active:,} active series", "MiB", memory[0], memory[1]))
    return rows


def _figures(
    server: Server, past: list[bytes], bodies: list[bytes], options: argparse.Namespace, now: int
) -> list[Figure]:
    server.send(past)
    settle(server)
    cpu, started = server.cpu(), time.perf_counter()
    server.send(bodies)
    wall = time.perf_counter() - started
    during = server.cpu() - cpu
    settle(server)
    millions = options.series * options.scrapes / 1e6
    out = [
        ("ingest, CPU per million samples", "s", during / millions),
        ("ingest, with background work", "s", (server.cpu() - cpu) / millions),
        ("ingest, wall per million samples", "s", wall / millions),
    ]
    for title, (path, parameters) in queries(now).items():
        used, took = measure(server, path, parameters)
        out += [(f"{title}, CPU", "ms", used * 1000), (f"{title}, wall", "ms", took * 1000)]
    return [*out, ("blocks, bytes per sample", "B", block_bytes(server))]


def show(table: list[Row]) -> None:
    """Print the table."""
    print(f"{'':45} {'':>4} {'tocsin':>10} {'prometheus':>11} {'ratio':>7}")
    for title, unit, ours, theirs in table:
        ratio = ours / theirs if theirs else float("nan")
        print(f"{title:45} {unit:>4} {ours:10.2f} {theirs:11.2f} {ratio:7.2f}")


if __name__ == "__main__":
    main()
