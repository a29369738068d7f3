"""A small datasource plugin that keeps its contract."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tocsin.plugin import (
    Datasource,
    DatasourceConfig,
    DatasourceError,
    DatasourceType,
    HttpClient,
    HttpError,
    MetricQuery,
    Series,
    check_url,
    hookimpl,
)


class SampleSource(Datasource):
    """Asks for ``{"series": [[labels, time, value], ...]}``."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client

    def check(self, timeout: float) -> None:
        """Ask for nothing in particular."""
        self.fetch("/check", timeout)

    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        """Return what the backend says."""
        found = self.fetch("/query", query.timeout)
        return [Series(labels, (at,), (float(value),)) for labels, at, value in found["series"]]

    def fetch(self, path: str, timeout: float) -> Any:
        """Exchange one request."""
        try:
            answer = self.client.request("GET", path, timeout=min(timeout, self.client.options.timeout))
            body = json.loads(answer.body)
        except HttpError as error:
            raise DatasourceError(str(error)) from None
        except ValueError:
            raise DatasourceError(f"HTTP {answer.status}, not JSON") from None
        if answer.status != 200:
            raise DatasourceError(self.client.clean(str(body)), refused=answer.status == 400)
        return body

    def http_target(self) -> HttpClient | None:
        """Return the client."""
        return self.client

    def close(self) -> None:
        """Close connections."""
        self.client.close()


class SampleType(DatasourceType):
    """The type of :class:`SampleSource`."""

    name = "sample"
    title = "A sample"
    capabilities = frozenset(("metrics", "proxy"))
    source: type[SampleSource] = SampleSource

    def connect(self, config: DatasourceConfig) -> Datasource:
        """Return a datasource."""
        try:
            check_url(str(config.http.get("url", "")))
        except ValueError as error:
            raise DatasourceError(str(error), refused=True) from None
        return self.source(config.client())

    def public_settings(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return nothing."""
        return {}


@hookimpl
def tocsin_datasource_types() -> list[DatasourceType]:
    """Return the type."""
    return [SampleType()]
