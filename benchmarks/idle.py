"""Idle: memory and CPU time of a freshly started center, beside Prometheus and vmagent that have nothing to do either.

    python benchmarks/idle.py [--settle 40] [--seconds 60] [--alone] [--json FILE]

The center runs with the settings of `etc/`: HTTP workers, alert engine and embedded store. The others are Debian's, with
an empty configuration; vmagent writes to that Prometheus. All run at once, in one run on one machine. Memory is read from
/proc after `--settle` seconds: RSS counts a page in every process that has it, USS counts pages that no other process has,
PSS divides a page among the processes that share it, so that PSS adds up to what the machine gives, provided that no other
copy of these programs runs on it; the others are one process each and are compared by RSS. CPU time is what the following
`--seconds` take, scaled to a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from gateway import TICKS, free_port, process, tree

ROOT = Path(__file__).resolve().parent.parent
ALL = "all processes"


@dataclass
class Row:
    """One process or the sum of a program's; memory in MiB, CPU in milliseconds per minute."""

    program: str
    process: str
    threads: int
    rss: float
    pss: float
    uss: float
    cpu: float


def memory(pid: int) -> tuple[float, float, float]:
    """Return RSS, PSS and USS of a process in MiB."""
    sizes = {"Rss": 0, "Pss": 0, "Private_Clean": 0, "Private_Dirty": 0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in sizes:
            sizes[name] += int(rest.split()[0])
    return sizes["Rss"] / 1024, sizes["Pss"] / 1024, (sizes["Private_Clean"] + sizes["Private_Dirty"]) / 1024


def processor(pid: int) -> tuple[int, int]:
    """Return the CPU time of a process in ticks, and its number of threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]), int(fields[17])


# --- the programs ---------------------------------------------------------------------------------------------------


@contextmanager
def center(directory: Path) -> Iterator[tuple[int, Path]]:
    """Run a center with the shipped settings; yield its pid and its log."""
    port = free_port()
    environment = {
        "TOCSIN_HTTP_HOST": "127.0.0.1",
        "TOCSIN_HTTP_PORT": str(port),
        "TOCSIN_DATA_DIR": str(directory / "data"),
        "TOCSIN_LOG_OUTPUT": "file",
        "TOCSIN_LOG_DIR": str(directory),
    }
    command = [sys.executable, "-m", "tocsin", "center", "-c", str(ROOT / "etc")]
    with process(command, port, environment) as pid:
        yield pid, directory / "tocsin.log"


@contextmanager
def prometheus(directory: Path) -> Iterator[tuple[int, int]]:
    """Run Prometheus with nothing to scrape; yield its pid and port."""
    port = free_port()
    directory.mkdir()
    (directory / "prometheus.yml").write_text("{}\n")
    command = [
        "prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver",
    ]  # fmt: skip
    with process(command, port) as pid:
        yield pid, port


@contextmanager
def vmagent(directory: Path, backend: int) -> Iterator[int]:
    """Run vmagent; yield its pid."""
    port = free_port()
    command = [
        "vmagent", f"-httpListenAddr=127.0.0.1:{port}", f"-remoteWrite.tmpDataPath={directory}",
        f"-remoteWrite.url=http://127.0.0.1:{backend}/api/v1/write",
    ]  # fmt: skip
    with process(command, port) as pid:
        yield pid


def names_of(root: int, log: Path) -> dict[int, str]:
    """Return what each process of a center does."""
    known = {root: "guard"}
    for line in log.read_text().splitlines():
        head, found, number = line.rpartition(" started as process ")
        if found:
            known[int(number)] = head.rpartition(": ")[2]
    return {pid: known.get(pid, "worker") for pid in tree(root)}


# --- measuring ------------------------------------------------------------------------------------------------------


def measure(programs: dict[str, dict[int, str]], seconds: float) -> list[Row]:
    """Return a row for every process and, for programs of several, one for all of them."""
    pids = [pid for found in programs.values() for pid in found]
    memories = {pid: memory(pid) for pid in pids}
    before = {pid: processor(pid)[0] for pid in pids}
    time.sleep(seconds)
    rows: list[Row] = []
    for program, found in programs.items():
        own = []
        for pid, name in found.items():
            ticks, threads = processor(pid)
            spent = (ticks - before[pid]) / TICKS * 1000 * 60 / seconds
            own.append(Row(program, name, threads, *memories[pid], spent))
        rows += own if len(own) == 1 else [*own, total(program, own)]
    return rows


def total(program: str, rows: list[Row]) -> Row:
    """Return the sum of rows."""
    sums = (sum(getattr(row, name) for row in rows) for name in ("rss", "pss", "uss", "cpu"))
    return Row(program, ALL, sum(row.threads for row in rows), *sums)


def report(rows: list[Row]) -> None:
    """Print the table and the ratios."""
    print(f"{'program':<12}{'process':<16}{'threads':>8}{'RSS MiB':>9}{'PSS MiB':>9}{'USS MiB':>9}{'CPU ms/min':>12}")
    for row in rows:
        sizes = f"{row.rss:>9.1f}{row.pss:>9.1f}{row.uss:>9.1f}"
        print(f"{row.program:<12}{row.process:<16}{row.threads:>8}{sizes}{row.cpu:>12.0f}")
    ours = next(row for row in rows if row.process == ALL)
    others = [row for row in rows if row.program != ours.program]
    if others:
        theirs = total("both", others)
        print(
            f"tocsin / (prometheus + vmagent): memory {ours.pss / theirs.rss:.2f} (PSS of many processes by RSS of two), "
            f"CPU {ours.cpu / max(theirs.cpu, 1e-9):.2f}"
        )


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--settle", type=float, default=40.0, help="seconds between start and measuring")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds over which CPU time is measured")
    parser.add_argument("--alone", action="store_true", help="measure the center only")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        directory = Path(name)
        root, log = running.enter_context(center(directory))
        programs = {}
        if not options.alone:
            scraper, port = running.enter_context(prometheus(directory / "prometheus"))
            agent = running.enter_context(vmagent(directory / "vmagent", port))
            programs = {"prometheus": {scraper: "prometheus"}, "vmagent": {agent: "vmagent"}}
        time.sleep(options.settle)
        rows = measure({"tocsin": names_of(root, log), **programs}, options.seconds)
    report(rows)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
