"""What the gateway asks of the hosts: the capability that keeps them provides these services."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Target:
    """What a registered host adds to its series."""

    labels: Mapping[bytes, bytes] = field(default_factory=dict)
    group_label: bytes = b""
    """Value of the business-group label, empty for none."""


class TargetLabels(Protocol):
    """The registered hosts, as far as ingest needs them."""

    def changes(self, since: int) -> tuple[int, Collection[str] | None]:
        """Return the present version, and the hosts whose labels changed after version `since` (0 at first).

        None instead of hosts means that any may have changed. Asked once per request, so it must be cheap.
        """

    def lookup(self, ident: str) -> Target | None:
        """Return a host, or None when it is not registered."""


class HostRegister(Protocol):
    """Takes note of hosts that were seen."""

    def announce(self, idents: Collection[str]) -> None:
        """Treat hosts as if they had sent a heartbeat."""


class NoHosts:
    """A gateway that knows no hosts."""

    def changes(self, since: int) -> tuple[int, Collection[str] | None]:
        """Return that nothing ever changes."""
        return since, ()

    def lookup(self, ident: str) -> Target | None:
        """Return None: no host is registered."""
        return None

    def announce(self, idents: Collection[str]) -> None:
        """Take no note."""
