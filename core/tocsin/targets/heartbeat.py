"""What a heartbeat of a collector changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tocsin.access.directory import Directory
from tocsin.ingest.throttle import Throttle
from tocsin.targets import tags
from tocsin.targets.hosts import Facts, Hosts
from tocsin.targets.metrics import TargetMetrics
from tocsin.targets.models import TargetRow
from tocsin.targets.pulse import Beats

log = logging.getLogger(__name__)
COPIED = ("engine_name", "agent_version", "os")


class Heartbeats:
    """Takes heartbeats: keeps what the host says and brings its row up to date."""

    def __init__(
        self,
        hosts: Hosts,
        beats: Beats,
        directory: Directory,
        metrics: TargetMetrics,
        clock: Callable[[], float],
        engine_name: str,
    ) -> None:
        self._hosts, self._beats, self._directory = hosts, beats, directory
        self._metrics, self._clock, self._engine_name = metrics, clock, engine_name
        self._odd = Throttle(log)
        self._failed = Throttle(log)

    def take(self, beat: Mapping[str, Any], remote: str, gids: str, *, overwrite: bool) -> None:
        """Take a heartbeat (``schemas.HeartbeatBody``) that came from address ``remote``.

        ``gids`` are ids of business groups separated by commas, to which the host is bound; ``overwrite`` takes it out of
        all others. A host that is not known yet is registered within a second and gets its groups with the next beat.
        """
        said = {name: value for name, value in beat.items() if name != "extend_info"}
        if not said["offset"] and said["unixtime"]:
            said["offset"] = int(self._clock() * 1000) - said["unixtime"]
        said["remote_addr"] = said["remote_addr"] or remote
        said["engine_name"] = said["engine_name"] or self._engine_name
        self._beats.heard(said["hostname"], said, beat["extend_info"])
        try:
            self._update(said, gids, overwrite)
        except Exception as error:
            self._metrics.updates.inc()
            name = type(error).__name__
            self._failed.warning(lambda: f"a heartbeat's changes could not be stored, the next one tries again: {name}")

    def _update(self, said: Mapping[str, Any], gids: str, overwrite: bool) -> None:
        row = self._hosts.facts(said["hostname"])
        if row is None:
            return
        if changes_of(row, said):
            self._hosts.update(row.ident, lambda current: changes_of(current, said))
        if not overwrite and not gids:
            return
        wanted, bound = self._groups(gids), set(self._hosts.groups_of_host(row.ident))
        if overwrite and bound != wanted:
            self._hosts.rebind([row.ident], wanted)
        elif not overwrite and wanted - bound:
            self._hosts.bind([row.ident], wanted)

    def _groups(self, gids: str) -> set[int]:
        """Return the groups that a collector asks for; what is none is left out and named in the log."""
        known: Collection[int] = self._directory.state().groups
        given = [part.strip() for part in gids.split(",") if part.strip()]
        found = {int(part) for part in given if part.isascii() and part.isdigit() and int(part) in known}
        if len(found) < len(set(given)):
            self._odd.warning(lambda: f"a heartbeat names business groups that do not exist: gid={gids[:200]!r}")
        return found


def changes_of(row: TargetRow | Facts, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a heartbeat changes in a host's row; empty when nothing differs."""
    change = {name: said[name] for name in COPIED if said[name] and said[name] != getattr(row, name)}
    address = said["host_ip"].strip()
    if address and address != row.host_ip:
        change["host_ip"] = address
    labels = said["global_labels"]
    spoken, own = tags.of_labels(labels), tags.load(row.tags)
    if spoken != tags.load(row.host_tags):
        change["host_tags"] = tags.dump(spoken)
    kept = [tag for tag in own if tags.key_of(tag) not in labels]
    if len(kept) < len(own):
        change["tags"] = tags.dump(kept)
    return change
