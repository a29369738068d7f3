"""Copies of rules: for each of several hosts, and into other business groups."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any

from tocsin.alerting.checks import DEFAULT_CATE
from tocsin.alerting.form import Rule, dicts
from tocsin.alerting.rules import AlertRules

EXACT_IDENT = re.compile(r"""(\bident\s*=\s*)("[^"]*"|'[^']*')""")
OTHER_IDENT = re.compile(r"\bident\s*(?:!=|=~|!~)")

Failures = dict[str, dict[str, str]]


def clone_to_hosts(rules: AlertRules, sources: Iterable[Rule], idents: Iterable[str], operator: str) -> Failures:
    """Copy each rule for each host, with the host in its ``ident="..."`` matchers; return what failed."""
    failures: Failures = {}
    hosts = list(idents)
    for source in sources:
        fault = _unfit(source)
        if fault:
            failures[source["name"]] = {"all": fault}
            continue
        for ident in hosts:
            made = for_host(source, ident)
            error = rules.create(source["group_id"], [made], operator)[made["name"]]
            if error:
                text = f"rule already exists, ruleName: {made['name']}" if error.endswith("already exists") else error
                failures.setdefault(source["name"], {})[ident] = text
    return failures


def _unfit(rule: Rule) -> str:
    if rule["cate"] != DEFAULT_CATE:
        return "Only Prometheus rule can be cloned to machines"
    texts = [query.get("prom_ql") or "" for query in dicts(rule["rule_config"].get("queries"))]
    if any(OTHER_IDENT.search(text) for text in texts) or not any(EXACT_IDENT.search(text) for text in texts):
        return "promql is missing ident"
    return ""


def for_host(rule: Rule, ident: str) -> Rule:
    """Return a copy of a rule for one host."""
    made = copy.deepcopy(rule)
    made["name"] = f"{rule['name']}_{ident}"
    literal = '"' + ident.replace("\\", "\\\\").replace('"', '\\"') + '"'
    for query in dicts(made["rule_config"].get("queries")):
        query["prom_ql"] = EXACT_IDENT.sub(lambda found: found.group(1) + literal, query.get("prom_ql") or "")
    return made


def clone_to_groups(
    rules: AlertRules, wanted: Iterable[int], found: Iterable[Rule], groups: Iterable[int], operator: str
) -> dict[str, str]:
    """Copy each rule into each group under its name; return ``{"<rule>-<group>": error}`` for what failed."""
    by_id: dict[int, Any] = {rule["id"]: rule for rule in found}
    failures = {}
    targets = list(groups)
    for rule_id in wanted:
        for group in targets:
            rule = by_id.get(rule_id)
            error = "alert rule not found"
            if rule is not None:
                error = rules.create(group, [copy.deepcopy(rule)], operator)[rule["name"]]
            if error:
                failures[f"{rule_id}-{group}"] = error
    return failures
