"""Line protocol: the write paths of versions 1 and 2, and what clients ask before they write."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Sequence

import orjson

from tocsin.plugin import (
    GZIP,
    Decoded,
    DecodeError,
    IngestProtocol,
    IngestRequest,
    IngestRoute,
    LabelSets,
    Raw,
    hookimpl,
    inflate,
)
from tocsin_ingest_influx.lines import Lines

UNITS = {
    "": (1, 1_000_000),
    "n": (1, 1_000_000),
    "ns": (1, 1_000_000),
    "u": (1, 1000),
    "us": (1, 1000),
    "µ": (1, 1000),
    "ms": (1, 1),
    "s": (1000, 1),
    "m": (60_000, 1),
    "h": (3_600_000, 1),
}
"""Query parameter ``precision``: what a timestamp is multiplied by, and divided by, to be milliseconds."""
HEADERS = {"X-Influxdb-Version": "1.8.10", "X-Influxdb-Build": "OSS"}
"""The version whose two write paths these are; clients ask for it."""
HEALTH = {"name": "tocsin", "message": "ready for writes", "status": "pass", "checks": [], "version": "1.8.10"}


def written(request: IngestRequest, decoded: Decoded, accepted: int) -> Raw:
    """Answer with nothing, which is success."""
    return Raw(b"", "text/plain; charset=utf-8", 204, dict(HEADERS))


def health(request: IngestRequest, decoded: Decoded, accepted: int) -> Raw:
    """Answer that writes are taken."""
    return Raw(orjson.dumps(HEALTH), headers=dict(HEADERS))


def credentials(request: IngestRequest) -> str:
    """Return a token, or user and password as ``user:password``, from where the two versions put them."""
    scheme, _, rest = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("token", "bearer"):
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).decode(errors="replace")
        except binascii.Error:
            return ""
    return f"{request.query.get('u', '')}:{request.query.get('p', '')}"


class Influx(IngestProtocol):
    """Line protocol."""

    name = "influx"

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._sets = LabelSets()

    def routes(self) -> Sequence[IngestRoute]:
        """Return the write paths and their companions."""
        paths = ("/influx/write", "/influx/api/v2/write")
        return [
            *(
                IngestRoute(path, written, self.decode, auth="api_key", key_of=credentials, admission=True)
                for path in paths
            ),
            *(IngestRoute("/influx/ping", written, method=method, auth="none") for method in ("GET", "HEAD")),
            IngestRoute("/influx/health", health, method="GET", auth="none"),
        ]

    def label_sets(self) -> LabelSets:
        """Return what is remembered of measurements, tags and fields."""
        return self._sets

    def decode(self, request: IngestRequest) -> Decoded:
        """Decode a body; a malformed line refuses it whole, fields that are texts are counted as failed."""
        precision = request.query.get("precision", "")
        if precision not in UNITS:
            raise DecodeError(f"precision: got {precision[:40]!r}, expected one of {', '.join(filter(None, UNITS))}")
        encoding = request.headers.get("content-encoding", "").lower()
        if encoding not in ("", "identity", "gzip"):
            raise DecodeError(f"Content-Encoding: got {encoding[:40]!r}, expected gzip", status=415)
        body = inflate(request.body, request.max_decoded, GZIP) if encoding == "gzip" else request.body
        database = request.query.get("db") or request.query.get("bucket", "")
        lines = Lines(self._sets, database, *UNITS[precision], int(self._clock() * 1000))
        lines.read(body)
        message = f"{lines.texts} fields are texts" if lines.texts else ""
        return Decoded(lines.encode(), lines.texts, message, host_label=True)


@hookimpl
def tocsin_ingest_protocols() -> list[IngestProtocol]:
    """Return the protocol."""
    return [Influx()]
