"""The gateway's way into the store: the wire format goes to the store's process as it is, nothing is compressed or decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tocsin.plugin import Batch, HttpSettings, WriteError, Writer, WriterContext, WriteResult, WriterType, key, section
from tocsin_tsdb.address import BASE, own_address
from tocsin_tsdb.client import Reply, StoreClient, StoreUnreachable
from tocsin_tsdb.settings import EmbeddedTsdbSettings, understand

TARGET = f"{BASE}/write"
_RAW = {"Content-Type": "application/x-protobuf", "Content-Encoding": "identity"}


@section("")
class EmbeddedWriterSettings:
    """The writer that the store brings along; nobody configures it."""

    url: str = key("Url", "", "label of the writer in metrics")
    timeout: int = key("Timeout", 10_000, "longest wait for the store, in milliseconds")


class EmbeddedWriter(Writer):
    """Writes into the store of this installation. Returns only when the samples are durable."""

    metadata = True

    def __init__(self, client: StoreClient, url: str) -> None:
        self.url = url
        self._client = client

    def write(self, batch: Batch) -> WriteResult:
        """Hand a batch over; a 4xx means that the store will never take it."""
        reply = self._post(batch.body, _RAW)
        if reply.status >= 500:
            raise WriteError(f"the embedded store answered {reply.status}: {_detail(reply)}")
        return WriteResult(refused_with=reply.status, detail=_detail(reply)) if reply.status >= 400 else WriteResult()

    def forward_raw(self, body: bytes, headers: Mapping[str, str], query: str = "") -> None:
        """Pass a remote-write body on as it came."""
        described = {name: headers[name] for name in ("content-type", "content-encoding") if name in headers}
        reply = self._post(body, described)
        if reply.status >= 300:
            raise WriteError(f"the embedded store answered {reply.status}: {_detail(reply)}")

    def _post(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        try:
            return self._client.request("POST", TARGET, body, headers)
        except StoreUnreachable as error:
            raise WriteError(str(error)) from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _detail(reply: Reply) -> str:
    return reply.body[:200].decode(errors="replace")


class EmbeddedWriterType(WriterType):
    """Adds the critical writer of a store that is switched on."""

    name = "embedded"
    config_key = "EmbeddedWriters"
    settings = EmbeddedWriterSettings

    def build(self, settings: Any, context: WriterContext) -> Writer:
        """Return the writer."""
        store = understand(context.settings[EmbeddedTsdbSettings])
        return EmbeddedWriter(StoreClient(store.socket, settings.timeout / 1000), settings.url)

    def implied(self, context: WriterContext) -> Sequence[Any]:
        """Return one element while the store is on; only a center has one."""
        if not context.settings[EmbeddedTsdbSettings].enable or context.extra.get("process", "center") != "center":
            return ()
        element: Any = EmbeddedWriterSettings
        return (element(url=own_address(context.settings[HttpSettings]) + TARGET),)
