"""The status endpoints, health and metrics."""

from __future__ import annotations

import os
import platform
import threading
from datetime import UTC, datetime

import falcon
import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tocsin_tsdb.api.failure import bad_data
from tocsin_tsdb.api.options import REVISION, VERSION
from tocsin_tsdb.api.params import Parameters
from tocsin_tsdb.api.service import Service, answer
from tocsin_tsdb.promql.durations import format_duration
from tocsin_tsdb.promql.interface import METRIC_NAME
from tocsin_tsdb.storage.memtable import NEVER

DEFAULT_TOP = 10
MOST_TOP = 10_000


class StatusResource:
    """`status/<what>`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get_buildinfo(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with the API level."""
        info = {
            "version": VERSION,
            "revision": REVISION,
            "branch": "HEAD",
            "buildUser": "",
            "buildDate": "",
            "goVersion": f"python{platform.python_version()}",
        }
        answer(resp, orjson.dumps(info))

    def on_get_config(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with the settings in effect, without secrets."""
        answer(resp, orjson.dumps({"yaml": self._service.options.config}))

    def on_get_flags(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with the settings under Prometheus's flag names."""
        answer(resp, orjson.dumps(dict(self._service.options.flags)))

    def on_get_runtimeinfo(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with facts about the running process."""
        service = self._service
        store = service.store
        retention = format_duration(store.options.retention)
        info = {
            "startTime": datetime.fromtimestamp(service.started, UTC).isoformat().replace("+00:00", "Z"),
            "CWD": os.getcwd(),
            "reloadConfigSuccess": True,
            "lastConfigTime": datetime.fromtimestamp(service.started, UTC).isoformat().replace("+00:00", "Z"),
            "corruptionCount": int(
                store.metrics.wal_corruptions._value.get() + store.metrics.block_corruptions._value.get()
            ),
            "goroutineCount": threading.active_count(),
            "GOMAXPROCS": os.cpu_count() or 1,
            "GOGC": "",
            "GODEBUG": "",
            "storageRetention": f"{retention} or {store.options.max_bytes}B" if store.options.max_bytes else retention,
        }
        answer(resp, orjson.dumps(info))

    def on_get_tsdb(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with cardinality statistics; `limit` says how many rows each list has (10)."""
        top = Parameters(req).number("limit", DEFAULT_TOP)
        if top < 1:
            raise bad_data("limit must be a positive number")
        if top > MOST_TOP:
            raise bad_data(f"limit must not exceed {MOST_TOP}")
        store = self._service.store
        counts = store.index.cardinalities()
        memory = {
            name: sum(len(value.encode()) * series for value, series in values.items())
            for name, values in counts.items()
        }
        pairs = {f"{name}={value}": series for name, values in counts.items() for value, series in values.items()}
        head = store.head
        data = {
            "headStats": {
                "numSeries": len(store.index),
                "numLabelPairs": len(pairs),
                "chunkCount": sum(generation.memtable.runs for generation in head.generations),
                "minTime": head.min_time if head.min_time != NEVER else 0,
                "maxTime": head.max_time if head.max_time != -NEVER else 0,
            },
            "seriesCountByMetricName": _top(counts.get(METRIC_NAME, {}), top),
            "labelValueCountByLabelName": _top({name: len(values) for name, values in counts.items()}, top),
            "memoryInBytesByLabelName": _top(memory, top),
            "seriesCountByLabelValuePair": _top(pairs, top),
        }
        answer(resp, orjson.dumps(data))


def _top(counts: dict[str, int], top: int) -> list[dict[str, object]]:
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:top]
    return [{"name": name, "value": value} for name, value in rows]


class EmptyResource:
    """What clients ask every server of this API for, and a store has none of: rules, alerts, targets."""

    def __init__(self, **data: list[object]) -> None:
        self._data = orjson.dumps(data)

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with nothing."""
        answer(resp, self._data)


class HealthResource:
    """Tells that the store serves."""

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer 200."""
        resp.content_type = falcon.MEDIA_TEXT
        resp.text = "ready\n"


class MetricsResource:
    """The store's own metrics in the text format."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with all metrics."""
        self._service.store.refresh_metrics()
        resp.content_type = CONTENT_TYPE_LATEST
        resp.data = generate_latest(self._service.registry)
