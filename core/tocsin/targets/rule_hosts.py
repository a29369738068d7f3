"""Which hosts the host rules are about."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from marshmallow import ValidationError

from tocsin.plugin import ApiError
from tocsin.targets import conditions
from tocsin.targets.models import TargetRow
from tocsin.targets.schemas import HostQueryBody

log = logging.getLogger(__name__)
HOST = "host"
"""Product (field ``prod``) of rules about hosts."""
_QUERIES = HostQueryBody(many=True)


def hosts_of_rules(rules: Iterable[Mapping[str, Any]], engine_name: str) -> dict[str, list[str]]:
    """Return the names of an engine's hosts that each enabled host rule is about, by id of the rule as text.

    Rules without such hosts are left out; so are rules whose queries cannot be read, which the log names.
    """
    found: dict[str, list[str]] = {}
    for rule in rules:
        if rule["prod"] != HOST or rule["disabled"]:
            continue
        try:
            condition = conditions.of_queries(_QUERIES.load((rule["rule_config"] or {}).get("queries") or []))
        except (ValidationError, ApiError) as error:
            log.warning("alert rule %s: its host queries cannot be read: %s", rule["id"], error)
            continue
        rows: Any = TargetRow.select(TargetRow.ident).where(condition & (TargetRow.engine_name == engine_name))
        if idents := [ident for (ident,) in rows.order_by(TargetRow.ident).tuples()]:
            found[str(rule["id"])] = idents
    return found
