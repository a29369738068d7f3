"""Active events gathered into cards by an aggregation rule such as ``field:group_name::tagkey:ident``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocsin.events.form import Event
from tocsin.plugin import invalid

FIELDS = frozenset(
    (
        *("cluster", "group_id", "group_name", "rule_id", "rule_name", "rule_note", "severity", "runbook_url"),
        *("target_ident", "target_note"),
    )
)
OTHERS = "Others"

Title = Callable[[Event], str]


def title_rule(rule: str) -> Title:
    """Return the function that computes a card title; raise ``invalid`` for a malformed rule."""
    parts = []
    for item in rule.split("::"):
        kind, colon, name = item.partition(":")
        if not colon or kind not in ("field", "tagkey") or not name:
            raise invalid("rule invalid")
        parts.append((kind, name))

    def title(event: Event) -> str:
        return "::".join(_part(event, kind, name) or OTHERS for kind, name in parts)

    return title


def _part(event: Event, kind: str, name: str) -> str:
    if kind == "tagkey":
        return str(event["tags_map"].get(name, ""))
    return str(event[name]) if name in FIELDS else ""


def cards(events: Sequence[Event], title: Title) -> list[dict[str, Any]]:
    """Return the cards of ``events``: worst severity first, then the fullest, then by title."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        severity = event["severity"] if event["severity"] >= 1 else 3
        name = title(event)
        card = found.setdefault(name, {"title": name, "total": 0, "event_ids": [], "severity": severity})
        card["total"] += 1
        card["event_ids"].append(event["id"])
        card["severity"] = min(card["severity"], severity)
    return sorted(found.values(), key=lambda card: (card["severity"], -card["total"], card["title"]))
