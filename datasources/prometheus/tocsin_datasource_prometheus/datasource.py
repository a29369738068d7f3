"""A connected metric store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from tocsin.plugin import (
    Datasource,
    DatasourceConfig,
    DatasourceError,
    HttpAnswer,
    HttpClient,
    HttpError,
    MetadataQuery,
    MetricQuery,
    Series,
)
from tocsin_datasource_prometheus.answers import columns, data_of, excerpt, result_of
from tocsin_datasource_prometheus.schema import TSDB_TYPE

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
METHOD_REFUSED = frozenset((405, 501))
EXPRESSION_KEYS = ("query", "prom_ql", "expr")
"""Where a spec holds its expression: clients, rules and panels each have their own word."""


class Prometheus(Datasource):
    """One store behind the Prometheus HTTP API; questions are posted as forms, or put into the address where refused."""

    def __init__(self, client: HttpClient, config: DatasourceConfig) -> None:
        self._client = client
        self._timeout = config.timeout
        self._tsdb_type = str(config.settings.get(TSDB_TYPE) or "")
        self._post = True

    def check(self, timeout: float) -> None:
        """Ask for 1+1, or for labels where the address or a header says that it is a store of logs."""
        options = self._client.options
        url = options.urls[0].rstrip("/")
        logs = "loki" in url.lower() or any("loki" in name.lower() for name in options.headers)
        path, query = ("/api/v1/labels", "") if logs else ("/api/v1/query", "query=1%2B1")
        answer = self._exchange("GET", path, query, None, timeout)
        if answer.status != 200:
            asked = f"{url}{path}?{query}" if query else url + path
            text = f"request url:{asked} failed code:{answer.status} body:{excerpt(answer.body)}"
            raise DatasourceError(self._client.clean(text))
        self._data(answer)

    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        """Answer with columns; raise when the store says that data are missing."""
        data, losses = self._ask(query)
        if losses:
            raise DatasourceError(self._client.clean(f"incomplete answer: {losses[0]}"))
        return columns(data)

    def query_result(self, query: MetricQuery) -> Any:
        """Answer with the store's own ``result``, numbers still texts, as complete as it is."""
        data, _ = self._ask(query)
        return result_of(data)

    def label_names(self, query: MetadataQuery) -> Sequence[str]:
        """Return label names."""
        return self._texts("/api/v1/labels", query)

    def label_values(self, name: str, query: MetadataQuery) -> Sequence[str]:
        """Return the values of a label."""
        return self._texts(f"/api/v1/label/{quote(name, safe='')}/values", query, get=True)

    def series(self, query: MetadataQuery) -> Sequence[Mapping[str, str]]:
        """Return label sets; the API wants at least one matcher."""
        found = self._listed("/api/v1/series", query)
        return [item for item in found if isinstance(item, dict)]

    def delete_series(self, matchers: Sequence[str], start: str, end: str, timeout: float) -> None:
        """Delete samples in the dialect of the configured kind of store; VictoriaMetrics takes no times."""
        pairs = [("match[]", matcher) for matcher in matchers]
        if self._tsdb_type == "Prometheus":
            pairs += [(name, value) for name, value in (("start", start), ("end", end)) if value]
            answer = self._exchange("POST", "/api/v1/admin/tsdb/delete_series", urlencode(pairs), None, timeout)
        elif self._tsdb_type == "VictoriaMetrics":
            answer = self._exchange("GET", "/api/v1/admin/tsdb/delete_series", urlencode(pairs), None, timeout,
                                    url=_delete_base(self._client.options.urls[0]))  # fmt: skip
        elif not self._tsdb_type:
            raise DatasourceError("datasource type not found, please check your datasource settings", refused=True)
        else:
            raise DatasourceError("not support delete series yet", refused=True)
        if answer.status >= 300:
            self._data(answer)
            raise DatasourceError(f"HTTP {answer.status}")

    def query_key(self, spec: Mapping[str, Any]) -> str:
        """Return the expression."""
        return _expression(spec)

    def http_target(self) -> HttpClient:
        """Return the client: the whole API may be passed through."""
        return self._client

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def _ask(self, query: MetricQuery) -> tuple[Any, list[str]]:
        expression = _expression(query.spec)
        if query.is_instant:
            return self._form("/api/v1/query", [("query", expression), ("time", _seconds(query.end))], query.timeout)
        pairs = [
            ("query", expression),
            ("start", _seconds(query.start)),
            ("end", _seconds(query.end)),
            ("step", _seconds(query.step)),
        ]
        return self._form("/api/v1/query_range", pairs, query.timeout)

    def _texts(self, path: str, query: MetadataQuery, *, get: bool = False) -> list[str]:
        return sorted(str(item) for item in self._listed(path, query, get=get))

    def _listed(self, path: str, query: MetadataQuery, *, get: bool = False) -> list[Any]:
        pairs = [("match[]", matcher) for matcher in query.matchers]
        pairs += [(name, _seconds(at)) for name, at in (("start", query.start), ("end", query.end)) if at is not None]
        pairs += [("limit", str(query.limit))] if query.limit else []
        data, _ = self._form(path, pairs, query.timeout, get=get)
        if not isinstance(data, list):
            raise DatasourceError("the answer holds no list")
        # Old stores do not know the parameter.
        return data[: query.limit] if query.limit else data

    def _form(
        self, path: str, pairs: list[tuple[str, str]], timeout: float, *, get: bool = False
    ) -> tuple[Any, list[str]]:
        form = urlencode(pairs)
        seconds = min(timeout, self._timeout)
        if self._post and not get:
            answer = self._exchange("POST", path, "", form.encode(), seconds)
            if answer.status not in METHOD_REFUSED:
                return self._data(answer)
            self._post = False
        return self._data(self._exchange("GET", path, form, None, seconds))

    def _data(self, answer: HttpAnswer) -> tuple[Any, list[str]]:
        """Return the data of an answer; what a store says of an error may repeat our credentials, so it is cleaned."""
        try:
            return data_of(answer)
        except DatasourceError as error:
            raise DatasourceError(self._client.clean(str(error)), refused=error.refused) from None

    def _exchange(
        self, method: str, path: str, query: str, body: bytes | None, timeout: float, url: str = ""
    ) -> HttpAnswer:
        headers = FORM if body is not None else {}
        try:
            return self._client.request(method, path, query=query, headers=headers, body=body, timeout=timeout, url=url)
        except HttpError as error:
            raise DatasourceError(str(error)) from None


def _expression(spec: Mapping[str, Any]) -> str:
    for key in EXPRESSION_KEYS:
        value = spec.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    raise DatasourceError("query: expected a PromQL expression", refused=True)


def _seconds(value: float) -> str:
    """Return a time or step with milliseconds where it has any."""
    return format(round(value, 3), ".3f").rstrip("0").rstrip(".")


def _delete_base(url: str) -> str:
    """Return the address under which a VictoriaMetrics cluster deletes what it selects at ``url``."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path.replace("/select/", "/delete/", 1)).geturl()
