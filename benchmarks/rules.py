"""Evaluating 1,600 alert rules that were cloned from 11, against Debian's `prometheus` evaluating the same rules.

    python benchmarks/rules.py [--rules 1600] [--hosts 100] [--seconds 60] [--interval 5] [--json FILE]

Two Prometheus scrape the same loopback exporter: one without rules, one with all of them in rule files.  What the second
needs more than the first is what its rules cost.  Then our engine evaluates the same rules against the first one; its cost is
the CPU time of its own process, and beside it what the queries cost the Prometheus that answers them.  Five in a hundred
hosts are over the threshold, so each rule keeps five alerts firing; the first tick, which fires them all and hands them to
notification, is timed apart.
Ratios are ours / Prometheus: below 1 we are ahead.
"""

from __future__ import annotations

import argparse
import json
import logging
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
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import tocsin_datasource_prometheus
from tocsin.alerting.metrics import AlertMetrics
from tocsin.alerting.rules import AlertRules
from tocsin.app.bootstrap import make_core, prepare
from tocsin.app.registry import PluginInfo, Plugins
from tocsin.datasources.catalog import Catalog
from tocsin.events.search import ActiveCounts

DISTINCT = 11
GROUP = 1
HIGH, THRESHOLD = 95, 90
FIRING_PERCENT = 5
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Figures:
    """What one run measured."""

    rules: int
    hosts: int
    evaluations: int
    queries_per_tick: float
    ours_cpu_per_1000: float
    ours_answering_cpu_per_1000: float
    prometheus_cpu_per_1000: float
    ratio: float
    ratio_with_answering: float
    first_tick_events: int
    first_tick_cpu_seconds: float
    missed: float


def expression(number: int) -> str:
    """Return the condition of one of the distinct rules."""
    return f"load_{number % DISTINCT} > {THRESHOLD}"


@contextmanager
def exporter(hosts: int) -> Iterator[int]:
    """Serve the metrics of ``hosts`` hosts and yield the port."""
    lines = [
        f'load_{metric}{{host="host-{host:04}",region="r{host % 7}"}} '
        f"{HIGH if host * 100 < FIRING_PERCENT * hosts else 40}"
        for metric in range(DISTINCT)
        for host in range(hosts)
    ]
    body = ("\n".join(lines) + "\n").encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Prometheus:
    """A running Prometheus."""

    process: subprocess.Popen[bytes]
    port: int

    def cpu(self) -> float:
        """Return the CPU-seconds used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def query(self, text: str) -> list[Any]:
        """Return the result of an instant query."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?query={urllib.parse.quote(text)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return list(json.load(answer)["data"]["result"])


@contextmanager
def prometheus(directory: Path, scraped: int, interval: int, rules: int) -> Iterator[Prometheus]:
    """Start Debian's Prometheus with ``rules`` rules and yield it once it is ready."""
    directory.mkdir()
    groups = [
        {
            "name": f"group {start}",
            "interval": f"{interval}s",
            "rules": [
                {"alert": f"rule {number}", "expr": expression(number), "labels": {"severity": "warning"}}
                for number in range(start, min(start + 100, rules))
            ],
        }
        for start in range(0, rules, 100)
    ]
    (directory / "rules.json.yml").write_text(json.dumps({"groups": groups}))
    config = {
        "global": {"scrape_interval": f"{interval}s", "evaluation_interval": f"{interval}s"},
        "rule_files": [str(directory / "rules.json.yml")],
        "scrape_configs": [{"job_name": "hosts", "static_configs": [{"targets": [f"127.0.0.1:{scraped}"]}]}],
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))
    port = free_port()
    command = [
        *("prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"),
    ]
    running = Prometheus(subprocess.Popen(command, stderr=sys.stderr), port)
    try:
        wait_for(lambda: len(running.query("load_0")) > 0, 60)
        yield running
    finally:
        running.process.terminate()
        running.process.wait(20)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(test: Any, seconds: float) -> None:
    """Wait until ``test`` holds; raise :class:`TimeoutError`."""
    end = time.monotonic() + seconds
    while True:
        try:
            if test():
                return
        except OSError:
            pass
        if time.monotonic() > end:
            raise TimeoutError("not ready in time")
        time.sleep(0.2)


