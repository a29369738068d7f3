"""Which rules run here: enabled rules times the datasources they select, as far as this engine owns them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from tocsin.alerting.checks import rule_type
from tocsin.alerting.compiled import CompiledRule, compile_rule
from tocsin.alerting.form import Rule, rule_of
from tocsin.alerting.membership import Membership
from tocsin.alerting.metrics import AlertMetrics
from tocsin.alerting.models import AlertRule
from tocsin.alerting.rules import RULES, AlertRules
from tocsin.alerting.scheduler import Key
from tocsin.alerting.workers import Gauges, QueryKey, Worker, questions_of
from tocsin.datasources.catalog import Catalog
from tocsin.datasources.records import DatasourceRecord
from tocsin.datasources.selection import select
from tocsin.plugin import ApiError, PluginCallError
from tocsin.store.snapshots import Snapshots

log = logging.getLogger(__name__)


def selected_by(rule: Rule, records: Iterable[DatasourceRecord]) -> list[DatasourceRecord]:
    """Return the datasources that a rule selects."""
    kind = rule_type(rule)
    return select((record for record in records if record.plugin_type == kind), rule["datasource_queries"] or ())


class Roster:
    """The workers of this engine, kept in step with rules, datasources and the rings."""

    def __init__(
        self,
        rules: AlertRules,
        catalog: Catalog,
        membership: Membership,
        snapshots: Snapshots,
        metrics: AlertMetrics,
        query_key: QueryKey,
        announce: Callable[[Collection[Any]], None],
    ) -> None:
        self._rules = rules
        self._catalog = catalog
        self._membership = membership
        self._metrics = metrics
        self._query_key = query_key
        self._announce = announce
        self._compiled: dict[int, tuple[dict[str, Any], CompiledRule | None]] = {}
        self._snapshots = snapshots
        self._snapshot = snapshots.make("alert_rules", (RULES,), self._load)
        self._seen: tuple[Any, ...] = ()
        self.workers: dict[Key, Worker] = {}
        self.gone: list[Worker] = []
        """Workers that were dropped; whoever takes notice empties it."""

    def versions(self) -> object:
        """Return something that is equal as long as nothing that matters here has changed; one small query."""
        return self._snapshots.versions(), self._membership.version

    def refresh(self) -> bool:
        """Bring the workers up to date; return whether anything changed."""
        rules = self._snapshot.get()
        records = self._catalog.records()
        # Identity is enough: snapshots hand out the same object until something changed.
        now = (rules, records, self._membership.version)
        if self._seen and rules is self._seen[0] and records is self._seen[1] and now[2] == self._seen[2]:
            return False
        selected = {rule.id: selected_by(rule.rule, records.values()) for rule in rules.values()}
        self._close(rules, records, selected)
        self._seen = now
        wanted = self._wanted(rules, records, selected)
        for key in [key for key in self.workers if key not in wanted]:
            self._drop(self.workers.pop(key))
        for key, (rule, source) in wanted.items():
            self._keep(key, rule, source)
        return True

    def _close(
        self,
        rules: Mapping[int, CompiledRule],
        records: Mapping[int, DatasourceRecord],
        selected: Mapping[int, Sequence[DatasourceRecord]],
    ) -> None:
        """End the events that nobody will evaluate again."""
        closed = self._rules.close_orphans()
        # A rule that cannot be compiled keeps its events: unknown is not healthy.
        closed += self._rules.close_unselected(
            lambda rule: {record.id for record in selected[rule]} if rule in rules else records.keys(), records.keys()
        )
        self._announce(closed)

    def bound(self) -> list[int]:
        """Return the ids of the datasources that this engine's cluster evaluates."""
        return [record.id for record in self._catalog.records().values() if self._serves(record)]

    def _serves(self, record: DatasourceRecord) -> bool:
        # A datasource that names no cluster belongs to the center's own, so that a first one works at once.
        return (record.cluster_name or "default") == self._membership.cluster

    def _load(self) -> dict[int, CompiledRule]:
        found: dict[int, tuple[dict[str, Any], CompiledRule | None]] = {}
        for row in self._rules.enabled():
            stored, known = row.as_dict(), self._compiled.get(row.id)
            found[row.id] = known if known is not None and known[0] == stored else (stored, self._compile(row))
        self._compiled = found
        return {rule_id: compiled for rule_id, (_, compiled) in found.items() if compiled is not None}

    def _compile(self, row: AlertRule) -> CompiledRule | None:
        try:
            return compile_rule(rule_of(row))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.error("alert rule %d (%s) cannot be evaluated: %s", row.id, row.name, error)
            self._metrics.errors.labels("0", "get_rule_config", str(row.group_id), str(row.id)).inc()
            return None

    def _wanted(
        self,
        rules: Mapping[int, CompiledRule],
        records: Mapping[int, DatasourceRecord],
        selected: Mapping[int, Sequence[DatasourceRecord]],
    ) -> dict[Key, tuple[CompiledRule, DatasourceRecord]]:
        serving = {number for number, record in records.items() if record.enabled and self._serves(record)}
        found = {}
        for rule in rules.values():
            for record in selected[rule.id]:
                if record.id in serving and self._membership.owns(rule.id, record.id):
                    found[rule.id, record.id] = (rule, record)
        return found

    def _keep(self, key: Key, rule: CompiledRule, source: DatasourceRecord) -> None:
        worker = self.workers.get(key)
        if worker is not None and worker.rule is rule and worker.source is source:
            return
        made = Worker(key, rule, source)
        try:
            made.questions = questions_of(rule, source, self._query_key)
        except (PluginCallError, ApiError) as error:
            made.fault = str(error)
        if worker is None:
            made.gauges = Gauges(self._metrics, made)
            self.workers[key] = made
            return
        # The memory of the rule goes on: what its new form no longer finds recovers.
        worker.rule, worker.source, worker.questions = rule, source, made.questions
        worker.fault, worker.gauges = made.fault, Gauges(self._metrics, made)

    def _drop(self, worker: Worker) -> None:
        worker.dropped = True
        self.gone.append(worker)
        refs = tuple(query.ref for query in worker.rule.queries)
        self._metrics.forget(*worker.key, refs)
