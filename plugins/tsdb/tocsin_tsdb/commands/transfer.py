"""Import and export.

The remote-write dump is a sequence of `length u32 little-endian | snappy block with a WriteRequest`; it keeps every bit, and
what is known about the metric families. OpenMetrics text cannot say that a series ended: staleness markers are left out, for as
plain NaN they would come back as values.
"""

from __future__ import annotations

import argparse
import contextlib
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import cramjam
import numpy as np
from prometheus_client import CollectorRegistry

from tocsin_tsdb.api.params import UNBOUNDED, parse_time
from tocsin_tsdb.promql.interface import METRIC_NAME, STALE_NAN_BITS, Labels, PromQLError
from tocsin_tsdb.promql.labeltext import is_plain_metric, label_name
from tocsin_tsdb.promql.numbers import format_json, time_token
from tocsin_tsdb.promql.parser import parse_matchers
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.importer import Importer
from tocsin_tsdb.storage.options import StoreOptions
from tocsin_tsdb.storage.store import Store
from tocsin_tsdb.storage.wire import Metadata

_LENGTH = struct.Struct("<I")
MAX_DUMP_RECORD = 256 << 20
SAMPLES_PER_RECORD = 50_000
SERIES_PER_READ = 200


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[Store]:
    """Open the store of a data directory, which must exist. Raises StoreUnusable, FileNotFoundError."""
    if not directory.is_dir():
        raise FileNotFoundError(f"no data directory {directory}")
    store = Store(StoreOptions(directory), CollectorRegistry())
    try:
        yield store
    finally:
        store.close()


def run_import(directory: Path, source: str, form: str) -> int:
    """Bring samples in and say how many. Raises StoreError, OSError, ValueError."""
    directory.mkdir(parents=True, exist_ok=True)
    with opened(directory) as store, _reading(source) as file:
        importer = Importer(store)
        for body in _openmetrics(file) if form == "openmetrics" else _dump(file):
            importer.add(body)
        importer.flush()
    print(f"{importer.samples} samples in {importer.blocks} blocks, {importer.invalid} refused for their labels")
    return 0


@contextlib.contextmanager
def _reading(source: str) -> Iterator[IO[bytes]]:
    if source == "-":
        yield sys.stdin.buffer
    else:
        with Path(source).open("rb") as file:
            yield file


def _dump(file: IO[bytes]) -> Iterator[bytes]:
    number = 0
    while header := file.read(_LENGTH.size):
        number += 1
        size = _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else MAX_DUMP_RECORD + 1
        packed = file.read(size) if size <= MAX_DUMP_RECORD else b""
        if len(packed) != size:
            raise ValueError(f"record {number} of the dump is cut off or not a dump at all")
        try:
            yield bytes(cramjam.snappy.decompress_raw(packed))
        except cramjam.DecompressionError as error:
            raise ValueError(f"record {number} of the dump: {error}") from None


