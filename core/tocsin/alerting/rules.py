"""The alert-rule resource: storing, changing and removing rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import peewee

from tocsin.alerting.checks import Types, check_rule, normalised
from tocsin.alerting.form import COLUMNS, Rule, body_of, rule_of, severity_places
from tocsin.alerting.models import AlertRule, PendingAlert, RuleFault
from tocsin.alerting.windows import check_windows
from tocsin.events.journal import Change, EventJournal, active_events, firing_pairs, firing_rules
from tocsin.plugin import ApiError, conflict, invalid, not_found
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots

RULES = "alert_rules"
"""Name of the part for ``core.snapshots``."""
EVERYWHERE = [{"match_type": 2, "op": "in", "values": [0]}]
"""The selector of all datasources of a category."""
DISABLED, DELETED = "rule disabled", "rule deleted"
UNSELECTED, SOURCE_DELETED = "datasource no longer selected", "datasource deleted"

ASKED = ("cate", "prod", "rule_config", "datasource_queries")
"""Fields whose change makes the queries of a rule worth checking with its datasource."""


class Judge(Protocol):
    """Tells whether a datasource understands a rule; see :class:`~tocsin.alerting.judge.QueryJudge`."""

    def check(self, rule: Rule) -> None:
        """Raise ``invalid`` when it does not."""


Outcome = dict[str, str]
"""Per item of a bulk request: its name and an error text, empty for success."""


class AlertRules:
    """Reads and writes alert rules; every write moves the version that the engine watches."""

    def __init__(
        self,
        database: Database,
        snapshots: Snapshots,
        journal: EventJournal,
        types: Callable[[], Types],
        clock: Callable[[], float],
        judge: Callable[[], Judge],
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._journal = journal
        self._types = types
        self._clock = clock
        self._judge = judge

    def get(self, rule_id: int) -> Rule:
        """Return a rule; raise ``not_found``."""
        row = AlertRule.get_or_none(AlertRule.id == rule_id)
        if row is None:
            raise not_found("No such AlertRule")
        return rule_of(row)

    def some(self, ids: Iterable[int]) -> list[Rule]:
        """Return the rules with these ids that exist."""
        return [rule_of(row) for row in AlertRule.select().where(AlertRule.id.in_(list(ids))).order_by(AlertRule.id)]

    def in_groups(self, groups: Iterable[int] | None) -> list[Rule]:
        """Return the rules of business groups (``None``: of all), by name."""
        query = AlertRule.select().order_by(AlertRule.name, AlertRule.id)
        if groups is not None:
            query = query.where(AlertRule.group_id.in_(sorted(groups)))
        return [rule_of(row) for row in query]

    def enabled(self) -> list[AlertRule]:
        """Return the rows of the rules that are to be evaluated."""
        return list(AlertRule.select().where(AlertRule.disabled == 0))

    def count(self, group_id: int) -> int:
        """Return how many rules a business group owns."""
        return int(AlertRule.select().where(AlertRule.group_id == group_id).count())

    def create(self, group_id: int, given: Sequence[Mapping[str, Any]], operator: str) -> Outcome:
        """Store rules; the times of all are checked before any is stored, everything else per rule."""
        rules = [normalised(item) | {"group_id": group_id} for item in given]
        _check_all_times(rules)
        judge = self._judge()
        return {rule["name"]: self._tried(self._insert, rule, operator, judge) for rule in rules}

    def bring_in(self, group_id: int, given: Sequence[Mapping[str, Any]], operator: str, *, force: bool) -> Outcome:
        """Store rules from an export; with ``force`` a rule of the same name in the group is overwritten."""
        outcome, judge = {}, self._judge()
        for item in given:
            rule = normalised({**item, "notify_version": 1}) | {"group_id": group_id}
            rule["datasource_queries"] = rule["datasource_queries"] or EVERYWHERE
            known = self._named(group_id, rule["name"]) if force else None
            if known is None:
                outcome[rule["name"]] = self._tried(self._insert, rule, operator, judge)
            else:
                outcome[rule["name"]] = self._tried(self._update, known, rule, operator, judge)
        return outcome

    def replace(self, rule: Rule, given: Mapping[str, Any], operator: str) -> None:
        """Overwrite every writable field of a stored rule."""
        self._update(rule, normalised(given), operator, self._judge())

    def save(self, rule: Rule, operator: str) -> None:
        """Store a rule that was read and changed."""
        self._update(self.get(rule["id"]), rule, operator, self._judge())

    def delete(self, group_id: int, ids: Iterable[int]) -> None:
        """Delete the rules among ``ids`` that belong to the group, and close their events."""
        mine = (AlertRule.id.in_(list(ids))) & (AlertRule.group_id == group_id)
        with self._database.atomic():
            found = [row.id for row in AlertRule.select(AlertRule.id).where(mine)]
            AlertRule.delete().where(AlertRule.id.in_(found)).execute()
            closed = self.close_events(found, DELETED)
            self._snapshots.bump(RULES)
        self._journal.announce(closed)

    def delete_group(self, group_id: int) -> None:
        """Delete what a business group owns; called inside the transaction that removes it."""
        self.delete(group_id, [row.id for row in AlertRule.select(AlertRule.id).where(AlertRule.group_id == group_id)])

    def close_events(self, rule_ids: Iterable[int], reason: str) -> list[Change]:
        """End the active events and forget the pending conditions of rules; returns what was recorded."""
        closed: list[Change] = []
        for rule_id in rule_ids:
            events = [event for event, _ in active_events(rule_id)]
            closed += self._journal.close(events, reason, int(self._clock()))
            PendingAlert.delete().where(PendingAlert.rule_id == rule_id).execute()
            RuleFault.delete().where(RuleFault.rule_id == rule_id).execute()
        return closed

    def close_unselected(self, selected: Callable[[int], Collection[int]], known: Collection[int]) -> list[Change]:
        """End active events of datasources that their rule does not select any more, or that are deleted.

        ``selected`` gives the datasources of an enabled rule, ``known`` are the ids of all datasources.
        """
        closed: list[Change] = []
        now = int(self._clock())
        for rule_id, source in firing_pairs():
            if source not in selected(rule_id):
                reason = UNSELECTED if source in known else SOURCE_DELETED
                closed += self._journal.close([event for event, _ in active_events(rule_id, source)], reason, now)
        return closed

    def close_orphans(self) -> list[Change]:
        """End active events whose rule is gone or disabled; what a crash or a race left behind."""
        enabled = {row.id for row in self.enabled()}
        known = {row.id for row in AlertRule.select(AlertRule.id)}
        firing = firing_rules() - enabled
        closed = self.close_events(firing & known, DISABLED)
        return closed + self.close_events(firing - known, DELETED)

    def _tried(self, action: Callable[..., None], *arguments: Any) -> str:
        try:
            action(*arguments)
        except ApiError as error:
            return error.message
        return ""

    def _named(self, group_id: int, name: str) -> Rule | None:
        row = AlertRule.get_or_none((AlertRule.group_id == group_id) & (AlertRule.name == name))
        return rule_of(row) if row else None

    def _insert(self, rule: Rule, operator: str, judge: Judge) -> None:
        check_rule(rule, self._types())
        if self._named(rule["group_id"], rule["name"]) is not None:
            raise conflict("AlertRule already exists")
        judge.check(rule)
        now = int(self._clock())
        stamps = {"create_at": now, "create_by": operator, "update_at": now, "update_by": operator}
        columns = {name: rule[name] for name in ("group_id", "name", "cate", "prod", "disabled")}
        self._write(lambda: AlertRule.create(**columns, **stamps, body=body_of(rule)))

    def _update(self, known: Rule, wanted: Rule, operator: str, judge: Judge) -> None:
        """Write ``wanted`` over the stored rule ``known``; id, group and creation are kept."""
        kept = {name: known[name] for name in ("id", "group_id", "create_at", "create_by")}
        rule = {**wanted, **kept, "update_by": operator, "update_at": int(self._clock())}
        if rule["name"] != known["name"] and self._named(rule["group_id"], rule["name"]) is not None:
            raise conflict("AlertRule already exists")
        check_rule(rule, self._types())
        if any(rule[name] != known[name] for name in ASKED):
            judge.check(rule)
        columns = {name: rule[name] for name in COLUMNS if name != "id"}
        closed: list[Change] = []

        def write() -> None:
            AlertRule.update(**columns, body=body_of(rule)).where(AlertRule.id == rule["id"]).execute()
            if rule["disabled"]:
                closed.extend(self.close_events([rule["id"]], DISABLED))

        self._write(write)
        self._journal.announce(closed)

    def _write(self, action: Callable[[], Any]) -> None:
        try:
            with self._database.atomic():
                action()
                self._snapshots.bump(RULES)
        except peewee.IntegrityError:
            raise conflict("AlertRule already exists") from None


def _check_all_times(rules: Sequence[Rule]) -> None:
    faults = []
    for rule in rules:
        try:
            check_windows(rule["enable_stimes"], rule["enable_etimes"], rule["enable_days_of_weeks"])
        except ApiError as error:
            faults.append(f"{rule['name']}: {error.message}")
    if faults:
        raise invalid("; ".join(faults))


def set_severity(rule: Rule, severity: int) -> None:
    """Set the severity inside ``rule_config`` where there is exactly one place for it."""
    places = severity_places(rule["rule_config"])
    if len(places) == 1:
        places[0]["severity"] = severity
