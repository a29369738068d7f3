"""The store's API on the service's port: access is checked here, everything else is the store's process's business."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from tocsin.plugin import ANONYMOUS, EVERY_PROCESS, ApiError, Context, DatasourceRegistry, Feature, Raw, Route, root
from tocsin_tsdb.address import BASE, datasource
from tocsin_tsdb.client import ClientLeft, StoreClient, StoreUnreachable
from tocsin_tsdb.settings import EmbeddedTsdbSettings, StoreSettings, understand

log = logging.getLogger(__name__)

MAX_BODY = 32 << 20
SPARE_SECONDS = 15.0
"""How much longer than a query may take its answer is waited for."""
CLIENT_CLOSED = 499
_PASSED_ON = ("Content-Type", "Content-Encoding", "Accept")
_ERROR_TYPES = {400: "bad_data", 413: "bad_data"}


class StoreFeature(Feature):
    """Routes below `/prometheus/api/v1` in every HTTP worker of a center."""

    name = "tsdb"
    processes = EVERY_PROCESS
    settings = (EmbeddedTsdbSettings,)

    def setup(self, core: Any) -> None:
        """Check the section, or say that this process ignores it."""
        section: EmbeddedTsdbSettings = core.settings[EmbeddedTsdbSettings]
        if section.enable:
            understand(section)
            if core.process != "center":
                log.warning("[EmbeddedTSDB] only takes effect in the center, ignored by this process")

    def seed(self, core: Any) -> None:
        """Register the store as an ordinary datasource."""
        section: EmbeddedTsdbSettings = core.settings[EmbeddedTsdbSettings]
        if section.enable and core.process == "center" and core.has(DatasourceRegistry):
            core.get(DatasourceRegistry).ensure(
                datasource(understand(section), core.http),
                identifier="svc-embedded-tsdb",
                description="The embedded time-series store of this service.",
            )

    def routes(self, core: Any) -> Iterable[Route]:
        """Return the routes of a store that is switched on."""
        section: EmbeddedTsdbSettings = core.settings[EmbeddedTsdbSettings]
        if not section.enable or core.process != "center":
            return ()
        return store_routes(understand(section), core.http.host)


def store_routes(settings: StoreSettings, host: str) -> Iterable[Route]:
    """Return the rows of the API. Their access depends on the section: this host only, a password, or anybody."""
    relay = Relay(settings, host)
    for make in (root.get, root.post, root.put):
        yield make(f"{BASE}/*rest", relay, ANONYMOUS, max_body=MAX_BODY)  # the store says itself what it does not know
    both = ("query", "query_range", "query_exemplars", "format_query", "parse_query", "series", "labels")
    read = ("label/:name/values", "metadata", *(f"status/{each}" for each in _STATUS))
    for path in (*both, *read):
        yield root.get(f"{BASE}/{path}", relay, ANONYMOUS, max_body=MAX_BODY)
    for path in both:
        yield root.post(f"{BASE}/{path}", relay, ANONYMOUS, max_body=MAX_BODY)
    yield root.post(f"{BASE}/write", relay, ANONYMOUS, max_body=MAX_BODY)
    if settings.enable_admin:
        for path in ("delete_series", "clean_tombstones", "snapshot"):
            yield root.post(f"{BASE}/admin/tsdb/{path}", relay, ANONYMOUS, max_body=MAX_BODY)
            yield root.put(f"{BASE}/admin/tsdb/{path}", relay, ANONYMOUS, max_body=MAX_BODY)


_STATUS = ("buildinfo", "config", "flags", "runtimeinfo", "tsdb")


class Relay:
    """Handler of all these rows: passes a request on and its answer back, unchanged."""

    def __init__(self, settings: StoreSettings, host: str) -> None:
        self._client = StoreClient(settings.socket, settings.query_timeout / 1000 + SPARE_SECONDS)
        self._local_only = settings.local_only
        self._host = host
        self._account = None
        if settings.basic_auth is not None:
            self._account = b"Basic " + base64.b64encode(":".join(settings.basic_auth).encode())

    def __call__(self, context: Context) -> Raw:
        """Relay one request."""
        refusal = self._refusal(context)
        if refusal is not None:
            return refusal
        request = context.request
        target = request.env["PATH_INFO"].encode("latin-1")
        path = _quoted(target) + ("?" + request.query_string if request.query_string else "")
        headers = {name: request.get_header(name) for name in _PASSED_ON}
        try:
            body = context.raw_body if request.method != "GET" else b""
            given = {name: value for name, value in headers.items() if value}
            reply = self._client.request(request.method, path, body, given, _client_left(request.env))
        except ApiError as error:
            too_large = error.code == "too_large"
            return failure(413 if too_large else 400, "bad_data", str(error))
        except StoreUnreachable as error:
            return failure(503, "unavailable", str(error))
        except ClientLeft:
            return failure(CLIENT_CLOSED, "canceled", "the client left")
        return Raw(reply.body, reply.content_type, reply.status)

    def _refusal(self, context: Context) -> Raw | None:
        if self._local_only and not self._is_local(context.remote):
            return failure(
                403,
                "forbidden",
                "embedded tsdb endpoints only accept requests from the service's own host by default; "
                "set EmbeddedTSDB.BasicAuthUser and EmbeddedTSDB.BasicAuthPass to open them",
            )
        if self._account is not None:
            given = (context.request.get_header("Authorization") or "").encode()
            if not hmac.compare_digest(given, self._account):
                challenge = {"WWW-Authenticate": 'Basic realm="Authorization Required"'}
                return Raw(b"", "text/plain; charset=utf-8", 401, challenge)
        return None

    def _is_local(self, remote: str) -> bool:
        """Tell whether the TCP peer is this host; a unix socket has no address."""
        if remote in ("", self._host):
            return True
        try:
            address = ipaddress.ip_address(remote.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback


def failure(status: int, error_type: str, message: str) -> Raw:
    """Return an answer with Prometheus's error envelope."""
    return Raw(orjson.dumps({"status": "error", "errorType": error_type, "error": message}), status=status)


def _quoted(path: bytes) -> str:
    from urllib.parse import quote

    return quote(path)


def _client_left(environ: dict[str, Any]) -> Callable[[], bool] | None:
    """Return a function that tells whether the peer has closed its connection; None where that cannot be seen."""
    connection = environ.get("gunicorn.socket")
    if type(connection) is not socket.socket:  # a TLS connection cannot be looked at without reading from it
        return None

    def left() -> bool:
        try:
            return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    return left
