"""Ingest protocols and writers: the two doors of the gateway.

Between the doors a series is its protobuf-encoded remote-write ``TimeSeries`` message, and a batch is the concatenation
of ``WriteRequest.timeseries`` fields, which is itself a valid ``WriteRequest`` body.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tocsin.http.context import Raw

if TYPE_CHECKING:
    from tocsin.app.config import Settings
    from tocsin.http.metrics import Metrics
    from tocsin.plugin._labels import LabelSets


@dataclass(frozen=True)
class IngestRequest:
    """One request of a collector, its body read but not decoded; header names are lower case."""

    path: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    remote: str
    max_decoded: int
    """Largest body in bytes that decompressing may produce; check before allocating."""


@dataclass(frozen=True)
class Decoded:
    """What a decoder made of a request.

    ``body`` holds the series in the wire format.  ``failed`` items were refused one by one (``message`` names the
    first).  The ``host_*`` and ``register_hosts`` options say how the identity of the host is found and used.
    """

    body: bytes
    failed: int = 0
    message: str = ""
    metadata: Sequence[bytes] = ()
    """Encoded ``MetricMetadata`` messages; kept for backends that want them, dropped and counted elsewhere."""
    host_label: bool = False
    """Whether a plain ``host`` label may become ``ident`` where nothing better is there."""
    register_hosts: bool = True
    hostless: bytes = b""
    """More series in the wire format: they belong to no host, whatever their labels are."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the protocol's own answer needs to know of the decoding; nobody else looks at it."""


Reply = Callable[["IngestRequest", Decoded, int], Raw]
"""Makes the protocol's success answer from the request, what was decoded, and the number of accepted series."""


@dataclass(frozen=True)
class IngestRoute:
    """One endpoint of a protocol.

    ``auth`` is ``basic`` (the agent accounts), ``api_key`` (a key equal to an agent password, or to ``user:password`` of
    one) or ``none``.  ``key_of`` finds the key in the request; without it, it is the query parameter ``api_key``.
    ``admission`` asks for the global watermark to be checked before the body is read.  A route without ``decode``
    only answers, like the companion calls of some agents.
    """

    path: str
    reply: Reply
    decode: Callable[[IngestRequest], Decoded] | None = None
    method: str = "POST"
    auth: str = "basic"
    admission: bool = False
    key_of: Callable[[IngestRequest], str] | None = None


class IngestProtocol(ABC):
    """A protocol in which samples arrive.  ``name`` is the ``channel`` label of its metrics."""

    name: ClassVar[str] = ""

    @abstractmethod
    def routes(self) -> Sequence[IngestRoute]:
        """Return the protocol's endpoints."""

    def label_sets(self) -> LabelSets | None:
        """Return the label sets that the protocol remembers, so that hits and misses are counted under its name."""
        return None


@dataclass(frozen=True)
class Batch:
    """Series on their way to a backend: ``body`` in the wire format, and how many series and samples are in it."""

    body: bytes
    series: int
    samples: int


@dataclass(frozen=True)
class WriteResult:
    """How a backend took a batch: ``refused_with`` is the 3xx or 4xx status of one that said no (the batch is lost)."""

    refused_with: int = 0
    detail: str = ""


class Writer(ABC):
    """One configured backend.  Calls come from one thread at a time per batch, from several threads in all."""

    url: str
    """Label of the backend in metrics: the configured address, without secrets."""
    metadata: bool = False
    """Whether the backend wants metadata: batches of no series whose body holds ``WriteRequest.metadata`` fields."""

    @abstractmethod
    def write(self, batch: Batch) -> WriteResult:
        """Hand a batch over; raise :class:`~tocsin.plugin.WriteError` when it was not taken and a retry may help."""

    def forward_raw(self, body: bytes, headers: Mapping[str, str], query: str = "") -> None:
        """Pass a raw remote-write body on as it is, with the caller's query string; raise ``WriteError`` on failure.

        ``headers`` are the caller's, names in lower case; only those that describe the body are passed on.  A writer
        that cannot do this raises :class:`NotImplementedError`, and is left out of the pass-through endpoint.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give up connections."""


@dataclass(frozen=True)
class WriterContext:
    """What a writer may use of the process it runs in."""

    settings: Settings
    metrics: Metrics
    extra: Mapping[str, Any] = field(default_factory=dict)


class WriterType(ABC):
    """A way to reach backends; configured by the array of tables ``[[Pushgw.<config_key>]]``."""

    name: ClassVar[str] = ""
    config_key: ClassVar[str] = ""
    settings: ClassVar[type | None] = None
    """Section class of one element of that array (keys ``AsyncWrite`` and ``WriteRelabels`` are the gateway's)."""
    critical: ClassVar[bool] = True
    """Whether its writers are critical unless ``AsyncWrite`` is set; false makes them all non-critical."""

    @abstractmethod
    def build(self, settings: Any, context: WriterContext) -> Writer:
        """Return a writer for one element of the configuration; raise ``SettingsError`` for values that cannot work.

        Called before the workers are forked: connect, and start threads, no earlier than at the first ``write``.
        """

    def implied(self, context: WriterContext) -> Sequence[Any]:
        """Return elements that are configured by other means, like the embedded store's own critical writer."""
        return ()
