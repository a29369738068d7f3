"""What other capabilities tell this one, so that it needs to know none of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol


class RuleNames(Protocol):
    """What the notification capability provides about its rules (``core.provide(service, RuleNames)``)."""

    def names(self, ids: Iterable[int]) -> list[dict[str, Any]]:
        """Return ``{"id", "name"}`` of the notification rules with these ids; unknown ones are left out."""
