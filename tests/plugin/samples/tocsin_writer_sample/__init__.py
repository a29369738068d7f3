"""A small writer plugin that keeps its contract: posts batches as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.plugin import (
    Batch,
    HttpAnswer,
    HttpClient,
    HttpError,
    HttpOptions,
    SettingsError,
    WriteError,
    Writer,
    WriterContext,
    WriteResult,
    WriterType,
    hookimpl,
    key,
    section,
)


@section("")
class SampleSettings:
    """One element."""

    url: str = key("Url", "", "address")
    password: str = key("Password", "", "password", secret=True)
    timeout: float = key("Timeout", 10.0, "seconds for one attempt")


class SampleWriter(Writer):
    """Posts to one address."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client
        self.url = client.clean(client.options.urls[0])

    def write(self, batch: Batch) -> WriteResult:
        """Post a batch."""
        answer = self.post(batch.body, {})
        if answer.status < 300:
            return WriteResult()
        text = self.client.clean(f"HTTP {answer.status}: {answer.body.decode('utf-8', 'replace')}")
        wait = answer.headers.get("retry-after")
        if answer.status >= 500 or wait:
            raise WriteError(text, retry_after=float(wait) if wait else None, status=answer.status)
        return WriteResult(answer.status, text)

    def forward_raw(self, body: bytes, headers: Mapping[str, str], query: str = "") -> None:
        """Post a caller's body."""
        described = {name: value for name, value in headers.items() if name.startswith("content-")}
        answer = self.post(body, described, query)
        if answer.status >= 300:
            raise WriteError(f"HTTP {answer.status}", status=answer.status)

    def post(self, body: bytes, headers: Mapping[str, str], query: str = "") -> HttpAnswer:
        """Exchange one request."""
        try:
            return self.client.request("POST", "", body=body, headers=headers, query=query)
        except HttpError as error:
            raise WriteError(str(error)) from None

    def close(self) -> None:
        """Close connections."""
        self.client.close()


class SampleWriterType(WriterType):
    """The type of :class:`SampleWriter`."""

    name = "sample"
    config_key = "Samples"
    settings = SampleSettings
    writer: type[SampleWriter] = SampleWriter

    def build(self, settings: Any, context: WriterContext) -> Writer:
        """Return a writer."""
        try:
            options = HttpOptions(
                (settings.url,), timeout=settings.timeout, username="user", password=settings.password
            )
        except ValueError as error:
            raise SettingsError(f"Samples: {error}") from None
        return self.writer(HttpClient(options))


@hookimpl
def tocsin_writers() -> list[WriterType]:
    """Return the type."""
    return [SampleWriterType()]
