"""Connected datasources by id, and the one door through which their plugins are called."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tocsin.datasources.records import DatasourceRecord
from tocsin.plugin import (
    Datasource,
    DatasourceConfig,
    DatasourceError,
    DatasourceType,
    LogPage,
    LogQuery,
    MetadataQuery,
    MetricQuery,
    Series,
    not_found,
)

if TYPE_CHECKING:
    from tocsin.app.calls import PluginCalls
    from tocsin.datasources.catalog import Catalog
    from tocsin.plugin import HttpClient

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass
class _Connected:
    """A datasource and how many calls use it now; it is closed when it was retired and nobody uses it any more."""

    config: DatasourceConfig
    datasource: Datasource
    users: int = 0
    retired: bool = False


class DatasourcePool:
    """Answers questions to datasources by id; a changed row is connected anew, a deleted one is closed.

    ``complete`` adds to a stored configuration what the process knows (denied networks, being an edge).
    """

    def __init__(
        self,
        catalog: Catalog,
        types: Mapping[str, DatasourceType],
        calls: PluginCalls,
        *,
        complete: Callable[[DatasourceConfig], DatasourceConfig],
        max_timeout: float = 300.0,
    ) -> None:
        self._catalog = catalog
        self._types = types
        self._calls = calls
        self._complete = complete
        self._max_timeout = max_timeout
        self._connected: dict[int, _Connected] = {}
        self._seen: Mapping[int, DatasourceRecord] = {}
        self._lock = threading.Lock()

    def timeout(self, datasource_id: int) -> float:
        """Return the seconds that a query of a datasource may take, as its settings say."""
        return min(self._catalog.find(datasource_id).config().timeout, self._max_timeout)

    def query_metrics(self, datasource_id: int, query: MetricQuery) -> Sequence[Series]:
        """Answer a metric query as columns; raises :class:`DatasourceError` or another ``PluginCallError``."""
        return self._query(datasource_id, "query_metrics", lambda d: d.query_metrics(query), query.timeout)

    def query_result(self, datasource_id: int, query: MetricQuery) -> Any:
        """Answer a metric query as the ``result`` value of the Prometheus HTTP API."""
        return self._query(datasource_id, "query_result", lambda d: d.query_result(query), query.timeout)

    def query_logs(self, datasource_id: int, query: LogQuery) -> LogPage:
        """Answer a log query."""
        return self._query(datasource_id, "query_logs", lambda d: d.query_logs(query), query.timeout)

    def label_names(self, datasource_id: int, query: MetadataQuery) -> Sequence[str]:
        """Return label names."""
        return self._query(datasource_id, "label_names", lambda d: d.label_names(query), query.timeout)

    def label_values(self, datasource_id: int, name: str, query: MetadataQuery) -> Sequence[str]:
        """Return the values of a label."""
        return self._query(datasource_id, "label_values", lambda d: d.label_values(name, query), query.timeout)

    def series(self, datasource_id: int, query: MetadataQuery) -> Sequence[Mapping[str, str]]:
        """Return label sets."""
        return self._query(datasource_id, "series", lambda d: d.series(query), query.timeout)

    def delete_series(self, datasource_id: int, matchers: Sequence[str], start: str, end: str) -> None:
        """Delete samples."""
        limit = self.timeout(datasource_id)
        self._query(datasource_id, "delete_series", lambda d: d.delete_series(matchers, start, end, limit), limit)

    def query_key(self, datasource_id: int, spec: Mapping[str, Any]) -> str:
        """Return a text that is equal for specs that ask this datasource the same question."""
        with self.lease(datasource_id) as (config, datasource):
            return self._calls.call(config.type, "query_key", lambda: datasource.query_key(spec))

    @contextmanager
    def http_target(self, datasource_id: int) -> Iterator[HttpClient | None]:
        """Lend the client that reaches a datasource; it stays usable until the block ends."""
        with self.lease(datasource_id) as (config, datasource):
            yield self._calls.call(config.type, "http_target", datasource.http_target)

    def check(self, config: DatasourceConfig, timeout: float) -> float:
        """Connect to a datasource that need not be stored, check it, and return the milliseconds that it took."""
        datasource = self.connect(self._complete(config))
        started = time.monotonic()
        try:
            self._calls.call(config.type, "check", lambda: datasource.check(timeout), seconds=timeout)
        finally:
            self._close(config.type, datasource)
        return (time.monotonic() - started) * 1000

    def connect(self, config: DatasourceConfig) -> Datasource:
        """Return a datasource for settings; raises ``DatasourceError`` for settings that cannot work."""
        kind = self._types.get(config.type)
        if kind is None:
            raise DatasourceError(f"no installed plugin serves datasources of type {config.type!r}", refused=True)
        return self._calls.call(config.type, "connect", lambda: kind.connect(config))

    def close(self) -> None:
        """Close everything; datasources in use are closed when their calls end."""
        with self._lock:
            leaving = [self._connected.pop(key) for key in list(self._connected)]
            self._seen = {}
            idle = [entry for entry in leaving if self._retire(entry)]
        for entry in idle:
            self._close(entry.config.type, entry.datasource)

    def _query(self, datasource_id: int, operation: str, ask: Callable[[Datasource], T], timeout: float) -> T:
        with self.lease(datasource_id) as (config, datasource):
            seconds = min(timeout, self._max_timeout)
            # The thread may outlive this call, so the datasource may be closed under it; it is past its time then.
            return self._calls.call(
                config.type, operation, lambda: ask(datasource), seconds=seconds, about=datasource_id
            )

    @contextmanager
    def lease(self, datasource_id: int) -> Iterator[tuple[DatasourceConfig, Datasource]]:
        """Lend a connected datasource; it is not closed before the block ends."""
        entry = self._take(datasource_id)
        try:
            yield entry.config, entry.datasource
        finally:
            with self._lock:
                entry.users -= 1
                over = entry.retired and not entry.users
            if over:
                self._close(entry.config.type, entry.datasource)

    def _take(self, datasource_id: int) -> _Connected:
        records = self._catalog.records()
        with self._lock:
            closing = self._reconcile(records)
        for old in closing:
            self._close(old.config.type, old.datasource)
        with self._lock:
            entry = self._connected.get(datasource_id) or self._open(datasource_id, records.get(datasource_id))
            entry.users += 1
        return entry

    def _open(self, datasource_id: int, record: DatasourceRecord | None) -> _Connected:
        if record is None:
            raise not_found(f"no such datasource id: {datasource_id}")
        if record.fault:
            raise DatasourceError(f"datasource {record.name}: {record.fault}")
        config = self._complete(record.config())
        entry = self._connected[datasource_id] = _Connected(config, self.connect(config))
        return entry

    def _reconcile(self, records: Mapping[int, DatasourceRecord]) -> list[_Connected]:
        """Retire what changed or is gone and return what can be closed at once."""
        if records is self._seen:
            return []
        self._seen = records
        leaving = []
        for key, entry in list(self._connected.items()):
            record = records.get(key)
            if record is None or replace(self._complete(record.config()), name=entry.config.name) != entry.config:
                leaving.append(self._connected.pop(key))
        return [entry for entry in leaving if self._retire(entry)]

    @staticmethod
    def _retire(entry: _Connected) -> bool:
        entry.retired = True
        return not entry.users

    def _close(self, plugin: str, datasource: Datasource) -> None:
        try:
            self._calls.call(plugin, "close", datasource.close)
        except Exception:
            log.exception("a datasource of plugin %s was not closed properly", plugin)
