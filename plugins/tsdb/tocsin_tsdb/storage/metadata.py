"""What senders say about metric families, for the `metadata` endpoint. Bounded, and saved now and then: senders repeat it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

import orjson

from tocsin_tsdb.storage.block import write_atomically
from tocsin_tsdb.storage.wire import Metadata

log = logging.getLogger(__name__)

MOST_FAMILIES = 100_000
MOST_PER_FAMILY = 10


class MetadataStore:
    """Family name -> its descriptions (several when senders disagree)."""

    def __init__(self, path: Path) -> None:
        """Load what was saved; an unreadable file is ignored with a log line, for senders will repeat what was in it."""
        self._path = path
        self._lock = threading.Lock()
        self._families: dict[str, dict[Metadata, None]] = {}
        self._changed = False
        self._load()

    def _load(self) -> None:
        try:
            rows = orjson.loads(self._path.read_bytes())
            self.update(Metadata(*row) for row in rows)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s cannot be read and is ignored: %s", self._path, error)
        self._changed = False

    def update(self, families: Iterable[Metadata]) -> None:
        """Remember descriptions; beyond the limits the oldest of a family and new families are left out."""
        for each in families:
            with self._lock:
                known = self._families.get(each.family)
                if known is None:
                    if len(self._families) >= MOST_FAMILIES:
                        continue
                    known = self._families[each.family] = {}
                if each not in known:
                    known[each] = None
                    self._changed = True
                    if len(known) > MOST_PER_FAMILY:
                        del known[next(iter(known))]

    def families(self) -> dict[str, list[Metadata]]:
        """Return all descriptions by family."""
        with self._lock:
            return {family: list(known) for family, known in self._families.items()}

    def save(self) -> None:
        """Write to disk what has changed; a failure is logged and tried again at the next call."""
        with self._lock:
            if not self._changed:
                return
            rows = [[m.family, m.type, m.help, m.unit] for known in self._families.values() for m in known]
            self._changed = False
        try:
            write_atomically(self._path, orjson.dumps(rows))
        except OSError as error:
            self._changed = True
            log.warning("%s cannot be saved: %s", self._path, error)
