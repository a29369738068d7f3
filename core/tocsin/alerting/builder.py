"""From a finding to an alert event: tags, identity fields, relabelling, rendered texts."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.alerting.compiled import CompiledRule
from tocsin.alerting.evaluation import Finding
from tocsin.alerting.points import Point
from tocsin.alerting.relabel import relabelled
from tocsin.alerting.triggers import nodata_mark
from tocsin.alerting.units import formatted, plain_number
from tocsin.events.form import Event, new_event, tag_map
from tocsin.plugin import PluginCallError
from tocsin.template import Mode, TemplateEngine, TemplateError
from tocsin.template.errors import CallError
from tocsin.template.event import ANNOTATION_VARIABLES, EVENT, RULE_VARIABLES
from tocsin.template.functions import sample

log = logging.getLogger(__name__)
REFRESHED = (
    *("group_id", "cate", "rule_name", "rule_note", "rule_prod", "rule_algo", "prom_for_duration", "callbacks"),
    *("runbook_url", "notify_recovered", "notify_channels", "notify_groups"),
)
"""What a recovery takes from the rule as it is now."""

Ask = Callable[[int, str, float], Sequence[Point]]
"""Asks datasource ``id`` a query at a time; may raise :class:`PluginCallError`."""


class GroupNames:
    """The names of business groups, read by the engine's thread once per tick."""

    def __init__(self, load: Callable[[], Mapping[int, str]]) -> None:
        self._load = load
        self.held: Mapping[int, str] = {}

    def refresh(self) -> None:
        """Read the names again."""
        self.held = self._load()


@dataclass(frozen=True)
class Surroundings:
    """What events are built from beside the rule: templates, group names, hosts and their groups, a way to query.

    ``hosts`` returns those of the named hosts that are known, as the API shows them.
    """

    templates: TemplateEngine
    group_names: GroupNames
    groups_of_host: Callable[[str], Sequence[int]]
    hosts: Callable[[Collection[str]], Mapping[str, Mapping[str, Any]]]
    ask: Ask


