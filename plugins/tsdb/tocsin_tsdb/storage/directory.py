"""Taking possession of a data directory. Needs nothing but the standard library: the launcher calls it too."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from tocsin_tsdb.storage.errors import StoreUnusable


def lock(directory: Path) -> IO[bytes]:
    """Create and lock a data directory; closing the file gives it back. Raises StoreUnusable with what is wrong."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / "LOCK").open("wb")
    except OSError as error:
        raise StoreUnusable(f"data directory {directory} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StoreUnusable(f"data directory {directory} is locked by another process") from error
    file.write(str(os.getpid()).encode())
    file.flush()
    return file
