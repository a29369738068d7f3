"""OpenTelemetry metrics over HTTP, in protobuf and JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
    hookimpl,
    inflate,
    parse_json,
)

PROTOBUF, JSON = "application/x-protobuf", "application/json"
WINDOWS = {"gzip": GZIP, "deflate": ZLIB}


def content_type(request: IngestRequest) -> str:
    """Return the request's content type without parameters; raise ``DecodeError`` when it is none of the two."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (PROTOBUF, JSON):
        raise DecodeError(f"Content-Type: got {kind[:80]!r}, expected {PROTOBUF} or {JSON}", status=415)
    return kind


def decompressed(request: IngestRequest) -> bytes:
    """Return the body as it was before compression."""
    encoding = request.headers.get("content-encoding", "").lower()
    if encoding in ("", "identity", "none"):
        return request.body
    if encoding not in WINDOWS:
        raise DecodeError(f"Content-Encoding: got {encoding[:40]!r}, expected gzip or deflate", status=415)
    return inflate(request.body, request.max_decoded, WINDOWS[encoding])


def parsed(body: bytes, kind: str) -> Any:
    """Return a body as request message, in the raw form; raise ``DecodeError`` for what is none."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError as Malformed

    from tocsin_ingest_otlp.messages import messages

    types = messages()
    try:
        if kind == PROTOBUF:
            return types.request.FromString(body)
        document = parse_json(body)
        if not isinstance(document, dict):
            raise DecodeError("json body invalid: expected an object")
        typed = json_format.ParseDict(document, types.typed_request(), ignore_unknown_fields=True)
        return types.request.FromString(typed.SerializeToString())
    except Malformed:
        raise DecodeError("the body is no metrics request in protobuf") from None
    except (json_format.ParseError, RecursionError) as error:
        raise DecodeError(f"json body invalid: {str(error)[:200]}") from None


def reply(request: IngestRequest, decoded: Decoded, accepted: int) -> Raw:
    """Answer in the form of the request; data points that were rejected are named as partial success."""
    kind = content_type(request)
    if kind == JSON:
        rejected = {"rejectedDataPoints": str(decoded.failed), "errorMessage": decoded.message}
        return Raw(orjson.dumps({"partialSuccess": rejected} if decoded.failed else {}), JSON)
    if not decoded.failed:
        return Raw(b"", PROTOBUF)
    from tocsin_ingest_otlp.messages import messages

    answer = messages().response()
    answer.partial_success.rejected_data_points = decoded.failed
    answer.partial_success.error_message = decoded.message
    return Raw(answer.SerializeToString(), PROTOBUF)


class Otlp(IngestProtocol):
    """OTLP metrics."""

    name = "otlp"

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._sets = LabelSets()

    def routes(self) -> Sequence[IngestRoute]:
        """Return the one endpoint; exporters append ``/v1/metrics`` to the address they are given."""
        return [IngestRoute("/otlp/v1/metrics", reply, self.decode, admission=True)]

    def label_sets(self) -> LabelSets:
        """Return what is remembered of resources, metrics and attributes."""
        return self._sets

    def decode(self, request: IngestRequest) -> Decoded:
        """Decode a request; data points that cannot become samples are counted as failed."""
        from google.protobuf.message import DecodeError as Malformed

        from tocsin_ingest_otlp.convert import Converter
        from tocsin_ingest_otlp.messages import messages

        kind = content_type(request)
        converter = Converter(self._sets, messages(), int(self._clock() * 1000))
        try:
            converter.read(parsed(decompressed(request), kind))
        except Malformed:
            raise DecodeError("an attribute is malformed") from None
        return Decoded(converter.encode(), converter.rejected, converter.message, converter.metadata())


@hookimpl
def tocsin_ingest_protocols() -> list[IngestProtocol]:
    """Return the protocol."""
    return [Otlp()]
