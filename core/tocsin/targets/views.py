"""Hosts as the API shows them: lists, numbers, tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tocsin.access.directory import Directory
from tocsin.access.groups import Groups
from tocsin.plugin import Caller, invalid
from tocsin.targets import conditions, tags
from tocsin.targets.hosts import CHUNK, Hosts
from tocsin.targets.models import TargetRow
from tocsin.targets.pulse import Pulse, chunked

FRESH, ALIVE = 60, 180
"""Seconds since a host was last seen up to which it counts as up (2), and up to which as perhaps up (1)."""
BUCKETS = (20, 40, 60, 80)
COLUMN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z_][a-zA-Z0-9_]*)?")
COLUMNS = (
    *("ident", "host_ip", "note", "update_at", "agent_version"),
    *("engine_name", "os", "id", "tags", "host_tags", "group_id"),
)
UNKNOWN: Mapping[str, Any] = {
    "unixtime": 0, "offset": 0, "cpu_num": 0, "cpu_util": 0, "mem_util": 0, "arch": "", "remote_addr": "",
}  # fmt: skip
"""What is shown of a host that has not said anything."""
NEVER: Mapping[str, Any] = {**UNKNOWN, "cpu_num": -1}


class HostViews:
    """Makes the answers about hosts; ``condition`` says everywhere which hosts are meant."""

    def __init__(
        self, hosts: Hosts, pulse: Pulse, groups: Groups, directory: Directory, clock: Callable[[], float]
    ) -> None:
        self._hosts, self._pulse, self._groups = hosts, pulse, groups
        self._directory, self._clock = directory, clock

    def visible(self, caller: Caller) -> Any:
        """Return the condition that a caller may see a host: in a group of theirs, or in none; Admin sees all."""
        if caller.is_admin:
            return conditions.everything()
        return conditions.in_groups([conditions.UNGROUPED, *self._directory.readable_group_ids(caller)])

    def page(
        self, condition: Any, *, order: str = "ident", desc: bool = False, limit: int, offset: int, downtime: int = 0
    ) -> dict[str, Any]:
        """Return a page of hosts with groups, and with what they last said.

        ``downtime`` above 0 leaves only hosts not seen for so many seconds, below 0 only those seen within them.
        """
        field = _order(order)
        query = TargetRow.select().where(condition).order_by(field.desc() if desc else field, TargetRow.id)
        if not downtime:
            total, rows = query.count(), list(query.limit(limit).offset(offset))
        else:
            chosen = self._by_downtime(query, downtime)
            total, rows = len(chosen), _rows(chosen[offset : offset + limit])
        said = self._pulse.said(row.ident for row in rows)
        return {
            "list": self._with_groups(rows, {row.ident: said.get(row.ident, NEVER) for row in rows}),
            "total": total,
        }

    def matching(self, condition: Any, limit: int, offset: int) -> dict[str, Any]:
        """Return hosts with groups but without what they said; ``limit`` 0 returns all."""
        query = TargetRow.select().where(condition).order_by(TargetRow.ident)
        total = query.count()
        rows = list(query.limit(limit).offset(offset) if limit > 0 else query)
        return {"list": self._with_groups(rows, {}), "total": total}

    def stored(self, condition: Any, *, groups: bool) -> list[dict[str, Any]]:
        """Return hosts as they are stored, without any signs of life."""
        rows = list(TargetRow.select().where(condition).order_by(TargetRow.ident))
        bound = self._hosts.bindings(row.ident for row in rows) if groups else {}
        return [{**_json(row, UNKNOWN, 0, 0.0), "group_ids": bound.get(row.ident)} for row in rows]

    def described(self, idents: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the hosts of these names that are known, by name, with the ids and names of their groups."""
        found: dict[str, dict[str, Any]] = {}
        for part in chunked(dict.fromkeys(idents), CHUNK):
            for host in self._with_groups(list(TargetRow.select().where(TargetRow.ident.in_(part))), {}):
                names = [group["name"] for group in host["group_objs"] or ()]
                found[host["ident"]] = {**host, "group_objs": None, "group_names": names}
        return found

    def statistics(self, condition: Any) -> dict[str, Any]:
        """Return how many hosts are alive, how busy they are, and which collectors they run."""
        rows: Any = TargetRow.select(TargetRow.ident, TargetRow.agent_version).where(condition).tuples()
        versions: dict[str, int] = {}
        idents = []
        for ident, version in rows:
            idents.append(ident)
            versions[version or "unknown"] = versions.get(version or "unknown", 0) + 1
        now, seen, said = self._clock(), self._pulse.seen(idents), self._pulse.said(idents)
        alive = sum(1 for when in seen.values() if now - when < ALIVE)
        return {
            "count": len(idents),
            "alive_count": alive,
            "dead_count": len(idents) - alive,
            "cpu_usage": _usage(idents, said, "cpu_util"),
            "mem_usage": _usage(idents, said, "mem_util"),
            "versions": versions,
        }

    def tags(self, condition: Any, *, of_hosts: bool) -> list[str]:
        """Return the distinct tags of hosts, with those of their collectors unless ``of_hosts`` is false."""
        rows: Any = TargetRow.select(TargetRow.tags, TargetRow.host_tags).where(condition).tuples()
        found: set[str] = set()
        for own, hosts in rows:
            found.update(tags.load(own), tags.load(hosts) if of_hosts else ())
        return sorted(found)

    def _by_downtime(self, query: Any, downtime: int) -> list[int]:
        """Return the ids of hosts by when they were last seen, in the order of the query."""
        found = list(query.select(TargetRow.id, TargetRow.ident).tuples())
        seen, now = self._pulse.seen(ident for _, ident in found), self._clock()
        ages = [(row_id, now - seen.get(ident, 0)) for row_id, ident in found]
        return [row_id for row_id, age in ages if (age > downtime if downtime > 0 else age <= -downtime)]

    def _with_groups(self, rows: Sequence[TargetRow], said: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        bound = self._hosts.bindings(row.ident for row in rows)
        wanted = {group for groups in bound.values() for group in groups}
        objects = {group["id"]: group for group in self._groups.of_ids(wanted, len(wanted))} if wanted else {}
        seen, now = self._pulse.seen(row.ident for row in rows), self._clock()
        answer = []
        for row in rows:
            ids = bound.get(row.ident, [])
            shown = _json(row, said.get(row.ident, UNKNOWN), seen.get(row.ident, 0), now)
            found = [objects[group] for group in ids if group in objects]
            answer.append({**shown, "group_ids": ids, "group_objs": found or None})
        return answer


def _order(order: str) -> Any:
    """Return the column to sort by; what is no name at all sorts by ``ident``, an unknown name is an error."""
    if len(order) > 64 or not COLUMN.fullmatch(order) or "0x" in order or "0b" in order:
        order = "ident"
    name = order.removeprefix("target.")
    if name not in COLUMNS:
        raise invalid(f"order: got {order!r}, expected one of {', '.join(COLUMNS)}")
    return getattr(TargetRow, name)


def _rows(ids: Sequence[int]) -> list[TargetRow]:
    """Return hosts by id, in that order."""
    found = {row.id: row for part in chunked(ids, CHUNK) for row in TargetRow.select().where(TargetRow.id.in_(part))}
    return [found[row_id] for row_id in ids if row_id in found]


def _json(row: TargetRow, said: Mapping[str, Any], seen: int, now: float) -> dict[str, Any]:
    own, hosts = tags.load(row.tags), tags.load(row.host_tags)
    age = now - seen
    return {
        "id": row.id,
        "group_id": row.group_id,
        "group_objs": None,
        "group_names": None,
        "ident": row.ident,
        "note": row.note,
        "tags": own,
        "host_tags": hosts or None,
        "tags_maps": tags.pairs(own, hosts),
        "update_at": row.update_at,
        "host_ip": row.host_ip,
        "agent_version": row.agent_version,
        "engine_name": row.engine_name,
        "os": row.os,
        "beat_time": seen,
        "target_up": 0 if not seen or age >= ALIVE else 2 if age < FRESH else 1,
        **{name: said.get(name, default) for name, default in UNKNOWN.items()},
    }


def _usage(idents: Iterable[str], said: Mapping[str, Mapping[str, Any]], field: str) -> dict[str, int]:
    """Return how many hosts are below 20, 40, 60, 80 and 100 percent; -1 counts those that never said."""
    counts = {"-1": 0, **{str(edge): 0 for edge in (*BUCKETS, 100)}}
    for ident in idents:
        about = said.get(ident, NEVER)
        value = about.get(field) or 0
        key = "-1" if (about.get("cpu_num") or 0) <= 0 else next((str(e) for e in BUCKETS if value < e), "100")
        counts[key] += 1
    return counts
