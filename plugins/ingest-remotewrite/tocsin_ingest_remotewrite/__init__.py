"""Prometheus remote write: the bytes of a 1.0 request are already what the gateway works on."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.plugin import (
    ZSTD_MAGIC,
    Decoded,
    DecodeError,
    IngestProtocol,
    IngestRequest,
    IngestRoute,
    Raw,
    decode_v2,
    hookimpl,
    parse_bool,
    snappy,
    tally,
    zstd,
)

PROTOBUF = "application/x-protobuf"
V2 = "io.prometheus.write.v2.Request"
WRITTEN = tuple(f"X-Prometheus-Remote-Write-{kind}-Written" for kind in ("Samples", "Exemplars", "Histograms"))
"""Headers by which version 2 says how much was taken; a sender that misses them takes the request as failed."""
ENCODINGS = ("snappy", "zstd", "identity", "")
HANDSHAKE = "get_vm_proto_version"
"""Query parameter by which older versions of vmagent ask whether zstd is understood; newer ones just send it."""
MESSAGES = {"": 1, "prometheus.WriteRequest": 1, V2: 2}


def version_of(content_type: str) -> int:
    """Return 1 or 2 for a content type; senders of the first version may send any or none.

    Raises ``DecodeError`` with status 415 for a protobuf message that is neither.
    """
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    if kind.lower() != PROTOBUF:
        return 1
    named = {name.lower(): value for name, _, value in (part.partition("=") for part in parameters)}
    message = named.get("proto", "").strip('"')
    if message not in MESSAGES:
        raise DecodeError(
            f"Content-Type: got proto={message[:80]!r}, expected prometheus.WriteRequest or {V2}", status=415
        )
    return MESSAGES[message]


def decode(request: IngestRequest) -> Decoded:
    """Return the series of a request, decompressed but not taken apart."""
    if is_handshake(request):
        return Decoded(b"")
    version = version_of(request.headers.get("content-type", ""))
    body = decompressed(request)
    notes = {}
    if version == 2:
        body = decode_v2(body, request.max_decoded)
        notes = dict(zip(WRITTEN, map(str, tally(body)), strict=True))
    return Decoded(
        body,
        notes=notes,
        host_label=not flag(request, "ignore_host", default=True),
        register_hosts=not flag(request, "ignore_ident", default=False),
    )


def is_handshake(request: IngestRequest) -> bool:
    """Return whether a vmagent asks if it may send zstd; it expects the text ``1``."""
    return HANDSHAKE in request.query and not request.body


def decompressed(request: IngestRequest) -> bytes:
    """Return the body, whose first bytes tell what it is compressed with.

    The header does not: what vmagent had queued before it changed to the other encoding, it sends under the new name.
    """
    encoding = request.headers.get("content-encoding", "").lower()
    if encoding not in ENCODINGS:
        raise DecodeError(f"Content-Encoding: got {encoding[:40]!r}, expected snappy or zstd", status=415)
    decompress = zstd if request.body.startswith(ZSTD_MAGIC) else snappy
    return decompress(request.body, request.max_decoded)


def flag(request: IngestRequest, name: str, *, default: bool) -> bool:
    """Return a query parameter as truth value; raise ``DecodeError`` for anything that is none."""
    value = request.query.get(name, "")
    try:
        return parse_bool(value) if value else default
    except ValueError:
        raise DecodeError(f"unknown arg[{name}] value: {value[:80]}") from None


def reply(request: IngestRequest, decoded: Decoded, accepted: int) -> Raw:
    """Answer with an empty text, and tell senders of version 2 what was taken."""
    if is_handshake(request):
        return Raw(b"1", "text/plain; charset=utf-8")
    return Raw(b"", "text/plain; charset=utf-8", headers=dict(decoded.notes))


class RemoteWrite(IngestProtocol):
    """Prometheus remote write."""

    name = "prometheus"

    def routes(self) -> Sequence[IngestRoute]:
        """Return the one endpoint."""
        return [IngestRoute("/rw/v1/write", reply, decode, admission=True)]


@hookimpl
def tocsin_ingest_protocols() -> list[IngestProtocol]:
    """Return the protocol."""
    return [RemoteWrite()]
