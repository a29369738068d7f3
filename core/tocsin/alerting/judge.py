"""Asks a datasource whether it understands the queries of a rule that is about to be stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tocsin.alerting.checks import rule_type
from tocsin.alerting.compiled import compile_rule
from tocsin.alerting.form import Rule
from tocsin.datasources.catalog import Catalog
from tocsin.datasources.pool import DatasourcePool
from tocsin.plugin import ApiError, DatasourceError, MetricQuery, PluginCallError, invalid

QUERY_SECONDS = 5.0
REQUEST_SECONDS = 15.0
"""All questions of one request; rules whose turn comes later are stored unasked."""


class QueryJudge:
    """The opinion of datasources on queries, each asked once per request.

    A query that the datasource understood and refused stops its rule.  A datasource that cannot be reached has no opinion.
    """

    def __init__(self, catalog: Catalog, pool: DatasourcePool, clock: Callable[[], float]) -> None:
        self._catalog = catalog
        self._pool = pool
        self._clock = clock
        self._known: dict[tuple[int, str], str] = {}
        self._silent: set[int] = set()
        self._end = time.monotonic() + REQUEST_SECONDS

    def check(self, rule: Rule) -> None:
        """Raise ``invalid`` when a datasource that the rule selects refuses one of its queries."""
        selected = self._catalog.select(rule_type(rule), rule["datasource_queries"] or ())
        source = next((record.id for record in selected if record.enabled), None)
        if source is None:
            return
        for query in compile_rule(rule).queries:
            fault = self._fault(source, query.spec, query.text)
            if fault:
                raise invalid(f"rule_config.queries[{query.ref}]: {fault}")

    def _fault(self, source: int, spec: Mapping[str, Any], text: str) -> str:
        key = (source, text or repr(spec))
        if key not in self._known:
            self._known[key] = self._ask(source, spec)
        return self._known[key]

    def _ask(self, source: int, spec: Mapping[str, Any]) -> str:
        left = self._end - time.monotonic()
        if source in self._silent or left <= 0:
            return ""
        now = self._clock()
        try:
            query = MetricQuery(spec, now, now, timeout=min(QUERY_SECONDS, left))
            self._pool.query_metrics(source, query)
        except DatasourceError as error:
            if error.refused:
                return str(error)
            self._silent.add(source)
        except (PluginCallError, ApiError):
            self._silent.add(source)
        return ""
