"""Fixtures of the ingest tests: both twins of the wire functions, and an encoder that shares no code with them."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tocsin.http.metrics import Metrics
from tocsin.ingest.gateway import Gateway
from tocsin.ingest.hosts import NoHosts
from tocsin.ingest.interface import Resolver, Verdict
from tocsin.ingest.metrics import GatewayMetrics
from tocsin.ingest.outlet import Outlet, OutletOptions
from tocsin.ingest.settings import PushgwSettings, WriterOptions
from tocsin.plugin import Batch, Writer, WriteResult

TWINS = ("_wire_py", "_wire")

Field = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "double": Field.TYPE_DOUBLE,
    "int64": Field.TYPE_INT64,
    "uint64": Field.TYPE_UINT64,
    "uint32": Field.TYPE_UINT32,
    "sint32": Field.TYPE_SINT32,
    "sint64": Field.TYPE_SINT64,
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
}

# The published messages, one line each: `name: number type field`, with `*` for repeated. Labels are bytes, so that tests can
# carry what is not UTF-8.
MESSAGES = """
Label: 1 bytes name, 2 bytes value
Sample: 1 double value, 2 int64 timestamp
Exemplar: 1 *Label labels, 2 double value, 3 int64 timestamp
Span: 1 sint32 offset, 2 uint32 length
Histogram: 1 uint64 count_int, 2 double count_float, 3 double sum, 4 sint32 schema, 5 double zero_threshold, \
6 uint64 zero_count_int, 7 double zero_count_float, 8 *Span negative_spans, 9 *sint64 negative_deltas, \
10 *double negative_counts, 11 *Span positive_spans, 12 *sint64 positive_deltas, 13 *double positive_counts, \
14 uint64 reset_hint, 15 int64 timestamp, 16 *double custom_values
TimeSeries: 1 *Label labels, 2 *Sample samples, 3 *Exemplar exemplars, 4 *Histogram histograms
Metadata: 1 uint64 type, 2 string metric_family_name, 4 string help, 5 string unit
WriteRequest: 1 *TimeSeries timeseries, 3 *Metadata metadata
ExemplarV2: 1 *uint32 labels_refs, 2 double value, 3 int64 timestamp
MetadataV2: 1 uint64 type, 3 uint32 help_ref, 4 uint32 unit_ref
TimeSeriesV2: 1 *uint32 labels_refs, 2 *Sample samples, 3 *Histogram histograms, 4 *ExemplarV2 exemplars, \
5 MetadataV2 metadata, 6 int64 created_timestamp
RequestV2: 4 *bytes symbols, 5 *TimeSeriesV2 timeseries
"""


def _messages() -> SimpleNamespace:
    """Build the message classes at run time, with the reference protobuf implementation."""
    file = descriptor_pb2.FileDescriptorProto(name="prompb_test.proto", package="prompb_test", syntax="proto3")
    for line in filter(None, MESSAGES.splitlines()):
        name, _, declared = line.partition(":")
        message = file.message_type.add(name=name)
        for item in declared.split(","):
            number, kind, field_name = item.split()
            field = message.field.add(name=field_name, number=int(number))
            field.label = Field.LABEL_REPEATED if kind.startswith("*") else Field.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type, field.type_name = Field.TYPE_MESSAGE, f".prompb_test.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = message_factory.GetMessageClassesForFiles([file.name], pool)
    return SimpleNamespace(**{name.rpartition(".")[2]: cls for name, cls in classes.items()})


@pytest.fixture(scope="session")
def pb() -> SimpleNamespace:
    """Return the remote-write messages as protobuf classes."""
    return _messages()


def load_twin(name: str) -> ModuleType:
    """Import a twin; a compiled one that is not built skips the test unless it is required."""
    try:
        return importlib.import_module(f"tocsin.ingest.{name}")
    except ImportError:
        if os.environ.get("TOCSIN_REQUIRE_COMPILED") == "1":
            raise
        pytest.skip("the compiled wire functions are not built")


@pytest.fixture(params=TWINS)
def wire(request: pytest.FixtureRequest) -> ModuleType:
    """Return each twin in turn."""
    return load_twin(request.param)


@pytest.fixture
def twins() -> tuple[ModuleType, ModuleType]:
    """Return both twins, the specification first."""
    return load_twin("_wire_py"), load_twin("_wire")


def keep(labels: list[tuple[bytes, bytes]]) -> Verdict:
    """Resolve labels to themselves."""
    return Verdict(labels)


@pytest.fixture
def same() -> Resolver:
    """Return a resolver that changes nothing."""
    return keep


@pytest.fixture
def make_series(pb: SimpleNamespace) -> Callable[..., Any]:
    """Return a function that builds one series message: labels as keywords or pairs, samples as (ms, value)."""

    def build(samples: Any = ((1000, 1.0),), pairs: Any = (), **labels: str) -> Any:
        series = pb.TimeSeries()
        for name, value in [*pairs, *((k.encode(), v.encode()) for k, v in labels.items())]:
            series.labels.add(name=name, value=value)
        for time_ms, value in samples:
            series.samples.add(value=value, timestamp=time_ms)
        return series

    return build


@pytest.fixture
def make_body(pb: SimpleNamespace) -> Callable[..., bytes]:
    """Return a function that encodes a write request from series and metadata messages."""

    def build(*series: Any, metadata: Any = ()) -> bytes:
        body: bytes = pb.WriteRequest(timeseries=series, metadata=metadata).SerializeToString()
        return body

    return build


@pytest.fixture
def read_chunk(pb: SimpleNamespace) -> Callable[[bytes], list[Any]]:
    """Return a function that decodes a chunk with the reference implementation."""

    def read(chunk: bytes) -> list[Any]:
        return list(pb.WriteRequest.FromString(chunk).timeseries)

    return read


@pytest.fixture
def counting() -> Callable[[Resolver], tuple[Resolver, list[Any]]]:
    """Return a function that wraps a resolver so that its calls are recorded."""

    def wrap(resolve: Resolver) -> tuple[Resolver, list[Any]]:
        calls: list[Any] = []

        def recorded(labels: list[tuple[bytes, bytes]]) -> Verdict:
            calls.append(labels)
            return resolve(labels)

        return recorded, calls

    return wrap


class FakeWriter(Writer):
    """A backend in the test's hands: it takes batches, fails, refuses or hangs as told.

    :ivar behave: called with each batch; returns a result, None for success, or raises.
    """

    def __init__(self, url: str = "http://backend") -> None:
        self.url = url
        self.batches: list[Batch] = []
        self.behave: Callable[[Batch], WriteResult | None] = lambda batch: None
        self.arrived = threading.Condition()
        self.closed = False

    def write(self, batch: Batch) -> WriteResult:
        result = self.behave(batch)
        with self.arrived:
            self.batches.append(batch)
            self.arrived.notify_all()
        return result or WriteResult()

    def close(self) -> None:
        self.closed = True

    @property
    def series(self) -> int:
        """Entries that arrived."""
        return sum(batch.series for batch in self.batches)

    def wait(self, series: int, seconds: float = 10.0) -> None:
        """Wait until so many entries have arrived."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.series >= series, seconds), f"{self.series} of {series} arrived"


