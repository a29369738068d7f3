"""Aggregation views: named rules by which active events are gathered into cards."""

from __future__ import annotations

from typing import Any

from tocsin.events.cards import title_rule
from tocsin.events.models import AggregationView
from tocsin.plugin import Caller, forbidden, invalid, not_found

PRESETS = (
    ("By BusiGroup, Severity", "field:group_name::field:severity"),
    ("By RuleName", "field:rule_name"),
)
PUBLIC, PRIVATE = 0, 1
VIEW_FIELDS = frozenset(
    (
        *("cluster", "group_id", "group_name", "rule_id", "rule_name", "severity", "runbook_url"),
        *("target_ident", "target_note"),
    )
)


def seed_presets(now: int) -> None:
    """Write the two public views an installation starts with."""
    for name, rule in PRESETS:
        known = (AggregationView.create_by == 0) & (AggregationView.name == name)
        if not AggregationView.select().where(known).exists():
            AggregationView.create(name=name, rule=rule, cate=PUBLIC, create_by=0, create_at=now, update_at=now)


def visible(caller: Caller) -> list[dict[str, Any]]:
    """Return the caller's own views and the public ones, sorted by kind and name."""
    mine = (AggregationView.create_by == caller.id) | (AggregationView.cate == PUBLIC)
    query = AggregationView.select().where(mine).order_by(AggregationView.cate, AggregationView.name)
    return [row.as_dict() for row in query]


def rule_of(view_id: int, caller: Caller) -> str:
    """Return the rule of a view the caller may use."""
    row = AggregationView.get_or_none(AggregationView.id == view_id)
    if row is None or (row.cate != PUBLIC and row.create_by != caller.id and not caller.is_admin):
        raise not_found("alert aggr view not found")
    return str(row.rule)


def add(given: dict[str, Any], caller: Caller, now: int) -> dict[str, Any]:
    """Store a private view of the caller and return it."""
    name, rule = _checked(given)
    row = AggregationView.create(
        name=name, rule=rule, cate=PRIVATE, create_by=caller.id, create_at=now, update_at=now
    )  # fmt: skip
    return row.as_dict()


def change(given: dict[str, Any], caller: Caller, now: int) -> None:
    """Change a view: one's own, or any for an Admin, who alone can make it public."""
    row = AggregationView.get_or_none(AggregationView.id == given["id"])
    if row is None:
        raise not_found(f"no such item(id: {given['id']})")
    if not caller.is_admin and row.create_by != caller.id:
        raise forbidden()
    row.name, row.rule = _checked(given)
    row.cate = given["cate"] if caller.is_admin else PRIVATE
    row.create_by = row.create_by or caller.id
    row.update_at = now
    row.save()


def remove(ids: list[int], caller: Caller) -> None:
    """Delete views; what a caller who is no Admin does not own stays."""
    query = AggregationView.delete().where(AggregationView.id.in_(ids))
    if not caller.is_admin:
        query = query.where(AggregationView.create_by == caller.id)
    query.execute()


def _checked(given: dict[str, Any]) -> tuple[str, str]:
    name, rule = given["name"].strip(), given["rule"].strip()
    if not name:
        raise invalid("name is blank")
    if not rule:
        raise invalid("rule is blank")
    if "{{" not in rule:
        title_rule(rule)
        for item in rule.split("::"):
            kind, _, field = item.partition(":")
            if kind == "field" and field not in VIEW_FIELDS:
                raise invalid(f"unsupported field: {field}")
    return name, rule