def run(arguments: argparse.Namespace) -> Figures:
    """Measure both and return the figures."""
    directory = Path(tempfile.mkdtemp(prefix="rules-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        port = stack.enter_context(exporter(arguments.hosts))
        plain = stack.enter_context(prometheus(directory / "plain", port, arguments.interval, 0))
        base = idle(plain, arguments.seconds)
        with prometheus(directory / "ruled", port, arguments.interval, arguments.rules) as ruled:
            time.sleep(2 * arguments.interval)
            used = idle(ruled, arguments.seconds)
        theirs = (used - base) / (arguments.seconds / arguments.interval * arguments.rules) * 1000
        return ours(directory, plain, base, theirs, arguments)


def idle(running: Prometheus, seconds: float) -> float:
    """Return the CPU-seconds a Prometheus uses while ``seconds`` pass."""
    before = running.cpu()
    time.sleep(seconds)
    return running.cpu() - before


def ours(directory: Path, source: Prometheus, base: float, theirs: float, arguments: argparse.Namespace) -> Figures:
    """Run our engine against ``source`` and compare."""
    plugins = Plugins()
    plugins.add(PluginInfo("prometheus"), tocsin_datasource_prometheus)
    settings = {
        "Data": {"Dir": str(directory / "tocsin")},
        "Alert": {"EngineDelay": 0, "Heartbeat": {"IP": "127.0.0.1"}},
    }
    core = make_core("center", settings, environ={}, plugins=plugins)
    prepare(core)
    http = {"url": f"http://127.0.0.1:{source.port}"}
    core.get(Catalog).create({**EMPTY_DATASOURCE, "http": http}, "benchmark")
    create_rules(core.get(AlertRules), arguments.rules, arguments.interval)
    metrics, counts = AlertMetrics(core.metrics), ActiveCounts()
    expected = arguments.rules * len(source.query(expression(0)))
    started = time.process_time()
    core.start("engine")
    wait_for(lambda: counts.active_by_group([GROUP]).get(GROUP, 0) >= expected, 120)
    first = time.process_time() - started
    time.sleep(arguments.interval)
    evaluations, queries = value(metrics.evaluations), value(metrics.sent.labels("1"))
    cpu, answering = time.process_time(), source.cpu()
    time.sleep(arguments.seconds)
    cpu, answering = time.process_time() - cpu, source.cpu() - answering - base
    evaluations, queries = value(metrics.evaluations) - evaluations, value(metrics.sent.labels("1")) - queries
    missed = value(metrics.missed)
    core.stop("engine")
    core.close()
    per_1000 = cpu / evaluations * 1000
    answer_1000 = max(answering, 0.0) / evaluations * 1000
    return Figures(
        rules=arguments.rules,
        hosts=arguments.hosts,
        evaluations=int(evaluations),
        queries_per_tick=queries / (evaluations / arguments.rules),
        ours_cpu_per_1000=per_1000,
        ours_answering_cpu_per_1000=answer_1000,
        prometheus_cpu_per_1000=theirs,
        ratio=per_1000 / theirs,
        ratio_with_answering=(per_1000 + answer_1000) / theirs,
        first_tick_events=expected,
        first_tick_cpu_seconds=first,
        missed=missed,
    )


EMPTY_DATASOURCE: dict[str, Any] = {
    "name": "bench",
    "plugin_type": "prometheus",
    "cluster_name": "default",
    "settings": {},
    "auth": {},
}


def create_rules(rules: AlertRules, count: int, interval: int) -> None:
    """Store the rules, each a copy of one of the distinct ones."""
    from tocsin.alerting.schemas import AlertRuleSchema

    bodies = [
        {
            "name": f"rule {number}",
            "cate": "prometheus",
            "datasource_queries": [{"match_type": 2, "op": "in", "values": []}],
            "rule_config": {"queries": [{"prom_ql": expression(number), "severity": 2}]},
            "cron_pattern": f"@every {interval}s",
            "notify_version": 1,
        }
        for number in range(count)
    ]
    outcome = rules.create(GROUP, AlertRuleSchema(many=True).load(bodies), "benchmark")
    faults = {name: error for name, error in outcome.items() if error}
    if faults:
        raise SystemExit(f"rules were refused: {faults}")


def value(metric: Any) -> float:
    """Return the present value of a counter."""
    return float(metric._value.get())


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=int, default=1600)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--interval", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    logging.basicConfig(level=logging.WARNING)
    figures = run(arguments)
    for name, number in asdict(figures).items():
        print(f"{name:32} {number:12.4f}" if isinstance(number, float) else f"{name:32} {number:12}")
    if arguments.json:
        about = {"machine": platform.platform(), "python": platform.python_version(), "time": int(time.time())}
        arguments.json.write_text(json.dumps({**about, **asdict(figures)}, indent=2))


if __name__ == "__main__":
    main()
