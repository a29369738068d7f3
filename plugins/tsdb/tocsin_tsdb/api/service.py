"""What the resources of the API share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import falcon
import orjson
from prometheus_client import CollectorRegistry

from tocsin_tsdb.api.failure import Failure
from tocsin_tsdb.api.metrics import ApiMetrics, CacheMetrics
from tocsin_tsdb.api.options import ApiOptions
from tocsin_tsdb.api.slots import SlotCanceled, Slots, SlotTimeout
from tocsin_tsdb.httpserver import CLIENT_LEFT
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.storage.maintenance import Maintenance
from tocsin_tsdb.storage.store import Store


class Service:
    """The store, the engine, and the limits under which requests reach them."""

    def __init__(
        self, store: Store, maintenance: Maintenance, engine: Engine, options: ApiOptions, registry: CollectorRegistry
    ) -> None:
        self.store = store
        self.maintenance = maintenance
        self.engine = engine
        self.options = options
        self.registry = registry
        self.metrics = ApiMetrics(registry)
        registry.register(CacheMetrics(engine.expressions))
        self.metrics.queries_max.set(options.query_concurrency)
        self.started = store.clock()
        self.queries = Slots(options.query_concurrency)
        self.lookups = Slots(options.query_concurrency)
        self.writes = Slots(options.write_concurrency)

    @contextlib.contextmanager
    def slot(
        self, slots: Slots, kind: str, cancelled: Callable[[], bool], timeout: float | None = None
    ) -> Iterator[float]:
        """Hold a slot; a client that left or a wait that is too long becomes the answer for it."""
        try:
            with slots.slot(cancelled, self.options.query_timeout if timeout is None else timeout) as waited:
                yield waited
        except SlotCanceled:
            raise Failure(503, "unavailable", f"canceled while waiting for a {kind} slot") from None
        except SlotTimeout:
            raise Failure(503, "timeout", f"timed out while waiting for a {kind} slot") from None


def client_left(req: falcon.Request) -> Callable[[], bool]:
    """Return a function that tells whether the client has closed its connection."""
    found: Callable[[], bool] = req.env.get(CLIENT_LEFT, lambda: False)
    return found


OPENING = b'{"status":"success","data":'
"""What comes before the data of every answer."""


def notes(warnings: Sequence[str], infos: Sequence[str]) -> bytes:
    """Return what follows the data of an answer: annotations, where there are any."""
    tail = b""
    if warnings:
        tail += b',"warnings":' + orjson.dumps(list(warnings))
    if infos:
        tail += b',"infos":' + orjson.dumps(list(infos))
    return tail


def answer(resp: falcon.Response, data: bytes, warnings: Sequence[str] = ()) -> None:
    """Answer with rendered data in Prometheus's envelope."""
    resp.content_type = falcon.MEDIA_JSON
    resp.data = b"%b%b%b}" % (OPENING, data, notes(warnings, ()))


def answer_list(resp: falcon.Response, items: Sequence[object], limit: int) -> None:
    """Answer with a list, cut to a limit (0 is none) with Prometheus's warning."""
    cut = 0 < limit < len(items)
    answer(resp, orjson.dumps(items[:limit] if cut else items), ["results truncated due to limit"] if cut else ())
