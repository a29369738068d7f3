"""The legacy put protocol: JSON objects with a metric, a value, a time in seconds and tags."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from tocsin.plugin import (
    Decoded,
    IngestProtocol,
    IngestRequest,
    IngestRoute,
    LabelSets,
    PointDecoder,
    Raw,
    expect,
    hookimpl,
    metric_name,
    tag_name,
)

OFF = ("false", "0", "no", "off")
VERSION = {"version": "2.4.0", "short_revision": "", "repo": "tocsin"}
"""What clients that ask for it before they send are told; the version is that of the protocol."""


def labels(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the labels of an object; the tag ``host`` becomes ``ident`` unless there is an ``ident``."""
    name = metric_name(item["metric"])
    tags = item.get("tags")
    tags = {} if tags is None else expect(".tags", tags, dict, "an object of strings")
    found = [("__name__", name)]
    for key, value in tags.items():
        if value is None:
            value = ""
        found.append((tag_name(key), expect(f".tags.{key[:80]}", value, str, "a string")))
    named = any(key == "ident" and value for key, value in found)
    host = tags.get("host")
    if not named and host:
        return [("ident", host) if key == "host" else (key, value) for key, value in found if key != "ident"]
    return found if named else [(key, value) for key, value in found if key != "ident"]


def reply(request: IngestRequest, decoded: Decoded, accepted: int) -> Raw:
    """Answer with the counts; the options ``summary`` and ``details`` add them in the words of the protocol."""
    failures = decoded.notes["failures"]
    message = "received"
    if failures:
        message = f"received , Error {failures[0][1]}: {decoded.message}"
    answer: dict[str, Any] = {"fail": decoded.failed, "msg": message, "succ": accepted}
    details = asked(request, "details")
    if details or asked(request, "summary"):
        answer |= {"success": accepted, "failed": decoded.failed}
    if details:
        answer["errors"] = [{"datapoint": orjson.Fragment(item), "error": text} for item, _, text in failures]
    return Raw(orjson.dumps(answer))


def asked(request: IngestRequest, option: str) -> bool:
    """Return whether a query option is given, with or without a value."""
    return option in request.query and request.query[option].lower() not in OFF


def version(request: IngestRequest, decoded: Decoded, accepted: int) -> Raw:
    """Answer clients that look whether somebody is there."""
    return Raw(orjson.dumps(VERSION))


class TsdbPut(IngestProtocol):
    """The put protocol."""

    name = "opentsdb"

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._decode = PointDecoder(("tags",), labels, clock=clock)

    def routes(self) -> Sequence[IngestRoute]:
        """Return the endpoint, under its short path and under the one that clients append to a base address."""
        return [
            IngestRoute("/tsdbput/put", reply, self._decode),
            IngestRoute("/tsdbput/api/put", reply, self._decode),
            IngestRoute("/tsdbput/api/version", version, auth="none", method="GET"),
        ]

    def label_sets(self) -> LabelSets:
        """Return what is remembered of metrics and tags."""
        return self._decode.sets


@hookimpl
def tocsin_ingest_protocols() -> list[IngestProtocol]:
    """Return the protocol."""
    return [TsdbPut()]