def value_of(metrics: Metrics, name: str, **labels: str) -> float:
    """Return the sum of a metric's samples with these labels."""
    found = [
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return sum(found)


@pytest.fixture
def metrics() -> Metrics:
    """Return an empty registry."""
    return Metrics()


@pytest.fixture
def count(metrics: Metrics) -> Callable[..., float]:
    """Return a function that reads the registry: `count("svc_pushgw_written_total", url=...)`."""
    return lambda name, **labels: value_of(metrics, "svc_pushgw_" + name, **labels)


@pytest.fixture
def make_gateway(metrics: Metrics) -> Iterator[Callable[..., Gateway]]:
    """Return a function that starts a gateway over writers; options are settings by attribute name."""
    made: list[Gateway] = []

    def make(*writers: Writer, hosts: Any = None, start: bool = True, outlet: Any = None, **options: Any) -> Gateway:
        own = {name: options.pop(name) for name in list(options) if name in PushgwSettings.__annotations__}
        chosen = WriterOptions(**{"queue_number": 2, "linger": 0, "retry_interval": 1, **options})
        settings = PushgwSettings(**own, writer_options=chosen)
        instruments = GatewayMetrics.make(metrics)
        choices = outlet or {}
        outlets = [
            Outlet(writer, OutletOptions(**{"retry_interval": 0.01, **choices.get(writer.url, {})}), instruments)
            for writer in writers
        ]
        hosts = hosts or NoHosts()
        gateway = Gateway(settings, outlets, instruments, hosts, hosts, clock=lambda: 1_760_000_000.7)
        if start:
            gateway.start()
            made.append(gateway)
        return gateway

    yield make
    for gateway in made:
        gateway.stop(0)


@pytest.fixture
def writer() -> FakeWriter:
    """Return a backend that takes everything."""
    return FakeWriter()


@pytest.fixture
def make_writer() -> type[FakeWriter]:
    """Return the class of backends in the test's hands."""
    return FakeWriter


@pytest.fixture
def body(make_series: Any, make_body: Any) -> Callable[..., bytes]:
    """Return a function that makes a request of so many series."""
    return lambda count, **labels: make_body(*(make_series(__name__="m", n=str(n), **labels) for n in range(count)))
