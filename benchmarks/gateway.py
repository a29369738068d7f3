"""Gateway: CPU-seconds per million series from socket to backend, ours and vmagent's, in one run on one machine.

    python benchmarks/gateway.py [--labels 8,20] [--workers 1] [--passes 8] [--rounds 3] [--pure] [--json FILE]

Both get the same snappy-compressed remote-write bodies over loopback HTTP, 2,000 series each, 200,000 distinct series in all,
add two labels to every series and write to one remote-write backend, a process that reads, counts and answers 204.
The first pass over all bodies is the cold one; the others are warm. All gateways run at the same time and take turns, pass by
pass, so that a machine that is slower for a while is so for all; the figures are medians over passes and rounds.
CPU time is user and system time of the whole process tree, read from /proc; the load generator and the backend are
not counted. A run in which a gateway does not deliver every series fails.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import cramjam

from tocsin.ingest.interface import Verdict
from tocsin.ingest.wire import wire

SERIES_PER_REQUEST = 2000
DISTINCT = 200_000
CONNECTIONS = 8
TICKS = os.sysconf("SC_CLK_TCK")
ADDED = {"dc": "fra", "owner": "team-a"}
ROOT = Path(__file__).resolve().parent.parent


# --- load -----------------------------------------------------------------------------------------------------------


def host_of(n: int) -> str:
    """Return the host of a series."""
    return f"host-{n // 100:04d}.example.com"


def make_bodies(labels: int) -> list[bytes]:
    """Return compressed bodies that look like what a host agent sends: sorted labels, one sample per series."""
    chosen = random.Random(7)
    bodies = []
    for start in range(0, DISTINCT, SERIES_PER_REQUEST):
        entries = []
        for n in range(start, start + SERIES_PER_REQUEST):
            pairs = {
                "__name__": f"node_metric_{n % 100}_total",
                "agent_hostname": host_of(n),
                "cpu": str(n % 16),
                "device": f"eth{n % 8}",
                "env": "production",
                "instance": f"10.0.{n // 100 % 256}.{n // 25600}:9100",
                "job": "node-exporter",
                "region": "eu-central-1",
                **{f"tag_{k:02d}": f"value-{k}-{n % 50}" for k in range(labels - 8)},
            }
            encoded = wire.encode_labels([(name.encode(), value.encode()) for name, value in sorted(pairs.items())])
            entries.append(wire.encode_series(encoded, [1_760_000_000_000 + n], [chosen.random() * 1000]))
        bodies.append(bytes(cramjam.snappy.compress_raw(b"".join(entries))))
    return bodies


class Load:
    """Senders that keep their connections, each with series of its own, like agents do."""

    def __init__(self, port: int, path: str, bodies: list[bytes]) -> None:
        self._path = path
        self._shares = [bodies[number::CONNECTIONS] for number in range(CONNECTIONS)]
        self._connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in self._shares]
        self._faults: list[str] = []

    def send(self) -> None:
        """Post every body once; raise when one is refused."""
        pairs = zip(self._connections, self._shares, strict=True)
        threads = [threading.Thread(target=self._send, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._faults:
            raise SystemExit(self._faults[0])

    def _send(self, connection: http.client.HTTPConnection, bodies: list[bytes]) -> None:
        try:
            for body in bodies:
                while (status := post(connection, self._path, body)) in (429, 499):
                    time.sleep(0.05)
                if status >= 300:
                    self._faults.append(f"HTTP {status}")
        except OSError as error:
            self._faults.append(repr(error))

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()


def post(connection: http.client.HTTPConnection, path: str, body: bytes) -> int:
    """Send one body and return the status."""
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def count_complete(labels: list[tuple[bytes, bytes]]) -> Verdict:
    """Count a series that has the two labels."""
    complete = {(name.encode(), value.encode()) for name, value in ADDED.items()} <= set(labels)
    return Verdict((), drop="complete" if complete else "incomplete")


def serve_sink(port: int) -> None:
    """Be the backend: read requests, count the series that have the two labels, answer 204."""
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    counted = 0
    lock = threading.Lock()
    cache = wire.LabelCache(count_complete, 10 * DISTINCT)

    def serve(connection: socket.socket) -> None:
        nonlocal counted
        file = connection.makefile("rb")
        while line := file.readline():
            length = 0
            while (header := file.readline()) not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if line.startswith(b"GET"):
                text = str(counted).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
                continue
            body = bytes(cramjam.snappy.decompress_raw(file.read(length)))
            series = wire.rewrite(body, cache).dropped.get("complete", 0)
            with lock:
                counted += series
            connection.sendall(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


# --- what is measured -----------------------------------------------------------------------------------------------


def tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in thread.read_text().split():
            found += tree(int(child))
    return found


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process tree."""
    total = 0
    for each in tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def resident_mib(pid: int) -> float:
    """Return the memory of a process tree, pages that several of them share counted once."""
    total = 0
    for each in tree(pid):
        for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


