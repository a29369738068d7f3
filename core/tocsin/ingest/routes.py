"""The ingest endpoints: one handler for every protocol, made from what the protocol's plugin declares."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tocsin.http.access import AGENT, ANONYMOUS, Access
from tocsin.http.context import Context, Raw
from tocsin.http.errors import ApiError, unauthorized
from tocsin.http.routes import Route, Surface, root
from tocsin.ingest.decompress import DecompressError, TooLargeError
from tocsin.ingest.gateway import Gateway, NotRunningError
from tocsin.ingest.interface import SizeError, VersionError, WireError
from tocsin.plugin import Decoded, DecodeError, IngestProtocol, IngestRequest, IngestRoute

if TYPE_CHECKING:
    from tocsin.ingest.proxy import Proxy

METRIC: dict[str, Any] = {"metric": "svc_pushgw_http_request_duration_seconds", "metric_labels": {"service": "pushgw"}}
"""Where the latency of these endpoints is counted."""


def ingest_routes(
    gateway: Gateway, proxy: Proxy, protocols: Iterable[IngestProtocol], max_body: int
) -> Iterator[Route]:
    """Return the rows of all protocols and of the pass-through endpoint."""
    yield root.post("/proxy/v1/write", proxy.handle, AGENT, max_body=gateway.settings.proxy_max_body, **METRIC)
    for protocol in protocols:
        if (sets := protocol.label_sets()) is not None:
            gateway.show_label_sets(protocol.name, sets)
        for declared in protocol.routes():
            handler = _handler(gateway, protocol.name, declared)
            yield Route(
                declared.method,
                declared.path,
                handler,
                _access(declared),
                Surface.ROOT,
                max_body=max_body,
                **METRIC,
            )


def _access(declared: IngestRoute) -> Access:
    """Return who may call: the guard of API keys is the handler's, because the key stands in the query."""
    return AGENT if declared.auth == "basic" else ANONYMOUS


def _handler(gateway: Gateway, channel: str, declared: IngestRoute) -> Callable[[Context], Raw]:
    """Return the handler of one endpoint."""

    def refuse(reason: str, error: ApiError) -> ApiError:
        gateway.metrics.request_errors.labels(channel, reason).inc()
        return error

    def handle(context: Context) -> Raw:
        if declared.auth == "api_key":
            request = _request(gateway, context, b"")
            check_api_key(context, declared.key_of(request) if declared.key_of else request.query.get("api_key", ""))
        if declared.decode is None:
            return declared.reply(_request(gateway, context, b""), Decoded(b""), 0)
        if declared.admission and (length := gateway.over_limit()):
            status = gateway.options.over_limit_status
            raise ApiError(f"write queue full, metric count over limit: {length}", "limit", status=status)
        try:
            request = _request(gateway, context, context.raw_body)
            decoded = declared.decode(request)
            accepted = gateway.accept(channel, decoded, context.remote)
            if decoded.failed:
                gateway.metrics.items_failed.labels(channel).inc(decoded.failed)
        except ApiError as error:
            raise refuse(error.code, error) from None
        except (DecodeError, DecompressError, WireError) as error:
            raise refuse(*api_error(error)) from None
        except NotRunningError as error:
            raise refuse("stopping", ApiError(str(error), "unavailable")) from None
        return declared.reply(request, decoded, accepted)

    return handle


def api_error(error: Exception) -> tuple[str, ApiError]:
    """Return the reason for the metrics and the answer for a body that cannot be taken."""
    if isinstance(error, DecodeError):
        code = {413: "too_large", 415: "unsupported"}.get(error.status, "invalid")
        return "decode", ApiError(str(error), code, status=error.status)
    if isinstance(error, TooLargeError | SizeError):
        return "too_large", ApiError(str(error), "too_large")
    if isinstance(error, VersionError):
        return "version", ApiError(str(error), "unsupported")
    return "malformed", ApiError(str(error), "invalid")


def check_api_key(context: Context, key: str) -> None:
    """Ask for a password of the agent accounts, or user and password, when there are any accounts.

    All are compared, in constant time.
    """
    accounts = context.core.http.api_for_agent.basic_auth
    given = key.encode(errors="surrogatepass")
    wanted = [*accounts.values(), *(f"{user}:{password}" for user, password in accounts.items())]
    matches = [hmac.compare_digest(given, text.encode()) for text in wanted]
    if matches and not any(matches):
        raise unauthorized()


def _request(gateway: Gateway, context: Context, body: bytes) -> IngestRequest:
    request = context.request
    return IngestRequest(
        path=request.path,
        headers={name.lower(): value for name, value in request.headers.items()},
        query={name: value[0] if isinstance(value, list) else value for name, value in request.params.items()},
        body=body,
        remote=context.remote,
        max_decoded=gateway.settings.max_decoded_bytes,
    )
