"""The series protocol of agents, version 1: metrics with points, a host and tags, and the calls agents make beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from tocsin.plugin import (
    GZIP,
    ZLIB,
    Decoded,
    DecodeError,
    IngestProtocol,
    IngestRequest,
    IngestRoute,
    LabelSets,
    Raw,
    encode_series,
    encode_texts,
    expect,
    hookimpl,
    inflate,
    json_key,
    metric_name,
    parse_json,
    tag_name,
    text,
)

WINDOWS = {"gzip": GZIP, "deflate": ZLIB}
NUMBERS = frozenset((int, float))
COMPANIONS = (
    ("POST", "/agentv1/api/v1/check_run"),
    ("POST", "/agentv1/api/v1/metadata"),
    ("POST", "/agentv1/intake/"),
    ("GET", "/agentv1/api/v1/validate"),
)


def labels(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the labels of a series.

    The identity is the tag ``ident``, else the member ``host``, else the tag ``host``; of tags with equal names the last
    one counts.  With a tag ``ident`` the host stays beside it as label ``host``.
    """
    found = {"__name__": metric_name(item["metric"])}
    given = item.get("tags")
    for index, tag in enumerate([] if given is None else expect(".tags", given, list, "an array of strings")):
        key, colon, value = expect(f".tags[{index}]", tag, str, "a string").partition(":")
        if colon:
            found[tag_name(key)] = value
    host = item.get("host")
    host = expect(".host", "" if host is None else host, str, "a string") or found.get("host", "")
    found.pop("host", None)
    if not found.get("ident"):
        found.pop("ident", None)
        if host:
            found["ident"] = host
    elif host:
        found["host"] = host
    return list(found.items())


def points(given: Any) -> tuple[list[int], list[float]]:
    """Return the points of a series as Unix milliseconds and values; raise ``DecodeError`` for what is no point."""
    times: list[int] = []
    values: list[float] = []
    for point in [] if given is None else expect(".points", given, list, "an array of points"):
        if type(point) is not list or len(point) < 2:
            raise DecodeError(f".points[{len(times)}]: got {str(point)[:80]}, expected [seconds, value]")
        seconds, value = point[0], point[1]
        if type(seconds) not in NUMBERS or type(value) not in NUMBERS:
            raise DecodeError(f".points[{len(times)}]: got {str(point)[:80]}, expected two numbers")
        times.append(int(seconds) * 1000)
        values.append(value)
    return times, values


def reply(request: IngestRequest, decoded: Decoded, accepted: int) -> Raw:
    """Answer with the counts."""
    return Raw(orjson.dumps({"fail": decoded.failed, "msg": "received", "succ": accepted}))


def companion(request: IngestRequest, decoded: Decoded, accepted: int) -> Raw:
    """Answer a call that agents make beside their series."""
    return text("not implemented")


def api_key(request: IngestRequest) -> str:
    """Return the key of a request: agents send it in the query, the client libraries in a header."""
    return request.query.get("api_key") or request.headers.get("dd-api-key", "")


class AgentV1(IngestProtocol):
    """The series protocol."""

    name = "datadog"

    def __init__(self) -> None:
        self._sets = LabelSets()

    def routes(self) -> Sequence[IngestRoute]:
        """Return the series endpoint and its companions."""
        series = IngestRoute("/agentv1/api/v1/series", reply, self.decode, auth="api_key", key_of=api_key)
        return [series, *(IngestRoute(path, companion, method=method, auth="none") for method, path in COMPANIONS)]

    def label_sets(self) -> LabelSets:
        """Return what is remembered of metrics, hosts and tags."""
        return self._sets

    def decode(self, request: IngestRequest) -> Decoded:
        """Decode a request; series with impossible names are counted as failed, anything else refuses it whole."""
        window = WINDOWS.get(request.headers.get("content-encoding", "").lower())
        found = parse_json(inflate(request.body, request.max_decoded, window) if window else request.body)
        items = expect("body", found, dict, "an object").get("series")
        items = expect("series", [] if items is None else items, list, "an array")
        if not items:
            raise DecodeError("series empty")
        out: list[bytes] = []
        failed, message = 0, ""
        for index, item in enumerate(items):
            if item is None:
                continue
            try:
                out.append(self._series(item))
            except DecodeError as error:
                raise DecodeError(f"series[{index}]{error}") from None
            except (ValueError, OverflowError) as error:
                failed += 1
                message = message or str(error)
        return Decoded(b"".join(out), failed, message)

    def _series(self, item: Any) -> bytes:
        """Return a series with its points, encoded."""
        if type(item) is not dict:
            expect("", item, dict, "an object")
        metric = item.get("metric")
        if type(metric) is not str or not metric:
            expect(".metric", "" if metric is None else metric, str, "a string")
            raise ValueError("metric is blank")
        key = json_key((metric, item.get("host"), item.get("tags")))
        encoded = self._sets.get(key)
        if encoded is None:
            encoded = encode_texts(labels(item))
            self._sets.put(key, encoded)
        return encode_series(encoded, *points(item.get("points")))


@hookimpl
def tocsin_ingest_protocols() -> list[IngestProtocol]:
    """Return the protocol."""
    return [AgentV1()]