class EventBuilder:
    """Builds the events of one rule on one datasource at one evaluation."""

    def __init__(
        self, rule: CompiledRule, datasource_id: int, cluster: str, interval: int, at: int, around: Surroundings
    ) -> None:
        self._rule = rule
        self._datasource_id = datasource_id
        self._cluster = cluster
        self._interval = interval
        self._at = at
        self._around = around
        self._in_effect = rule.windows.cover(at)

    def suppressed(self, finding: Finding) -> bool:
        """Return whether the rule's hours or its business group exclude the anomaly."""
        if not self._in_effect:
            return True
        if not self._rule.rule["enable_in_bg"]:
            return False
        ident = tag_map(self._relabelled(self._tags(finding.point.labels))).get("ident")
        groups = self._around.groups_of_host(ident) if ident else ()
        return bool(groups) and self._rule.rule["group_id"] not in groups

    def build(self, finding: Finding, key: str) -> Event:
        """Return the event of an anomaly; texts with templates are still as the rule has them."""
        rule = self._rule.rule
        tags = self._tags(finding.point.labels)
        event = new_event(
            **self._rule_fields(),
            hash=key,
            rule_hash=self._rule_hash(),
            cluster=self._cluster,
            datasource_id=self._datasource_id,
            severity=finding.severity,
            prom_ql=finding.query,
            prom_eval_interval=self._interval,
            rule_config=self._config(finding),
            extra_config=rule["extra_config"],
            annotations=dict(rule["annotations"] or {}),
            notify_rule_ids=rule["notify_rule_ids"],
            notify_version=rule["notify_version"],
            trigger_time=finding.point.timestamp,
            recover_config=dict(finding.recover_config),
            original_tags=tags,
        )
        self._set_values(event, finding)
        tags = self._relabelled(tags)
        labels = tag_map(tags)
        event |= {"tags": tags, "tags_map": labels, "target_ident": labels.get("ident", "")}
        return event

    def add_hosts(self, events: Sequence[Event]) -> None:
        """Say of each event which host it is about, where that is known."""
        idents = {event["target_ident"] for event in events} - {""}
        hosts = self._around.hosts(idents) if idents else {}
        for event in events:
            host = hosts.get(event["target_ident"])
            if host is not None:
                event.update(target=host, target_note=host["note"])

    def rendered(self, event: Event) -> Event:
        """Return the event with its name, annotations and note rendered."""
        event["rule_name"] = self._text("rule name", event["rule_name"], event)
        extra = {"query": self._query_function(event)}
        event["annotations"] = {
            key: self._text("annotations", text, event, extra) for key, text in event["annotations"].items()
        }
        event["rule_note"] = self._text("rule note", event["rule_note"], event)
        return event

    def recovered(self, event: Event, value: float | None) -> Event:
        """Return the recovery of an event: fields of the rule as it is now, everything else as at the last firing."""
        fields = self._rule_fields()
        ended: Event = {**event, **{name: fields[name] for name in REFRESHED}}
        if value is not None:
            ended["trigger_value"] = plain_number(value)
        ended["annotations"] = self._recovery_annotations(ended)
        ended["rule_name"] = self._text("rule name", ended["rule_name"], ended)
        ended["rule_note"] = self._text("rule note", ended["rule_note"], ended)
        return ended

    def _rule_fields(self) -> Event:
        rule = self._rule.rule
        return {
            "group_id": rule["group_id"],
            "group_name": self._around.group_names.held.get(rule["group_id"], ""),
            "cate": rule["cate"],
            "rule_id": rule["id"],
            "rule_name": rule["name"],
            "rule_note": rule["note"],
            "rule_prod": rule["prod"],
            "rule_algo": rule["algorithm"],
            "prom_for_duration": rule["prom_for_duration"],
            "callbacks": rule["callbacks"],
            "runbook_url": (rule["annotations"] or {}).get("runbook_url") or rule["runbook_url"],
            "notify_recovered": rule["notify_recovered"],
            "notify_channels": rule["notify_channels"],
            "notify_groups": rule["notify_groups"],
        }

    def _rule_hash(self) -> str:
        text = f"{self._rule.id}_{self._datasource_id}_{self._rule.rule['rule_config']}"
        return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()

    def _config(self, finding: Finding) -> Any:
        config = self._rule.rule["rule_config"]
        return {**config, **nodata_mark(finding.nodata)} if finding.nodata else config

    def _set_values(self, event: Event, finding: Finding) -> None:
        units = finding.units
        if units is None:
            units = {"v": formatted(finding.unit, finding.point.value)}
            event["trigger_value"] = units["v"]["text"]
        else:
            event["trigger_value"] = formatted(finding.unit, finding.point.value)["text"]
        event |= {"trigger_values": finding.values, "trigger_values_json": {"values_with_unit": units}}
        if finding.values.count("$") > 1:
            event["trigger_value"] = finding.values
        if finding.nodata:
            event["trigger_value"] = "nodata"

    def _tags(self, labels: Mapping[str, str]) -> list[str]:
        """Return the sorted tags: the point's labels, the rule's own, and the rule's name."""
        found = dict(labels)
        for item in (*self._rule.rule["append_tags"], f"rulename={self._rule.rule['name']}"):
            key, _, text = item.partition("=")
            found[key] = self._tag_text(text, found) if "{{" in text else text
        return sorted(f"{key}={value}" for key, value in found.items())

    def _relabelled(self, tags: list[str]) -> list[str]:
        return relabelled(tags, self._rule.relabel) if self._rule.relabel else tags

    def _tag_text(self, text: str, labels: Mapping[str, str]) -> str:
        data = EVENT.wrap(new_event(tags_map=labels))
        try:
            return self._around.templates.render("append_tags", text, data, Mode.HTML, ANNOTATION_VARIABLES)
        except TemplateError as error:
            return str(error)

    def _text(self, name: str, text: str, event: Event, extra: Mapping[str, Callable[..., Any]] | None = None) -> str:
        if "{{" not in text:
            return text
        variables = ANNOTATION_VARIABLES if name == "annotations" else RULE_VARIABLES
        try:
            return self._around.templates.render(name, text, EVENT.wrap(event), Mode.TEXT, variables, extra)
        except TemplateError as error:
            return f"failed to parse {name}: {error}"

    def _query_function(self, event: Event) -> Callable[..., Any]:
        def query(text: str, datasource_id: int = 0) -> list[Any]:
            try:
                points = self._around.ask(datasource_id or event["datasource_id"], text, self._at)
            except PluginCallError as error:
                raise CallError(str(error)) from None
            return [sample(point.labels, point.value) for point in points]

        return query

    def _recovery_annotations(self, event: Event) -> dict[str, str]:
        annotations: dict[str, str] = dict(event["annotations"])
        text = annotations.get("recovery_promql", "").strip()
        if not text:
            return annotations
        try:
            points = self._around.ask(event["datasource_id"], text, self._at)
        except PluginCallError as error:
            return {**annotations, "recovery_promql_error": str(error)}
        if not points:
            return {**annotations, "recovery_promql_error": "the query returned no data"}
        return {**annotations, "recovery_value": formatted("", points[0].value)["text"]}
