"""Passing a client's request through to a datasource, with the datasource's credentials and none of ours."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from tocsin.plugin import ApiError, HttpError, PluginCallError, Raw, text

if TYPE_CHECKING:
    from tocsin.datasources.pool import DatasourcePool
    from tocsin.plugin import Context, HttpClient, HttpStream

audit = logging.getLogger("tocsin.audit")
log = logging.getLogger(__name__)
AUDITED = 2048
"""Characters of a query that the audit log keeps."""
HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
OURS = frozenset(("authorization", "cookie", "host", "content-length"))
"""Request headers that speak to us, or that the connection to the datasource has of its own."""
KEPT_BACK = frozenset(("set-cookie", "server", "date"))
"""Answer headers that would speak for this service."""
SHIELD = {"Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff"}
"""What a datasource sends must not run as a page of ours."""
RAW_PATH = re.compile(r"/proxy/[^/?]+(/[^?]*)")
SHARE_TOKEN = "__token"  # noqa: S105 - the name of a query parameter


class Refused(Exception):
    """A request that is not passed on; answered as plain text, because nothing here is in the envelope."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class ProxyRequest:
    """A client's request as it is passed on."""

    datasource_id: int
    method: str
    path: str
    """What follows the id, with its leading slash and percent encoding."""
    query: str
    headers: Mapping[str, str]
    body: Any
    user: str
    remote: str
    limit: float
    """Seconds that the whole exchange may take."""

    @classmethod
    def of(cls, context: Context, *, limit: float) -> ProxyRequest:
        """Take a request apart; raises for a path that climbs out of the datasource's own."""
        path = _path(context)
        if any(part in ("..", ".") for part in re.split(r"/|%2f|\\|%5c", path.lower().replace("%2e", "."))):
            raise Refused("invalid url path", 400)
        return cls(
            datasource_id=context.param_int("id"),
            method=context.request.method,
            path=path,
            query=_query(context.request.query_string),
            headers=_passed_headers(context),
            body=_body(context),
            user=context.operator,
            remote=context.remote,
            limit=limit,
        )


class Passed:
    """The answer on its way to the client; closing it gives connection and datasource back."""

    def __init__(self, stream: HttpStream, held: ExitStack) -> None:
        self._stream = stream
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except HttpError as error:
            # The status is out already: all that is left is to break off, so that the client sees an incomplete body.
            log.warning("proxy: answer broken off: %s", error)
            raise

    def close(self) -> None:
        """Give everything back."""
        self._held.close()


def pass_through(pool: DatasourcePool, request: ProxyRequest) -> Raw:
    """Send a request to its datasource and return the answer as it comes.

    The answer's status and body pass unchanged, except that a refused login of ours is not the client's: 401 becomes
    502.  No such datasource is 400, one that is out of reach 502, both as plain text.
    """
    with ExitStack() as held:
        try:
            client = held.enter_context(pool.http_target(request.datasource_id))
            if client is None:
                return text("this datasource is not reached by HTTP", 400)
            _audit(request)
            stream = _open(client, request)
        except ApiError as error:
            if error.code != "not_found":
                raise
            return text("no such datasource", 400)
        except PluginCallError as error:
            return text(str(error), 502)
        held.callback(stream.close)
        if stream.status == 401:
            return text("unauthorized access", 502)
        return _answer(stream, held.pop_all(), request.method)


def _open(client: HttpClient, request: ProxyRequest) -> HttpStream:
    return client.open(
        request.method,
        request.path,
        query=request.query,
        headers=request.headers,
        body=request.body,
        limit=request.limit,
    )


def _answer(stream: HttpStream, held: ExitStack, method: str) -> Raw:
    headers = {name: value for name, value in stream.headers if name.lower() not in HOP_BY_HOP | KEPT_BACK}
    content_type = next((v for n, v in headers.items() if n.lower() == "content-type"), "application/octet-stream")
    headers = {name: value for name, value in headers.items() if name.lower() != "content-type"} | SHIELD
    if method == "HEAD":
        held.close()
        return Raw(
            b"", content_type, stream.status, {n: v for n, v in headers.items() if n.lower() != "content-length"}
        )
    return Raw(Passed(stream, held), content_type, stream.status, headers)


def _path(context: Context) -> str:
    """Return the rest of the path as the client encoded it, where the server tells, else encoded again."""
    environ = context.request.env
    raw = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""
    found = RAW_PATH.search(raw)
    if found:
        return found[1]
    return "/" + quote(context.params.get("url", ""), safe="/:@!$&'()*+,;=~-._")


def _query(given: str) -> str:
    """Return the query string without the share token, which is for us."""
    if SHARE_TOKEN not in given:
        return given
    kept = [part for part in given.split("&") if dict(parse_qsl(part, keep_blank_values=True)).get(SHARE_TOKEN) is None]
    return "&".join(kept)


def _passed_headers(context: Context) -> dict[str, str]:
    http = context.core.http
    left_out = HOP_BY_HOP | OURS | {http.token_auth.header.lower(), http.proxy_auth.header.lower()}
    named = context.request.get_header("Connection") or ""
    left_out |= {part.strip().lower() for part in named.split(",")}
    given = context.request.headers
    passed = {name.title(): value for name, value in given.items() if name.lower() not in left_out}
    hops = [hop for hop in (passed.get("X-Forwarded-For"), context.remote) if hop]
    if hops:
        passed["X-Forwarded-For"] = ", ".join(hops)
    passed.setdefault("User-Agent", "")
    passed.setdefault("Accept-Encoding", "identity")
    length = context.request.content_length
    if length:
        passed["Content-Length"] = str(length)
    return passed


def _body(context: Context) -> Any:
    """Return the request's body as a readable that keeps to the limit on bodies, or nothing when there is none."""
    request = context.request
    length = request.content_length
    limit = context.core.http.max_content_length
    if length is not None and length > limit:
        raise Refused(f"body of {length} bytes is over the limit of {limit}", 413)
    if length:
        return _Bounded(request.bounded_stream, limit)
    chunked = "chunked" in (request.get_header("Transfer-Encoding") or "").lower()
    return _Bounded(request.env["wsgi.input"], limit) if chunked else None


class _Bounded:
    """A readable that breaks off beyond a number of bytes."""

    def __init__(self, source: Any, limit: int) -> None:
        self._source = source
        self._left = limit

    def read(self, size: int = 65536) -> bytes:
        piece: bytes = self._source.read(size)
        self._left -= len(piece)
        if self._left < 0:
            raise HttpError("the body is over the limit", kind="too_large")
        return piece


def _audit(request: ProxyRequest) -> None:
    audit.info(
        "proxy user=%s remote=%s datasource=%d %s %s",
        request.user,
        request.remote,
        request.datasource_id,
        request.method,
        f"{request.path}?{request.query}"[:AUDITED],
    )
