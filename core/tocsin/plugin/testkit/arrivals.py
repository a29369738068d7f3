"""A served gateway for tests of ingest protocols with real clients, and what arrives at its backend."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

from tocsin.plugin import Batch, DecodedSeries, Writer, WriterContext, WriteResult, WriterType, decode_chunk, hookimpl
from tocsin.plugin.testkit._app import AppFactory, TestApp
from tocsin.plugin.testkit.components import PATIENCE


class Arrivals(Writer):
    """A backend that keeps what it is given, with metadata in ``metadata_bodies``."""

    url = "http://arrivals"
    metadata = True

    def __init__(self) -> None:
        self.series: list[DecodedSeries] = []
        self.metadata_bodies: list[bytes] = []
        self._arrived = threading.Condition()

    def write(self, batch: Batch) -> WriteResult:
        """Keep a batch."""
        with self._arrived:
            if batch.series:
                self.series += decode_chunk(batch.body)
            else:
                self.metadata_bodies.append(batch.body)
            self._arrived.notify_all()
        return WriteResult()

    def wait(self, count: int) -> list[DecodedSeries]:
        """Return what has arrived as soon as it is ``count`` series; fail when it never is, or is more."""
        with self._arrived:
            self._arrived.wait_for(lambda: len(self.series) >= count, PATIENCE)
            assert len(self.series) == count, [str(series) for series in self.series]
            return list(self.series)

    def samples(self, count: int) -> dict[str, list[tuple[int, float]]]:
        """Return the samples of ``count`` series by their labels, written ``name{label="value",...}`` in order of name."""
        return {written(series): series.samples for series in self.wait(count)}


class _Kind(WriterType):
    name = "arrivals"

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def build(self, settings: Any, context: WriterContext) -> Writer:
        return self._writer

    def implied(self, context: WriterContext) -> Sequence[Any]:
        return [None]


class _Plugin:
    __name__ = "arrivals"

    def __init__(self, writer: Writer) -> None:
        self._kinds: list[WriterType] = [_Kind(writer)]

    @hookimpl
    def tocsin_writers(self) -> list[WriterType]:
        return self._kinds


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what counts is the answer."""


@dataclass(frozen=True)
class ServedGateway:
    """An application that listens on the loopback interface, and its only backend."""

    url: str
    port: int
    app: TestApp
    arrivals: Arrivals


def written(series: DecodedSeries) -> str:
    """Return a series' labels as PromQL would show them."""
    labels = dict(series.labels)
    name = labels.pop("__name__", "")
    return f"{name}{{{','.join(f'{key}={chr(34)}{value}{chr(34)}' for key, value in sorted(labels.items()))}}}"


@contextmanager
def listening(app: TestApp) -> Iterator[int]:
    """Serve an application on a port of the loopback interface."""
    with make_server("127.0.0.1", 0, app.client.application, _Server, _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def serve_gateway(make_app: AppFactory) -> Iterator[Callable[..., ServedGateway]]:
    """Return a factory of served gateways: ``serve_gateway(plugin_module, {"HTTP": ...})``; sample times are kept."""
    with ExitStack() as stack:

        def serve(plugin: Any, settings: Mapping[str, Any] | None = None) -> ServedGateway:
            arrivals = Arrivals()
            document = {"Pushgw": {"ForceUseServerTS": False, "WriterOpt": {"BatchLinger": 0}}, **(settings or {})}
            app = make_app(plugins=[plugin, _Plugin(arrivals)], settings=document, start="http")
            port = stack.enter_context(listening(app))
            return ServedGateway(f"http://127.0.0.1:{port}", port, app, arrivals)

        yield serve
