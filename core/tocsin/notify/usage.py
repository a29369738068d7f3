"""Nothing is deleted that a notification rule refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tocsin.plugin import ApiError, invalid


def refuse_used(ids: list[int], used_by: Callable[[Iterable[int]], list[int]]) -> None:
    """Raise for an empty list, and for ids that rules use; ``used_by`` returns the ids of those rules."""
    if not ids:
        raise invalid("ids empty")
    rules = used_by(ids)
    if rules:
        listed = " ".join(str(rule) for rule in rules)
        raise ApiError(f"used by notify rule: [{listed}]", "conflict", status=200)