@dataclass
class Result:
    """One gateway with one kind of series; CPU-seconds are per million series."""

    name: str
    labels: int
    workers: int
    cold: float
    warm: float
    resident_mib: float
    series_per_second: float


class Contender:
    """A gateway that is running, and what its passes took."""

    def __init__(self, name: str, workers: int, pid: int, load: Load, sink: int) -> None:
        self.name, self.workers, self._pid, self._load, self._sink = name, workers, pid, load, sink
        self.cpu: list[float] = []
        self.wall: list[float] = []
        self.resident = 0.0

    def run(self) -> None:
        """Send everything once and measure until the backend has it."""
        before, idle, began = delivered(self._sink), cpu_seconds(self._pid), time.monotonic()
        self._load.send()
        wait_until(lambda: delivered(self._sink) - before >= DISTINCT, f"{self.name}: series are missing")
        self.wall.append(time.monotonic() - began)
        self.cpu.append(cpu_seconds(self._pid) - idle)
        if delivered(self._sink) - before != DISTINCT:
            raise SystemExit(f"{self.name}: more series arrived than were sent")
        self.resident = resident_mib(self._pid)


Start = Callable[[ExitStack, int, int], Contender]
"""Starts a gateway for series with a number of labels and a backend's port."""


def measure(starts: Sequence[Start], labels: int, sink: int, passes: int, rounds: int) -> list[Result]:
    """Let gateways take turns and return the medians of each."""
    played: list[list[Contender]] = []
    for _ in range(rounds):
        with ExitStack() as stack:
            contenders = [start(stack, labels, sink) for start in starts]
            for number in range(passes):
                for contender in contenders if number % 2 else reversed(contenders):
                    contender.run()
            played.append(contenders)
    millions = DISTINCT / 1e6
    return [
        Result(
            same[0].name,
            labels,
            same[0].workers,
            median(one.cpu[0] for one in same) / millions,
            median(cpu for one in same for cpu in one.cpu[1:]) / millions,
            max(one.resident for one in same),
            DISTINCT / median(wall for one in same for wall in one.wall[1:]),
        )
        for same in zip(*played, strict=True)
    ]


def delivered(sink: int) -> int:
    """Return how many series the backend has counted."""
    with urllib.request.urlopen(f"http://127.0.0.1:{sink}/", timeout=60) as answer:
        return int(answer.read())


def wait_until(check: Callable[[], bool], fault: str, seconds: float = 60.0) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise SystemExit(fault)
        time.sleep(0.05)


