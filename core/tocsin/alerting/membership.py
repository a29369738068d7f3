"""Which engines are alive, and which of them owns which rule on which datasource."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from typing import Any

from tocsin.alerting.models import EngineBeat
from tocsin.alerting.ring import Ring
from tocsin.store.database import Database

ALIVE_SECONDS = 30
FORGET_SECONDS = 600
HOST_RULES = 99_999_999
"""Stands for a datasource in the heartbeat rows of rules that ask none."""


class Membership:
    """This engine's heartbeat, and the rings made of everybody's."""

    def __init__(self, database: Database, instance: str, cluster: str, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self.instance = instance
        self.cluster = cluster
        self._rings: dict[int, Ring] = {}
        self._others: frozenset[str] = frozenset()
        self._bound: frozenset[int] | None = None
        self.version = 0
        """Moves whenever a ring changed."""

    def beat(self, datasource_ids: Collection[int]) -> None:
        """Write the heartbeat for the datasources bound to this engine and read everybody else's."""
        now = int(self._clock())
        bound = frozenset(datasource_ids) | {HOST_RULES}
        mine = (EngineBeat.instance == self.instance) & (EngineBeat.engine_cluster == self.cluster)
        with self._database.atomic():
            written = EngineBeat.update(clock=now).where(mine, EngineBeat.datasource_id.in_(list(bound))).execute()
            if written != len(bound) or bound != self._bound:
                self._rewrite(mine, bound, now)
        self._bound = bound
        self._rebuild(alive(now))

    def _rewrite(self, mine: Any, bound: frozenset[int], now: int) -> None:
        EngineBeat.delete().where(mine).execute()
        EngineBeat.delete().where(EngineBeat.clock < now - FORGET_SECONDS).execute()
        EngineBeat.insert_many(
            [
                {"instance": self.instance, "engine_cluster": self.cluster, "datasource_id": number, "clock": now}
                for number in sorted(bound)
            ]
        ).execute()

    def _rebuild(self, rows: list[dict[str, Any]]) -> None:
        members: dict[int, set[str]] = {}
        for row in rows:
            if row["datasource_id"] != HOST_RULES:
                members.setdefault(row["datasource_id"], set()).add(row["instance"])
            elif row["cluster"] == self.cluster:
                members.setdefault(HOST_RULES, set()).add(row["instance"])
        self._others = frozenset(row["instance"] for row in rows) - {self.instance}
        rings = {
            number: self._rings[number] if self._same(number, names) else Ring(names)
            for number, names in members.items()
            if number in (self._bound or ())
        }
        if rings.keys() != self._rings.keys() or any(ring is not self._rings[n] for n, ring in rings.items()):
            self._rings = rings
            self.version += 1

    def _same(self, number: int, names: set[str]) -> bool:
        return number in self._rings and set(self._rings[number].members) == names

    def owns(self, rule_id: int, datasource_id: int) -> bool:
        """Return whether this engine evaluates the rule on the datasource."""
        ring = self._rings.get(datasource_id)
        return ring is not None and ring.owner(rule_id) == self.instance

    def others(self) -> Collection[str]:
        """Return the other engines that are alive, of whatever cluster: their notifications are theirs to send."""
        return self._others

    def leave(self) -> None:
        """Withdraw this engine's heartbeat, so that others take over at once."""
        mine = (EngineBeat.instance == self.instance) & (EngineBeat.engine_cluster == self.cluster)
        EngineBeat.delete().where(mine).execute()
        self._bound = None


def alive(now: int) -> list[dict[str, Any]]:
    """Return the heartbeat rows of engines that are alive, ordered by instance."""
    query = EngineBeat.select().where(EngineBeat.clock > now - ALIVE_SECONDS)
    rows = query.order_by(EngineBeat.instance, EngineBeat.id)
    return [
        {
            "id": row.id,
            "instance": row.instance,
            "cluster": row.engine_cluster,
            "datasource_id": row.datasource_id,
            "clock": row.clock,
        }
        for row in rows
    ]


def note_beat(instance: str, cluster: str, datasource_id: int, now: int) -> None:
    """Insert or refresh one heartbeat row."""
    mine = (EngineBeat.instance == instance) & (EngineBeat.engine_cluster == cluster)
    fresh = EngineBeat.update(clock=now).where(mine, EngineBeat.datasource_id == datasource_id).execute()
    if not fresh:
        row = {"instance": instance, "engine_cluster": cluster, "datasource_id": datasource_id, "clock": now}
        EngineBeat.insert(row).on_conflict_ignore().execute()


def instance_name(ip: str, port: int) -> str:
    """Return the name of this engine, ``<ip>:<port>``; without ``ip`` the address towards the outside is used."""
    return f"{ip or outbound_address()}:{port}"


def outbound_address() -> str:
    """Return the address this machine would use to reach others, else its host name; nothing is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()
