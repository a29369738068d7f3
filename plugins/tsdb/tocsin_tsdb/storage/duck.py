"""DuckDB as the reader and writer of Parquet files: one in-memory database per store, one cursor per call.

The library is imported when the first block is read or written, not before.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin_tsdb.storage.errors import CorruptBlock, ReadFailed, unreadable

if TYPE_CHECKING:
    import duckdb

ROW_GROUP = 61_440
"""Rows that are compressed together where the writer does not say otherwise."""
MOST_RUNS = 16
"""Runs of references that are told one by one; more would cost more than reading what is between them."""
ATTEMPTS = 3
"""A database that met a damaged file may refuse what others ask of it at the same time; they ask a new one."""
_SETTINGS = {
    "enable_progress_bar": "false",
    "enable_external_file_cache": "false",  # the kernel's page cache does, and its memory is not ours
    "parquet_metadata_cache": "true",
    "async_threads": "0",  # for remote files; versions before 2.0 have none
    "allocator_flush_threshold": "'1MB'",  # give freed memory back instead of keeping it for the next query
    "allocator_bulk_deallocation_flush_threshold": "'1MB'",
}


class Parquet:
    """Reads and writes Parquet files with bounded memory and threads."""

    def __init__(self, memory_bytes: int, threads: int, spill_directory: Path) -> None:
        self._settings = {
            "memory_limit": f"{memory_bytes // 1024}KiB",
            "threads": str(threads),
            "temp_directory": str(spill_directory),
        }
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def _database(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        with self._lock:
            if self._connection is None:
                connection = duckdb.connect(":memory:", config=dict(self._settings))
                known = {name for (name,) in connection.execute("SELECT name FROM duckdb_settings()").fetchall()}
                for name in _SETTINGS.keys() & known:
                    connection.execute(f"SET {name} = {_SETTINGS[name]}")
                self._connection = connection
            return self._connection

    def _abandon(self, database: duckdb.DuckDBPyConnection) -> None:
        """Let the next call open another database: this one refuses everything since it met what it did not expect."""
        with self._lock:
            if self._connection is database:
                self._connection = None

    def write(self, path: Path, columns: Mapping[str, npt.NDArray[Any]], row_group: int = ROW_GROUP) -> None:
        """Write columns as one Parquet file of row groups of a size. Raises OSError (disk full included)."""
        import duckdb

        database = self._database()
        try:
            with database.cursor() as cursor:
                cursor.register("rows", dict(columns))
                cursor.execute(
                    f"COPY (SELECT * FROM rows) TO {_text(path)} "  # noqa: S608 - our own path, quoted
                    f"(FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2, ROW_GROUP_SIZE {row_group})"
                )
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                self._abandon(database)
            raise OSError(f"cannot write {path.name}: {error}") from error

    def read(self, path: Path, columns: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
        """Return whole columns in file order. Raises CorruptBlock, ReadFailed."""
        return self._fetch(path, columns, "")

    def read_chunks(
        self, path: Path, columns: tuple[str, ...], refs: npt.NDArray[np.int32], start: int, end: int
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the chunks of ascending `refs` that may have samples in [start, end], in file order.

        Raises CorruptBlock, ReadFailed.
        """
        low, high = int(refs[0]), int(refs[-1])
        where = f"WHERE start <= {end} AND stop >= {start} AND ref BETWEEN {low} AND {high}"
        breaks = np.flatnonzero(np.diff(refs) > 1)
        if 0 < len(breaks) < MOST_RUNS:
            firsts, lasts = refs[np.append(0, breaks + 1)].tolist(), refs[np.append(breaks, -1)].tolist()
            runs = (f"ref BETWEEN {first} AND {last}" for first, last in zip(firsts, lasts, strict=True))
            where += f" AND ({' OR '.join(runs)})"
        rows = self._fetch(path, columns, where)
        if len(breaks) < MOST_RUNS:
            return rows
        wanted = np.zeros(high - low + 1, bool)
        wanted[refs - low] = True
        keep = wanted[rows["ref"] - low]
        return {name: column[keep] for name, column in rows.items()}

    def _fetch(self, path: Path, columns: tuple[str, ...], tail: str) -> dict[str, npt.NDArray[Any]]:
        import duckdb

        query = f"SELECT {', '.join(columns)} FROM read_parquet({_text(path)}) {tail}"  # noqa: S608 - our own names
        try:
            rows = self._run(query, ATTEMPTS)
        except (duckdb.Error, UnicodeError) as error:  # a message that quotes a damaged file is not text always
            raise _failure(path, error) from error
        return {name: np.asarray(rows[name]) for name in columns}

    def _run(self, query: str, attempts: int) -> dict[str, npt.NDArray[Any]]:
        import duckdb

        database = self._database()
        try:
            with database.cursor() as cursor:
                return cursor.execute(query).fetchnumpy()
        except duckdb.InternalException:
            self._abandon(database)
            raise
        except duckdb.FatalException:
            self._abandon(database)
            if attempts == 1:
                raise
        return self._run(query, attempts - 1)

    def close(self) -> None:
        """Release the database; later calls open it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _failure(path: Path, error: Exception) -> CorruptBlock | ReadFailed:
    """Tell a damaged file from a machine that lacks memory or file handles."""
    import duckdb

    name = f"{path.parent.name}/{path.name}"
    if isinstance(error, duckdb.OutOfMemoryException):
        return ReadFailed(f"{name}: {error}")
    try:
        path.open("rb").close()
    except OSError as problem:
        return unreadable(name, problem)
    return CorruptBlock(f"{name}: {error}")


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
