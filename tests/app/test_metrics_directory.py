"""The directory in which a service's processes add their metrics up is memory: nobody's is given back."""

import fcntl
import os
import time
from pathlib import Path

from tocsin.app.cli import FRESH_SECONDS, METRICS_PREFIX, remove_abandoned

LONG_AGO = time.time() - 2 * FRESH_SECONDS


def directory(parent: Path, name: str, changed: float = LONG_AGO) -> Path:
    path = parent / name
    path.mkdir()
    (path / "counter_1.db").write_bytes(b"x")
    os.utime(path, (changed, changed))
    return path


def test_only_what_nobody_holds_is_removed(tmp_path: Path) -> None:
    killed = directory(tmp_path, f"{METRICS_PREFIX}killed")
    starting = directory(tmp_path, f"{METRICS_PREFIX}starting", time.time() + FRESH_SECONDS)
    serving = directory(tmp_path, f"{METRICS_PREFIX}serving")
    other = directory(tmp_path, "somebody-elses")
    target = directory(tmp_path, "linked")
    (tmp_path / f"{METRICS_PREFIX}link").symlink_to(target)
    held = os.open(serving, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        remove_abandoned(tmp_path)
        assert not killed.exists()
        assert all((path / "counter_1.db").exists() for path in (starting, serving, other, target))
    finally:
        os.close(held)
    remove_abandoned(tmp_path)
    assert not serving.exists()
