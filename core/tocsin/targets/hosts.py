"""The hosts themselves: registration, tags, notes, business groups, removal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tocsin.plugin import invalid
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots
from tocsin.targets import tags
from tocsin.targets.book import CHANGES, REMOVALS, next_change
from tocsin.targets.models import TargetGroup, TargetRow
from tocsin.targets.pulse import chunked

CHUNK = 500
"""Hosts that one statement names at most."""
Change = Callable[[TargetRow], dict[str, Any]]
"""What to write into a host, worked out from the host as it is; empty for nothing."""
Failures = dict[str, str]
"""What could not be done, by host or address: the answer of every change of several hosts."""


class Facts(NamedTuple):
    """What a heartbeat may change of a host: columns of its row, and the ids of its groups."""

    ident: str
    tags: str
    host_tags: str
    host_ip: str
    agent_version: str
    engine_name: str
    os: str
    groups: frozenset[int]


class Hosts:
    """Reads and changes hosts. Who may do it is the caller's business."""

    def __init__(self, database: Database, snapshots: Snapshots, clock: Callable[[], float]) -> None:
        self._database, self._snapshots, self._clock = database, snapshots, clock
        # PERF: the query of every heartbeat, so its text is ready-made; building it took longer than all the rest.
        self._facts = (
            f"SELECT {', '.join('t.' + column for column in Facts._fields[:-1])}, g.group_id FROM target AS t "  # noqa: S608
            f"LEFT JOIN target_busi_group AS g ON g.target_ident = t.ident WHERE t.ident = {database.peewee.param}"
        )
        self._counted = database.peewee.measures.operations.labels("select", "success", "target")

    # --- reading ---

    def resolve(self, idents: Collection[str], addresses: Collection[str]) -> tuple[list[str], Failures]:
        """Return the hosts of these names and of these addresses, and what of both is unknown."""
        if not idents and not addresses:
            raise invalid("idents or host_ips must be provided")
        found: dict[str, None] = {}
        by_address: dict[str, list[str]] = defaultdict(list)
        for part in chunked(dict.fromkeys(idents), CHUNK):
            rows: Any = TargetRow.select(TargetRow.ident).where(TargetRow.ident.in_(part)).tuples()
            found.update((ident, None) for (ident,) in rows)
        for part in chunked(dict.fromkeys(address for address in addresses if address), CHUNK):
            columns = (TargetRow.host_ip, TargetRow.ident)
            located: Any = TargetRow.select(*columns).where(TargetRow.host_ip.in_(part)).tuples()
            for address, ident in located:
                by_address[address].append(ident)
        failures = {ident: "Ident not found" for ident in idents if ident not in found}
        failures |= {address: "HostIp not found" for address in addresses if address not in by_address}
        return list(found | dict.fromkeys(ident for some in by_address.values() for ident in some)), failures

    def facts(self, ident: str) -> Facts | None:
        """Return a host as heartbeats see it, or None when it is not known."""
        rows = self._database.peewee.execute_sql(self._facts, (ident,)).fetchall()
        self._counted.inc()
        groups = frozenset(row[-1] for row in rows if row[-1] is not None)
        return Facts._make((*rows[0][:-1], groups)) if rows else None

    def bindings(self, idents: Iterable[str]) -> dict[str, list[int]]:
        """Return the ids of each host's business groups, ascending; hosts in no group are left out."""
        bound: defaultdict[str, list[int]] = defaultdict(list)
        for part in chunked(idents, CHUNK):
            rows: Any = (
                TargetGroup.select(TargetGroup.target_ident, TargetGroup.group_id)
                .where(TargetGroup.target_ident.in_(part))
                .order_by(TargetGroup.group_id)
                .tuples()
            )
            for ident, group in rows:
                bound[ident].append(group)
        return dict(bound)

    def tags_of_groups(self, group_ids: Iterable[int]) -> set[str]:
        """Return the tags that people gave the hosts in any of these groups; no ids mean all hosts."""
        wanted = list(group_ids)
        query = TargetRow.select(TargetRow.tags).where(TargetRow.tags != "[]")
        if wanted:
            members = TargetGroup.select(TargetGroup.target_ident).where(TargetGroup.group_id.in_(wanted))
            query = query.where(TargetRow.ident.in_(members))
        rows: Any = query.tuples()
        return {tag for (stored,) in rows for tag in tags.load(stored)}

    def groups_of_host(self, ident: str) -> list[int]:
        """Return the ids of the groups a host is in; an unknown host is in none."""
        return self.bindings([ident]).get(ident, [])

    def count_in_group(self, group_id: int) -> int:
        """Return how many hosts are in a group."""
        return int(TargetGroup.select().where(TargetGroup.group_id == group_id).count())

    # --- changing ---

    def register(self, idents: Collection[str]) -> int:
        """Make those hosts known that are not, and return how many that were."""
        rows: Any = TargetRow.select(TargetRow.ident).where(TargetRow.ident.in_(list(idents))).tuples()
        known = {ident for (ident,) in rows}
        # In one order everywhere: processes that insert the same hosts at once would wait for each other for ever.
        fresh = [{"ident": ident, "update_at": int(self._clock())} for ident in sorted({*idents} - known)]
        if fresh:
            with self._database.atomic():
                self._snapshots.hold(CHANGES)  # MariaDB locks the gaps between hosts that are changed or removed
                TargetRow.insert_many(fresh).on_conflict_ignore().execute()
        return len(fresh)

    def add_tags(self, idents: Sequence[str], given: Iterable[str]) -> Failures:
        """Give hosts more tags; a host that has one of the keys already is left as it is and reported."""
        wanted = sorted(set(tags.check(given)))
        if len({tags.key_of(tag) for tag in wanted}) < len(wanted):
            raise invalid("tags: got one key twice, expected each key once")
        failures: Failures = {}

        def change(row: TargetRow) -> dict[str, Any]:
            own = tags.load(row.tags)
            keys = {tags.key_of(tag) for tag in (*own, *tags.load(row.host_tags))}
            double = next((tags.key_of(tag) for tag in wanted if tags.key_of(tag) in keys), None)
            if double is not None:
                failures[row.ident] = f"duplicate tagkey({double})"
                return {}
            return {"tags": tags.dump(tags.check_length(sorted([*own, *wanted])))}

        self._change(idents, change)
        return failures

    def remove_tags(self, idents: Sequence[str], given: Iterable[str]) -> None:
        """Take tags away; what a collector says stays."""
        gone = {tag.strip() for tag in given}
        self._change(idents, lambda row: {"tags": tags.dump(tag for tag in tags.load(row.tags) if tag not in gone)})

    def set_note(self, idents: Sequence[str], note: str) -> None:
        """Write the note of hosts."""
        self._change(idents, lambda row: {"note": note})

    def update(self, ident: str, changes: Change) -> None:
        """Write what ``changes`` makes of a host as it is inside the transaction; nothing for an empty result."""
        self._change([ident], changes)

    def bind(self, idents: Sequence[str], groups: Collection[int], given: Sequence[str] = ()) -> None:
        """Bind hosts to groups too, and give them those of these tags that they do not have yet."""
        if not groups:
            raise invalid("empty slice found")

        def joined(row: TargetRow) -> dict[str, Any]:
            own = tags.load(row.tags)
            return {"tags": tags.dump(tags.check_length(sorted({*own, *given})))} if set(given) - set(own) else {}

        with self._changing() as stamps:
            self._insert(self._touch(idents, stamps), groups)
            if given:
                self._each(idents, joined, stamps)

    def unbind(self, idents: Sequence[str], groups: Collection[int]) -> None:
        """Take hosts out of groups."""
        with self._changing() as stamps:
            self._touch(idents, stamps)
            for part in chunked(idents, CHUNK):
                of_hosts = TargetGroup.target_ident.in_(part)
                TargetGroup.delete().where(of_hosts & TargetGroup.group_id.in_(list(groups))).execute()

    def rebind(self, idents: Sequence[str], groups: Collection[int], given: Sequence[str] = ()) -> None:
        """Let hosts be in exactly these groups; tags, when there are any, replace those that people gave."""
        with self._changing() as stamps:
            there = self._touch(idents, stamps)
            for part in chunked(there, CHUNK):
                of_hosts = TargetGroup.target_ident.in_(part)
                TargetGroup.delete().where(of_hosts & TargetGroup.group_id.not_in(list(groups))).execute()
            self._insert(there, groups)
            if groups and given:
                stored = tags.dump(tags.check_length(sorted(set(given))))
                self._each(idents, lambda row: {"tags": stored}, stamps)

    def delete(self, idents: Sequence[str]) -> None:
        """Forget hosts; one that is heard again comes back."""
        if not idents:
            raise invalid("idents cannot be empty")
        with self._changing():
            self._snapshots.bump(REMOVALS)
            for part in chunked(idents, CHUNK):
                TargetGroup.delete().where(TargetGroup.target_ident.in_(part)).execute()
                TargetRow.delete().where(TargetRow.ident.in_(part)).execute()

    # --- how ---

    @contextmanager
    def _changing(self) -> Iterator[dict[str, int]]:
        """Open a transaction that sees no other change meanwhile; yield what to write into each host that changes."""
        with self._database.atomic():
            yield {"change": next_change(self._snapshots), "update_at": int(self._clock())}

    def _change(self, idents: Sequence[str], change: Change) -> None:
        with self._changing() as stamps:
            self._each(idents, change, stamps)

    def _each(self, idents: Sequence[str], change: Change, stamps: Mapping[str, int]) -> None:
        """Write what ``change`` makes of each host."""
        for part in chunked(idents, CHUNK):
            for row in list(TargetRow.select().where(TargetRow.ident.in_(part))):
                wanted = change(row)
                if wanted:
                    TargetRow.update(**wanted, **stamps).where(TargetRow.id == row.id).execute()

    def _touch(self, idents: Sequence[str], stamps: Mapping[str, int]) -> list[str]:
        """Mark hosts as changed and return them, without those that somebody has removed meanwhile."""
        for part in chunked(idents, CHUNK):
            TargetRow.update(**stamps).where(TargetRow.ident.in_(part)).execute()
        rows: Any = TargetRow.select(TargetRow.ident).where(TargetRow.change == stamps["change"]).tuples()
        return [ident for (ident,) in rows]

    def _insert(self, idents: Sequence[str], groups: Collection[int]) -> None:
        bound = self.bindings(idents)
        now = int(self._clock())
        rows = [
            {"target_ident": ident, "group_id": group, "update_at": now}
            for ident in idents
            for group in sorted(set(groups) - set(bound.get(ident, ())))
        ]
        for part in chunked(rows, CHUNK):
            TargetGroup.insert_many(part).on_conflict_ignore().execute()
