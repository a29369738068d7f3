"""Wire functions: microseconds per series of the compiled and the plain twin, and what the codec beside them takes.

    python benchmarks/wire.py [--labels 8,20] [--json FILE]

The first pass over 200,000 distinct series is the cold one (each label set is resolved), the best of the others is warm. The plain
twin gets a tenth of the series. Thread CPU time, garbage collector off.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import cramjam
from gateway import ADDED, SERIES_PER_REQUEST, make_bodies

from tocsin.ingest.hosts import NoHosts, Target
from tocsin.ingest.labels import COLLECTOR, LabelRules, LabelWork

CUT = 1000
WARM_PASSES = 4


class Everybody(NoHosts):
    """Every host has two labels."""

    target = Target({name.encode(): value.encode() for name, value in ADDED.items()})

    def lookup(self, ident: str) -> Target | None:
        """Return the same target for each host."""
        return self.target


def timed(work: Callable[[bytes], object], bodies: list[bytes]) -> float:
    """Return microseconds per series."""
    started = time.thread_time()
    for body in bodies:
        work(body)
    return (time.thread_time() - started) / len(bodies) / SERIES_PER_REQUEST * 1e6


def measure(twin: ModuleType, bodies: list[bytes]) -> dict[str, float]:
    """Return the cold and the warm figure of a twin."""
    cache = twin.LabelCache(LabelWork(LabelRules(), Everybody(), COLLECTOR), 1_000_000)
    passes = [timed(lambda body: twin.rewrite(body, cache, 1_760_000_000_000, CUT), bodies) for _ in range(WARM_PASSES)]
    return {"cold": passes[0], "warm": min(passes[1:])}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="8,20")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    gc.disable()
    figures: dict[str, dict[str, float]] = {}
    for labels in map(int, options.labels.split(",")):
        packed = make_bodies(labels)
        bodies = [bytes(cramjam.snappy.decompress_raw(body)) for body in packed]
        for name, share in (("_wire", bodies), ("_wire_py", bodies[: len(bodies) // 10])):
            twin = importlib.import_module(f"tocsin.ingest.{name}")
            figures[f"{twin.IMPLEMENTATION}, {labels} labels"] = measure(twin, share)
        codec = {"decompress": timed(cramjam.snappy.decompress_raw, packed)}
        figures[f"snappy, {labels} labels"] = {**codec, "compress": timed(cramjam.snappy.compress_raw, bodies)}
    for name, row in figures.items():
        print(f"{name:24}" + "".join(f"{key:>12}{value:>9.3f}" for key, value in row.items()))
    print("microseconds of CPU per series")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
