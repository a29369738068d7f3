"""Damaged blocks cost themselves, nothing else; and what is not damage costs no block."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from tocsin_tsdb.storage import codec
from tocsin_tsdb.storage.block import decoded
from tocsin_tsdb.storage.duck import Parquet
from tocsin_tsdb.storage.errors import CorruptBlock, ReadFailed, StoreUnusable

MakeBox = Callable[..., Any]
SERIES = 40
ALL = np.arange(SERIES, dtype=np.int32)


@pytest.fixture
def parquet(tmp_path: Path) -> Iterator[Parquet]:
    made = Parquet(64 << 20, 1, tmp_path / "spill")
    yield made
    made.close()


def columns() -> codec.Columns:
    times = np.tile(np.arange(200) * 15_000 + np.arange(200) % 3, SERIES)
    values = np.arange(200 * SERIES) ** 2 / 4.0
    return codec.encode(np.arange(SERIES), np.arange(SERIES + 1) * 200, times, values)


def damaged(good: bytes, rng: random.Random) -> bytes:
    """Alter up to three bytes, half of them in the part that describes the rest; or cut the file off."""
    if rng.random() < 0.1:
        return good[: rng.randrange(len(good))]
    out = bytearray(good)
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(out)) if rng.random() < 0.5 else len(out) - 1 - rng.randrange(2500)
        out[at] = rng.randrange(256)
    return bytes(out)


def test_damaged_files_are_corrupt_or_readable_and_never_more(parquet: Parquet, tmp_path: Path) -> None:
    """Some kinds of damage end the database that reads them: others must not notice."""
    good = tmp_path / "good"
    parquet.write(good, columns(), codec.ROW_GROUP)
    rng, content = random.Random(5), good.read_bytes()
    refused: list[str] = []
    for number in range(150):
        bad = tmp_path / f"bad-{number}"
        bad.write_bytes(damaged(content, rng))
        try:
            decoded(parquet.read_chunks(bad, codec.COLUMNS, ALL, 0, 1 << 50), bad)
        except CorruptBlock as error:
            refused.append(str(error))
        bad.unlink()
    assert 20 < len(refused) < 150
    assert all("bad-" in text for text in refused)
    assert len(codec.decode(parquet.read(good, codec.COLUMNS)).times) == 200 * SERIES


class Ended:
    """A database that refuses everything."""

    def cursor(self) -> Any:
        raise duckdb.FatalException("database has been invalidated because of a previous fatal error")

    def close(self) -> None:
        """Close."""


def test_a_database_that_ended_is_replaced(parquet: Parquet, tmp_path: Path) -> None:
    ended: Any = Ended()
    parquet._connection = ended
    with pytest.raises(OSError, match="invalidated"):
        parquet.write(tmp_path / "x", columns())
    parquet.write(tmp_path / "x", columns())
    parquet._connection = ended
    assert len(parquet.read(tmp_path / "x", ("ref",))["ref"]) == 2 * SERIES


def test_databases_that_keep_ending_mean_a_damaged_file(
    parquet: Parquet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Ended] = []

    def connect() -> Ended:
        asked.append(Ended())
        return asked[-1]

    monkeypatch.setattr(parquet, "_database", connect)
    (tmp_path / "x").write_bytes(b"x")
    with pytest.raises(CorruptBlock):
        parquet.read(tmp_path / "x", ("ref",))
    assert len(asked) == 3


@pytest.fixture
def box(make_box: MakeBox, now: int) -> Any:
    """A store with one block, none of it in memory."""
    made = make_box(hot_bytes=0)
    made.write(a=[(now, 1.0)])
    made.maintenance.flush()
    return made


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


def test_a_lack_of_memory_costs_the_query_not_the_block(box: Any, now: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(box.store.files.parquet, "_run", failing(duckdb.OutOfMemoryException("failed to allocate")))
        with pytest.raises(ReadFailed, match="failed to allocate"):
            box.read()
    assert box.read() == {"a": [(now, 1.0)]}
    assert box.metric("svc_tsdb_block_corruptions_total") == 0


def test_damage_that_looks_like_a_lack_of_memory_is_damage(box: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = box.store.blocks.current[0].path / "samples-00000.parquet"
    file.write_bytes(b"x" * file.stat().st_size)
    monkeypatch.setattr(box.store.files.parquet, "_run", failing(duckdb.OutOfMemoryException("failed to allocate")))
    assert box.read() == {}
    assert box.metric("svc_tsdb_block_corruptions_total") == 1


def test_a_lack_of_file_handles_costs_the_query_not_the_block(
    box: Any, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(box.store.files.parquet, "_run", failing(duckdb.IOException("cannot open file")))
        patch.setattr(Path, "open", failing(OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(ReadFailed, match="Too many open files"):
            box.read()
    assert box.read() == {"a": [(now, 1.0)]}


def test_a_lack_of_file_handles_at_start_stops_the_start_not_the_block(
    box: Any, make_box: MakeBox, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.close()
    with monkeypatch.context() as patch:
        patch.setattr("tocsin_tsdb.storage.block.file_sum", failing(OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(StoreUnusable, match="Too many open files"):
            make_box()
    assert make_box().read() == {"a": [(now, 1.0)]}


def test_a_file_that_is_gone_is_damage(box: Any) -> None:
    (box.store.blocks.current[0].path / "samples-00000.parquet").unlink()
    assert box.read() == {}
    assert box.metric("svc_tsdb_block_corruptions_total") == 1
