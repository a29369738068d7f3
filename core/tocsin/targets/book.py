"""What is attached to the series of hosts, held in memory and never stale: the gateway's view of the hosts."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.access.directory import GROUPS, Directory
from tocsin.ingest.hosts import Target
from tocsin.ingest.throttle import Throttle
from tocsin.store.snapshots import Snapshots
from tocsin.targets import tags
from tocsin.targets.gate import Gate
from tocsin.targets.metrics import TargetMetrics
from tocsin.targets.models import TargetGroup, TargetRow

log = logging.getLogger(__name__)

CHANGES, REMOVALS = "targets", "target_removals"
"""Parts for ``core.snapshots.bump``: hosts that changed, which carry the number of the change, and hosts that are gone."""
RESERVED = frozenset(("__name__", "ident"))
"""Labels that say what a series is and whose it is; a tag of that name changes neither."""
REMEMBERED = 1000
"""Changes after which a reader that asks for older ones is told that anything may have changed."""


def next_change(snapshots: Snapshots) -> int:
    """Return the number for the hosts that the present transaction changes.

    Taking it locks out other changes until the transaction ends, so whoever sees a number also sees all changes up to it.
    """
    snapshots.bump(CHANGES)
    return snapshots.versions()[CHANGES]


@dataclass(frozen=True, slots=True)
class _Entry:
    labels: Mapping[bytes, bytes]
    groups: tuple[int, ...]


NOTHING = _Entry({}, ())
"""What is known of a host that never had labels or groups."""


class LabelBook:
    """The registered hosts with labels or groups (:class:`~tocsin.ingest.hosts.TargetLabels`).

    A change costs a read of the hosts that changed, not of all. Without the database the last known labels are used, and
    so they are by those whom the gate turns away while it hangs.
    """

    def __init__(self, snapshots: Snapshots, directory: Directory, metrics: TargetMetrics, gate: Gate) -> None:
        self._snapshots, self._directory, self._metrics, self._gate = snapshots, directory, metrics, gate
        self._reading = threading.Lock()
        self._lock = threading.Lock()  # never held while the database is asked
        self._held: tuple[int, ...] = (0, 0, 0)
        self._entries: dict[str, _Entry] = {}
        self._group_labels: dict[int, bytes] = {}
        self._reads = snapshots.log("targets")
        self._number = 0
        self._log: deque[tuple[int, Collection[str] | None]] = deque(maxlen=REMEMBERED)
        self._failed = Throttle(log)

    def changes(self, since: int) -> tuple[int, Collection[str] | None]:
        """Return the present version and the hosts that changed after version ``since``; None means any."""
        try:
            with self._gate.entered():
                self._refresh()
        except Exception as error:
            self._metrics.stale.inc()
            name = type(error).__name__
            self._reads.add(time.time(), -1, f"failed to query records: {name}")
            self._failed.warning(lambda: f"labels of hosts cannot be read ({name}), the last known ones are used")
        with self._lock:
            if since == self._number:
                return since, ()
            later = [idents for number, idents in self._log if number > since]
            if len(later) != self._number - since or any(idents is None for idents in later):
                return self._number, None
            return self._number, {ident for idents in later if idents is not None for ident in idents}

    def lookup(self, ident: str) -> Target | None:
        """Return what is attached to a host's series, or None when there is nothing."""
        entry = self._entries.get(ident)
        if entry is None:
            return None
        values = (self._group_labels[group] for group in entry.groups if group in self._group_labels)
        return Target(entry.labels, next(values, b""))

    def __len__(self) -> int:
        return len(self._entries)

    def _refresh(self) -> None:
        versions = self._snapshots.recent()
        now = tuple(versions.get(part, 0) for part in (CHANGES, REMOVALS, GROUPS))
        if now == self._held:
            return
        with self._reading:
            before = self._held
            if all(new <= old for new, old in zip(now, before, strict=True)):
                return  # another thread was faster
            started = time.time()
            known, groups, removed = self._entries, self._group_labels, now[1] != before[1]
            found = _read(0 if removed else before[0]) if removed or now[0] != before[0] else {}
            entries = found if removed else {**known, **found} if found else known
            idents = known.keys() | found.keys() if removed else found.keys()
            changed: Collection[str] | None
            changed = {ident for ident in idents if entries.get(ident, NOTHING) != known.get(ident, NOTHING)}
            if now[2] != before[2] and (groups := self._labelled_groups()) != self._group_labels:
                changed = None
            with self._lock:
                self._entries, self._group_labels, self._held = entries, groups, now
                if changed is None or changed:
                    self._number += 1
                    self._log.append((self._number, changed))
            self._reads.add(started, len(entries))

    def _labelled_groups(self) -> dict[int, bytes]:
        groups = self._directory.state().groups.values()
        return {group.id: group.label_value.encode() for group in groups if group.label_enable and group.label_value}


def _read(after: int) -> dict[str, _Entry]:
    """Return the hosts that changed after a change number."""
    columns = (TargetRow.ident, TargetRow.tags, TargetRow.host_tags)
    rows: Any = TargetRow.select(*columns).where(TargetRow.change > after).tuples()
    known = list(rows)
    changed = TargetRow.select(TargetRow.ident).where(TargetRow.change > after)
    bindings: Any = (
        TargetGroup.select(TargetGroup.target_ident, TargetGroup.group_id)
        .where(TargetGroup.target_ident.in_(changed))
        .order_by(TargetGroup.group_id)
        .tuples()
    )
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for ident, group in bindings:
        groups[ident].append(group)
    return {
        ident: _Entry(labels_of(tags.load(own), tags.load(hosts)), tuple(groups[ident])) for ident, own, hosts in known
    }


def labels_of(own: Iterable[str], hosts: Iterable[str]) -> dict[bytes, bytes]:
    """Return tags as labels; what cannot be the name of a label would make a backend refuse the whole batch."""
    found = tags.pairs(own, hosts)
    return {
        name.encode(): value.encode()
        for name, value in found.items()
        if value and name not in RESERVED and tags.KEY.fullmatch(name)
    }