# --- the processes --------------------------------------------------------------------------------------------------


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def process(command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[int]:
    """Run a command in a process group of its own until the block ends; yield its pid once the port answers."""
    child = subprocess.Popen(
        command, env={**os.environ, **(environment or {})}, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: child.poll() is not None or listens(port), f"{command[0]} does not listen")
        if child.poll() is not None:
            raise SystemExit(f"{' '.join(command)} ended with code {child.returncode}")
        yield child.pid
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def listens(port: int) -> bool:
    """Whether somebody accepts connections on a port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ours(workers: int, *, pure: bool = False) -> Start:
    """Return how `tocsin pushgw` is started, with 2,000 registered hosts that add two labels."""

    def start(stack: ExitStack, labels: int, sink: int) -> Contender:
        port = free_port()
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (directory / "config.toml").write_text(
            f'[HTTP]\nHost = "127.0.0.1"\nPort = {port}\nWorkers = {workers}\n[Log]\nLevel = "ERROR"\n'
            f'[Data]\nDir = "{directory}/data"\n[[Pushgw.Writers]]\nUrl = "http://127.0.0.1:{sink}/write"\n'
        )
        prepare_hosts(directory)
        command = [sys.executable, "-m", "tocsin", "pushgw", "-c", str(directory)]
        pid = stack.enter_context(process(command, port, {"TOCSIN_PURE": "1"} if pure else None))
        wait_until(lambda: len(tree(pid)) >= 3 + workers, "the workers do not start")
        load = stack.enter_context(closing(Load(port, "/rw/v1/write", make_bodies(labels))))
        return Contender("tocsin (pure)" if pure else "tocsin", workers, pid, load, sink)

    return start


def vmagent(workers: int) -> Start:
    """Return how vmagent is started with a number of CPUs."""

    def start(stack: ExitStack, labels: int, sink: int) -> Contender:
        port = free_port()
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        command = [
            "vmagent", f"-httpListenAddr=127.0.0.1:{port}", f"-remoteWrite.url=http://127.0.0.1:{sink}/write",
            f"-remoteWrite.tmpDataPath={directory}", *(f"-remoteWrite.label={k}={v}" for k, v in ADDED.items()),
        ]  # fmt: skip
        pid = stack.enter_context(process(command, port, {"GOMAXPROCS": str(workers)}))
        load = stack.enter_context(closing(Load(port, "/api/v1/write", make_bodies(labels))))
        return Contender("vmagent", workers, pid, load, sink)

    return start


def prepare_hosts(directory: Path) -> None:
    """Register every host of the load, with the two labels, in the database of an installation."""
    from tocsin.app.bootstrap import open_core, prepare
    from tocsin.targets.hosts import Hosts

    core = open_core("pushgw", directory, environ={})
    prepare(core)
    hosts = core.get(Hosts)
    names = sorted({host_of(n) for n in range(DISTINCT)})
    for start in range(0, len(names), 500):
        hosts.register(names[start : start + 500])
        hosts.add_tags(names[start : start + 500], [f"{name}={value}" for name, value in ADDED.items()])
    core.release()
    core.close()


# --- the table ------------------------------------------------------------------------------------------------------


def report(results: list[Result]) -> None:
    """Print ours beside vmagent's."""
    print(
        f"{'':16}{'labels':>8}{'workers':>9}{'cold':>8}{'warm':>8}{'MiB':>8}{'series/s':>11}{'cold ratio':>12}{'warm ratio':>12}"
    )
    peers = {(result.labels, result.workers): result for result in results if result.name == "vmagent"}
    for result in results:
        peer = peers.get((result.labels, result.workers))
        ratios = f"{result.cold / peer.cold:>12.2f}{result.warm / peer.warm:>12.2f}" if peer else ""
        print(
            f"{result.name:16}{result.labels:>8}{result.workers:>9}{result.cold:>8.2f}{result.warm:>8.2f}"
            f"{result.resident_mib:>8.0f}{result.series_per_second:>11,.0f}{ratios}"
        )
    print("cold, warm: CPU-seconds per million series; ratio: to vmagent, below 1 is better")


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="8,20")
    parser.add_argument("--workers", default="1")
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="how often all begin anew")
    parser.add_argument("--pure", action="store_true", help="measure the pure-Python wire functions too (slow)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sink", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sink:
        serve_sink(options.sink)
    results = []
    sink = free_port()
    numbers = [int(number) for number in options.workers.split(",")]
    starts = [ours(number) for number in numbers] + [vmagent(number) for number in numbers if shutil.which("vmagent")]
    with process([sys.executable, str(Path(__file__)), "--sink", str(sink)], sink):
        for labels in map(int, options.labels.split(",")):
            results += measure(starts, labels, sink, options.passes, options.rounds)
            if options.pure:
                results += measure([ours(1, pure=True)], labels, sink, 2, 1)
    report(results)
    if options.json:
        machine = {"machine": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
        options.json.write_text(json.dumps({**machine, "results": [asdict(result) for result in results]}, indent=1))
    goal = [result for result in results if result.name == "tocsin" and result.labels == 8]
    return 0 if all(result.warm <= 0.9 for result in goal) else 1


if __name__ == "__main__":
    raise SystemExit(main())
