"""The hosts of a center as a gateway without its database sees them: read through the service API, and kept on disk.

The file lets a gateway, or one worker of it, start while no center answers and attach the labels that were last known.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from tocsin.app.settings import SettingsError
from tocsin.ingest.hosts import Target
from tocsin.ingest.throttle import Throttle
from tocsin.store.snapshots import ReadLog
from tocsin.targets.book import labels_of
from tocsin.targets.center import Center, CenterError

log = logging.getLogger(__name__)

POLL_SECONDS = 9.0
WATCHED = ("target", "busi_group")
"""The statistics of the center that tell when labels may have changed."""


class Mirror:
    """The registered hosts with labels (:class:`~tocsin.ingest.hosts.TargetLabels`), at most nine seconds old."""

    def __init__(self, center: Center, file: Path, reads: ReadLog) -> None:
        self._center, self._file, self._reads = center, file, reads
        self._hosts: Mapping[str, Target] = {}
        self._state: tuple[int, Collection[str]] = (0, ())
        self._seen: list[Any] = []
        self._settled = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed = Throttle(log)

    # --- for the gateway ---

    def changes(self, since: int) -> tuple[int, Collection[str] | None]:
        """Return the present version and the hosts that changed after version ``since``; None means any."""
        version, changed = self._state
        if since == version:
            return version, ()
        return version, changed if since == version - 1 else None

    def lookup(self, ident: str) -> Target | None:
        """Return what is attached to a host's series, or None when there is nothing."""
        return self._hosts.get(ident)

    # --- reading ---

    def check(self) -> None:
        """Read the hosts for the first time; raise ``SettingsError`` when no center answers and none are known."""
        try:
            self.refresh()
        except CenterError as error:
            if not self._file.exists():
                raise SettingsError(
                    f"CenterApi.Addrs: no center answers, and no hosts are known yet: {error}"
                ) from None
            log.warning("no center answers, hosts get the labels that were last known: %s", error)

    def refresh(self) -> None:
        """Read the hosts if any may have changed; raise ``CenterError`` when no center answers."""
        started = time.time()
        try:
            count = self._read()
        except CenterError as error:
            self._reads.add(started, -1, f"failed to query records: {error}")
            raise
        self._reads.add(started, count, "not changed" if count < 0 else "success")

    def _read(self) -> int:
        """Return how many hosts with labels there are, -1 when nothing has changed."""
        now = [self._center.get("/v1/svc/statistic", name=name) for name in WATCHED]
        if now == self._seen and self._settled:
            return -1
        groups, hosts = self._center.get("/v1/svc/busi-groups"), self._center.get("/v1/svc/targets")
        try:
            found = _targets(hosts, groups)
        except (KeyError, TypeError, AttributeError) as error:
            raise CenterError(f"what the center says of its hosts cannot be read: {error!r}") from None
        self._replace(found)
        # The statistics tell whole seconds: a second change within one shows only to those who read once more.
        self._settled, self._seen = now == self._seen, now
        return len(found)

    def load(self) -> None:
        """Take the hosts from the file, if there is one."""
        try:
            stored = orjson.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return  # the first answer of the center replaces it
        self._hosts = {ident: Target(_encoded(labels), group.encode()) for ident, (labels, group) in stored.items()}
        self._state = (self._state[0] + 1, self._hosts.keys())

    def _replace(self, hosts: Mapping[str, Target]) -> None:
        before = self._hosts
        changed = {ident for ident in before.keys() | hosts.keys() if before.get(ident) != hosts.get(ident)}
        if changed:
            self._hosts = hosts
            self._state = (self._state[0] + 1, changed)
        if changed or not self._file.exists():
            self._store(hosts)

    def _store(self, hosts: Mapping[str, Target]) -> None:
        stored = {ident: (_decoded(target.labels), target.group_label.decode()) for ident, target in hosts.items()}
        fresh = self._file.with_suffix(f".{os.getpid()}")  # each worker writes its own
        fresh.write_bytes(orjson.dumps(stored))
        fresh.replace(self._file)

    # --- life ---

    def start(self) -> None:
        """Read on in the background."""
        self.load()
        self._thread = threading.Thread(target=self._run, name="hosts of the center", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self.refresh()
            except Exception as error:
                reason = str(error)
                self._failed.warning(lambda: f"hosts keep the labels that were last known: {reason}")  # noqa: B023
            if self._stopping.wait(POLL_SECONDS):
                return


def _targets(hosts: Iterable[Mapping[str, Any]], groups: Iterable[Mapping[str, Any]]) -> dict[str, Target]:
    """Return the hosts of a center's answers that have labels."""
    named = {group["id"]: group["label_value"].encode() for group in groups if group["label_enable"]}
    found = {}
    for host in hosts:
        labels = labels_of(host["tags"] or (), host["host_tags"] or ())
        group = next((named[group] for group in host["group_ids"] or () if named.get(group)), b"")
        if labels or group:
            found[host["ident"]] = Target(labels, group)
    return found


def _encoded(labels: Mapping[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in labels.items()}


def _decoded(labels: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in labels.items()}
