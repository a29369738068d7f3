"""What a heartbeat of a collector changes, and how a process without the center's database passes it on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tocsin.access.directory import Directory
from tocsin.ingest.throttle import Throttle
from tocsin.targets import tags
from tocsin.targets.center import Center, CenterError
from tocsin.targets.gate import CrowdedError, Gate
from tocsin.targets.hosts import Facts, Hosts
from tocsin.targets.metrics import TargetMetrics
from tocsin.targets.models import TargetRow
from tocsin.targets.pulse import Beats

log = logging.getLogger(__name__)
CENTER_HEARTBEAT, TARGET_UPDATE = "/v1/svc/center/heartbeat", "/v1/svc/target-update"
UNSAID: Mapping[str, Any] = {"offset": 0, "remote_addr": "", "engine_name": ""}
"""What a process between the collector and the center fills in."""
COPIED = ("engine_name", "agent_version", "os")


class Heartbeats:
    """Takes heartbeats: keeps what the host says and brings its row up to date."""

    def __init__(
        self,
        hosts: Hosts,
        beats: Beats,
        directory: Directory,
        metrics: TargetMetrics,
        gate: Gate,
        clock: Callable[[], float],
        engine_name: str,
    ) -> None:
        self._hosts, self._beats, self._directory, self._gate = hosts, beats, directory, gate
        self._metrics, self._clock, self._engine_name = metrics, clock, engine_name
        self._odd = Throttle(log)
        self._failed = Throttle(log)

    def take(self, beat: Mapping[str, Any], remote: str, gids: str, *, overwrite: bool) -> None:
        """Take a heartbeat (``schemas.HeartbeatBody``) that came from address ``remote``.

        ``gids`` are ids of business groups separated by commas, to which the host is bound; ``overwrite`` takes it out of
        all others. A host that is not known yet is registered within a second and gets its groups with the next beat.
        """
        said = completed(beat, remote, self._clock(), self._engine_name)
        del said["extend_info"]
        self._beats.heard(said["hostname"], said, beat["extend_info"])
        try:
            with self._gate.entered():
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
        given = {part.strip() for part in gids.split(",") if part.strip()}
        bound = set(map(str, row.groups))
        if bound == given if overwrite else bound >= given:
            return  # as nearly always
        wanted = self._groups(given)
        if overwrite and wanted != row.groups:
            self._hosts.rebind([row.ident], wanted)
        elif not overwrite and not wanted <= row.groups:
            self._hosts.bind([row.ident], wanted)

    def _groups(self, given: Collection[str]) -> set[int]:
        """Return the groups that a collector asks for; what is none is left out and named in the log."""
        known: Collection[int] = self._directory.state().groups
        found = {int(part) for part in given if part.isascii() and part.isdigit() and int(part) in known}
        if len(found) < len(given):
            self._odd.warning(lambda: f"a heartbeat names business groups that do not exist: {sorted(given)!r:.200}")
        return found


class Relay:
    """Passes signs of life on to a center, from a process that has no database in common with it."""

    def __init__(
        self, center: Center, metrics: TargetMetrics, gate: Gate, clock: Callable[[], float], engine_name: str
    ) -> None:
        self._center, self._metrics, self._gate = center, metrics, gate
        self._clock, self._engine_name = clock, engine_name

    def forward(self, beat: Mapping[str, Any], remote: str, gids: str, *, overwrite: bool) -> Any:
        """Hand a heartbeat over and return what the center answers; raise ``CenterError`` when none took it.

        How late it came, from where, and which engine is responsible is what this process says, whatever the body says.
        """
        said = completed({**beat, **UNSAID}, remote, self._clock(), self._engine_name)
        try:
            with self._gate.entered():
                dat = self._center.post(CENTER_HEARTBEAT, said, gid=gids, overwrite_gids=str(overwrite).lower())
        except CrowdedError as error:
            raise CenterError(str(error)) from None
        self._metrics.beats.labels("forwarded").inc()
        return dat

    def name_hosts(self, idents: Collection[str]) -> int:
        """Name hosts that were seen, so that the center registers them; return 0: it does not say how many were new."""
        self._center.post(TARGET_UPDATE, {"lst": list(idents), "now": int(self._clock())})
        return 0


def completed(beat: Mapping[str, Any], remote: str, now: float, engine_name: str) -> dict[str, Any]:
    """Return a heartbeat with what its way says about it, as far as no process on the way has said that before."""
    said = dict(beat)
    if not said["offset"] and said["unixtime"]:
        said["offset"] = int(now * 1000) - said["unixtime"]
    said["remote_addr"] = said["remote_addr"] or remote
    said["engine_name"] = said["engine_name"] or engine_name
    return said


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
