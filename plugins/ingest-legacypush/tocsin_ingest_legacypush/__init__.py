"""The legacy push protocol: JSON objects with a metric, an endpoint, a value, a time in seconds and tags in one text."""

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


def labels(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the labels of an object.

    The endpoint becomes ``ident``, or stays ``endpoint`` beside a tag ``ident``.  Without an endpoint a tag ``ident`` is a label
    like any other: the series belongs to no host.  Of tags with equal names the last counts, text without ``=`` is no tag.
    """
    endpoint, tags = _text(item, "endpoint"), _text(item, "tags")
    found = {"__name__": metric_name(item["metric"])}
    pairs = (part.partition("=") for part in tags.split(","))
    found |= {tag_name(key): value for key, equals, value in pairs if equals}
    if not found.get("ident"):
        found.pop("ident", None)
        if endpoint:
            found["ident"] = endpoint
    elif endpoint:
        found["endpoint"] = endpoint
    return list(found.items())


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    text: str = "" if value is None else expect(f".{name}", value, str, "a string")
    return text


def reply(request: IngestRequest, decoded: Decoded, accepted: int) -> Raw:
    """Answer with the counts."""
    return Raw(orjson.dumps({"fail": decoded.failed, "msg": "received", "succ": accepted}))


class LegacyPush(IngestProtocol):
    """The push protocol."""

    name = "openfalcon"

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._decode = PointDecoder(
            ("endpoint", "tags"), labels, hostless=lambda item: not item.get("endpoint"), clock=clock
        )

    def routes(self) -> Sequence[IngestRoute]:
        """Return the one endpoint."""
        return [IngestRoute("/legacypush/push", reply, self._decode)]

    def label_sets(self) -> LabelSets:
        """Return what is remembered of metrics, endpoints and tags."""
        return self._decode.sets


@hookimpl
def tocsin_ingest_protocols() -> list[IngestProtocol]:
    """Return the protocol."""
    return [LegacyPush()]