def _openmetrics(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a write request per metric family."""
    import io

    from prometheus_client.openmetrics.parser import text_fd_to_metric_families

    text = io.TextIOWrapper(file, "utf-8")
    for family in text_fd_to_metric_families(text):  # type: ignore[no-untyped-call]
        series: dict[Labels, tuple[list[int], list[float]]] = {}
        for sample in family.samples:
            if sample.timestamp is None:
                raise ValueError(f"{sample.name}: a sample without a timestamp")
            labels = tuple(sorted({**sample.labels, METRIC_NAME: sample.name}.items()))
            times, values = series.setdefault(labels, ([], []))
            times.append(round(float(sample.timestamp) * 1000))
            values.append(float(sample.value))
        body = wire.encode_metadata(Metadata(family.name, family.type, family.documentation, family.unit))
        for labels, (times, values) in series.items():
            body += wire.encode_series(wire.encode_labels(labels), np.array(times), np.array(values, np.float64))
        yield body
    text.detach()


def run_export(directory: Path, arguments: argparse.Namespace) -> int:
    """Write samples out, series by series. Raises StoreError, OSError, ValueError."""
    start = parse_time(arguments.start) if arguments.start else -UNBOUNDED
    end = parse_time(arguments.end) if arguments.end else UNBOUNDED
    try:
        selectors = [parse_matchers(text) for text in arguments.match]
    except PromQLError as error:
        raise ValueError(str(error)) from None
    with opened(directory) as store, _writing(arguments.output) as out:
        sids = store.series_ids(selectors, start, end)
        names = store.index.labels(sids.tolist())
        order = sorted(range(len(sids)), key=lambda row: (dict(names[row]).get(METRIC_NAME, ""), names[row]))
        rows = _series(store, sids[order], start, end)
        if arguments.format == "openmetrics":
            left_out = _write_openmetrics(out, rows)
            if left_out:
                print(f"{left_out} staleness markers left out: only --format remote-write keeps them", file=sys.stderr)
        else:
            _write_dump(out, store.families(), rows)
    return 0


@contextlib.contextmanager
def _writing(target: str) -> Iterator[IO[bytes]]:
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with Path(target).open("wb") as file:
            yield file


Rows = Iterable[tuple[Labels, wire.Int64Array, wire.Float64Array]]


def _series(store: Store, sids: wire.Int32Array, start: int, end: int) -> Rows:
    """Yield series in the order given, reading some at a time."""
    for at in range(0, len(sids), SERIES_PER_READ):
        part = sids[at : at + SERIES_PER_READ]
        found = store.select_ids(np.sort(part), start, end, max_samples=1 << 40)
        rows = {labels: row for row, labels in enumerate(found.labels)}
        for labels in store.index.labels(part.tolist()):
            if labels in rows:
                span = slice(int(found.offsets[rows[labels]]), int(found.offsets[rows[labels] + 1]))
                yield labels, found.timestamps[span], found.values[span]


def _write_openmetrics(out: IO[bytes], rows: Rows) -> int:
    """Write samples as text; returns how many staleness markers were left out."""
    left_out = 0
    for labels, times, values in rows:
        name = _openmetrics_name(labels)
        kept = values.view(np.uint64) != STALE_NAN_BITS
        left_out += int(len(kept) - kept.sum())
        for time, value in zip(times[kept].tolist(), values[kept].tolist(), strict=True):
            out.write(b"%b %b %b\n" % (name, format_json(value).encode(), time_token(time)))
    out.write(b"# EOF\n")
    return left_out


def _openmetrics_name(labels: Labels) -> bytes:
    """Return a series' name as OpenMetrics wants it: no blanks; names beyond ASCII letters in quotes."""
    metric = dict(labels).get(METRIC_NAME, "")
    plain = is_plain_metric(metric)
    pairs = [f"{label_name(name)}={_quoted(value)}" for name, value in labels if name != METRIC_NAME]
    if not plain and metric:
        pairs.insert(0, _quoted(metric))
    return f"{metric if plain else ''}{{{','.join(pairs)}}}".encode() if pairs else metric.encode()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _write_dump(out: IO[bytes], families: Mapping[str, Sequence[Metadata]], rows: Rows) -> None:
    _write_record(out, [wire.encode_metadata(family) for said in families.values() for family in said])
    parts: list[bytes] = []
    waiting = 0
    for labels, times, values in rows:
        for at in range(0, len(times), SAMPLES_PER_RECORD):
            span = slice(at, at + SAMPLES_PER_RECORD)
            parts.append(wire.encode_series(wire.encode_labels(labels), times[span], values[span]))
            waiting += len(times[span])
            if waiting >= SAMPLES_PER_RECORD:
                _write_record(out, parts)
                parts, waiting = [], 0
    _write_record(out, parts)


def _write_record(out: IO[bytes], parts: list[bytes]) -> None:
    if parts:
        packed = bytes(cramjam.snappy.compress_raw(b"".join(parts)))
        out.write(_LENGTH.pack(len(packed)) + packed)
