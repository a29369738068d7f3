"""What other capabilities tell this one about business groups, so that it needs to know none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tocsin.access.refusals import taken


class GroupHooks:
    """Takes part in the removal of a business group; other capabilities register in their ``setup``."""

    def __init__(self) -> None:
        self._owned: list[tuple[int, str, Callable[[int], int]]] = []

    def refuse_while(self, what: str, order: int, count: Callable[[int], int]) -> None:
        """Keep a group as long as ``count(group_id)`` is not 0; ``what`` is for the message, like ``alert rules``.

        ``order`` says which refusal comes first: 1 alert rules, 2 mutes, 3 subscribes, 4 boards, 5 targets,
        6 recording rules, 7 job templates.
        """
        self._owned.append((order, what, count))

    def check_empty(self, group_id: int) -> None:
        """Raise ``conflict`` naming the first kind of object that the group still owns."""
        for _, what, count in sorted(self._owned, key=lambda entry: entry[:2]):
            if count(group_id):
                raise taken(f"Some {what} still in the BusiGroup")


class HostLookup(Protocol):
    """What the targets capability provides about hosts (``core.provide(service, HostLookup)``)."""

    def tags_of_groups(self, group_ids: Iterable[int]) -> set[str]:
        """Return the tags (``key=value``) of the hosts in any of these groups; no ids mean all hosts."""

    def groups_of_host(self, ident: str) -> list[int]:
        """Return the ids of the groups a host is in; an unknown host is in none."""


class HostViewer(Protocol):
    """What the targets capability provides of hosts as the API shows them (``core.provide(service, HostViewer)``)."""

    def described(self, idents: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the hosts of these names that are known, by name, with ``group_ids`` and ``group_names``."""


class ActiveEventCount(Protocol):
    """What the events capability provides about active events (``core.provide(service, ActiveEventCount)``)."""

    def active_by_group(self, group_ids: Iterable[int]) -> dict[int, int]:
        """Return how many active events each of these groups has; groups without any are left out."""
