"""Freshly set up installations, kept as bytes: a test begins with the files of one instead of setting up its own."""

from __future__ import annotations

import json
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tocsin.app.capabilities import core_features

Clock = Callable[[], float]
SetUp = Callable[[str, Mapping[str, Any], Clock], None]
"""Sets up an installation without any plugin: ``(process, document, clock)``."""

_FILES = ("tocsin.db", "secret.key")
_ELSEWHERE = frozenset(("db", "data", "secrets", "root"))
"""Sections that name another database, directory or key, or the password of the first administrator."""
_SEEDING = frozenset(("http", "access"))
"""Sections that the first rows are made of."""


class Installations:
    """What core's migrations and first rows leave on disk, for each way in which they may differ.

    Setting up means the same dozens of statements for every test.  Done once and copied, they leave to a test's own
    start what differs: the migrations and rows of its plugins, and the check that core's are there.
    """

    KEPT = 16
    """How many are kept, the least recently used go first; one is half a megabyte."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], dict[str, bytes]] = OrderedDict()

    def lay(self, data: Path, process: str, document: Mapping[str, Any], clock: Clock, set_up: SetUp) -> None:
        """Put the files of an installation into ``data``, unless it has one or its database is elsewhere."""
        if any(name.lower() in _ELSEWHERE for name in document) or (data / _FILES[0]).exists():
            return
        decisive = {name: section for name, section in document.items() if name.lower() in _SEEDING}
        now = None if clock is time.time else clock()
        key = (process, json.dumps(decisive, sort_keys=True, default=repr), now, core_features())
        files = self._kept.pop(key, None) or _made(process, decisive, clock, set_up)
        self._kept[key] = files
        if len(self._kept) > self.KEPT:
            self._kept.popitem(last=False)
        data.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            if not (data / name).exists():
                (data / name).touch(mode=0o600)
                (data / name).write_bytes(content)


def _made(process: str, decisive: Mapping[str, Any], clock: Clock, set_up: SetUp) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="tocsin-installation-") as directory:
        set_up(process, {"Data": {"Dir": directory}, **decisive}, clock)
        return {name: (Path(directory) / name).read_bytes() for name in _FILES}
