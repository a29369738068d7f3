"""Looking into a data directory without opening the store: safe beside a running service."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tocsin_tsdb.promql.durations import format_duration
from tocsin_tsdb.promql.interface import METRIC_NAME
from tocsin_tsdb.storage import codec, wal
from tocsin_tsdb.storage.block import META, Meta, SeriesRows, decoded, load_block
from tocsin_tsdb.storage.duck import Parquet
from tocsin_tsdb.storage.errors import CorruptBlock
from tocsin_tsdb.storage.index import SeriesIndex

MEMORY = 512 << 20
TOP = 10


def _blocks(directory: Path) -> Iterator[Path]:
    if not directory.is_dir():
        raise FileNotFoundError(f"no data directory {directory}")
    yield from sorted(path.parent for path in directory.glob(f"blocks/*/{META}") if not path.parent.suffix)


def verify(directory: Path) -> int:
    """Check sizes, checksums and contents of every block, and every log record; 1 when anything is wrong."""
    faults = blocks = segments = 0
    with tempfile.TemporaryDirectory() as spill:
        parquet = Parquet(MEMORY, 1, Path(spill))
        for path in _blocks(directory):
            blocks += 1
            try:
                _verify_block(path, parquet)
            except CorruptBlock as error:
                if not path.exists():  # merged or expired while we looked
                    continue
                faults += 1
                print(f"block {error}")
        parquet.close()
    for path in sorted(directory.glob("wal/*.wal")):
        segments += 1
        try:
            for record in wal.replay(path):
                if isinstance(record, wal.Torn):
                    faults += 1
                    print(f"log {path.name}, byte {record.offset}: {record.reason}")
        except FileNotFoundError:
            continue
    print(f"{blocks} blocks and {segments} log segments checked, {faults} faults")
    return 1 if faults else 0


def _verify_block(path: Path, parquet: Parquet) -> None:
    meta, rows = load_block(path, parquet)
    counts = np.zeros(meta.series, np.int64)
    for file in meta.files:
        chunks = decoded(parquet.read(path / file.name, codec.COLUMNS), path / file.name)
        samples = np.diff(chunks.offsets)
        np.add.at(counts, chunks.refs, samples)
        refs, times = np.repeat(chunks.refs, samples), chunks.times
        late = np.flatnonzero((refs[1:] == refs[:-1]) & (times[1:] <= times[:-1]))
        if len(late):
            raise CorruptBlock(f"{path.name}/{file.name}: times of reference {refs[late[0]]} do not ascend")
    if (counts != rows.samples).any():
        raise CorruptBlock(f"{path.name}: the series file and the sample files count differently")


def stats(directory: Path) -> int:
    """Show the blocks and what is in them."""
    index = SeriesIndex(lambda: 0.0, 0.0)
    samples = size = 0
    print(f"{'block':32}  {'from':>15} {'span':>10} {'series':>9} {'samples':>12} {'bytes':>12} {'B/sample':>9}")
    with tempfile.TemporaryDirectory() as spill:
        parquet = Parquet(MEMORY, 1, Path(spill))
        for path in _blocks(directory):
            try:
                meta, rows = load_block(path, parquet)
            except CorruptBlock as error:
                print(f"torn: {error}")
                continue
            index.register(rows.keys)
            _print_block(meta, rows)
            samples += meta.samples
            size += sum(each for each, _ in meta.sums.values())
        parquet.close()
    log_size = sum(path.stat().st_size for path in directory.glob("wal/*.wal"))
    per_sample = f"{size / samples:.2f}" if samples else "-"
    print(f"\n{len(index)} series, {samples} samples and {size} bytes in blocks ({per_sample} bytes per sample)")
    print(f"{log_size} bytes in the log")
    _print_cardinalities(index)
    return 0


def _print_block(meta: Meta, rows: SeriesRows) -> None:
    size = sum(each for each, _ in meta.sums.values())
    span = format_duration(meta.end - meta.start)
    print(
        f"{meta.id:32}  {meta.min_time:>15} {span:>10} {len(rows.keys):>9} {meta.samples:>12} {size:>12} "
        f"{size / meta.samples:>9.2f}"
    )


def _print_cardinalities(index: SeriesIndex) -> None:
    counts = index.cardinalities()
    for title, rows in (
        ("series by metric", counts.get(METRIC_NAME, {})),
        ("values by label", {name: len(values) for name, values in counts.items()}),
    ):
        print(f"\n{title}:")
        for name, count in sorted(rows.items(), key=lambda row: (-row[1], row[0]))[:TOP]:
            print(f"{count:>10}  {name}")
