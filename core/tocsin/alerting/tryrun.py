"""Trying a rule's conditions of effect on an event that has happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tocsin.access.neighbours import HostLookup
from tocsin.alerting.checks import normalised
from tocsin.alerting.windows import check_windows, windows_of, zone_of
from tocsin.events.form import Event
from tocsin.plugin import invalid

if TYPE_CHECKING:
    from tocsin.app.core import Core


def check_in_effect(core: Core, config: Mapping[str, Any], event: Event) -> None:
    """Raise ``invalid`` saying why the rule ``config`` would suppress ``event``."""
    rule = normalised(config)
    if rule["disabled"]:
        raise invalid("rule is disabled")
    lists = rule["enable_stimes"], rule["enable_etimes"], rule["enable_days_of_weeks"]
    check_windows(*lists)
    if not windows_of(*lists, zone_of(rule["time_zone"])).cover(event["trigger_time"]):
        raise invalid("event is not match for period of time")
    ident = event["target_ident"]
    if rule["enable_in_bg"] and ident and core.has(HostLookup):
        groups = core.get(HostLookup).groups_of_host(ident)
        if groups and rule["group_id"] not in groups:
            raise invalid("event target busi group not match rule busi group")
