"""Collectors' heartbeats: those that end here, and those that are passed on to a center.

These rows stand with the ingest endpoints: what they refuse has an HTTP status.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from tocsin.http.access import COLLECTOR, Access
from tocsin.http.schemas import checked
from tocsin.plugin import (
    AGENT,
    GZIP,
    SERVICE,
    ApiError,
    Context,
    DecompressError,
    Raw,
    Route,
    TooLargeError,
    inflate,
    invalid,
    root,
)
from tocsin.targets import schemas
from tocsin.targets.center import CenterError
from tocsin.targets.heartbeat import CENTER_HEARTBEAT, UNSAID, Heartbeats, Relay
from tocsin.targets.metrics import TargetMetrics

MAX_BEAT = 8 << 20
"""Largest heartbeat in bytes, before and after decompression."""
HEARTBEAT, EDGE_HEARTBEAT = "/v1/svc/heartbeat", "/v1/svc/edge/heartbeat"
_SCHEMA = schemas.HeartbeatBody()


Receive = Callable[[Context, dict[str, Any], bool], Any]
"""Does something with a heartbeat and its ``overwrite_gids``; returns the ``dat`` of the answer."""


def take(ctx: Context, beat: dict[str, Any], overwrite: bool) -> None:
    """Take a heartbeat; what a gateway on the way said about it is believed."""
    ctx.core.get(Heartbeats).take(beat, _remote(ctx), ctx.query("gid"), overwrite=overwrite)


def take_as_gateway(ctx: Context, beat: dict[str, Any], overwrite: bool) -> None:
    """Take a heartbeat where a gateway is expected: nobody stands between the collector and here."""
    take(ctx, {**beat, **UNSAID}, overwrite)


def forward(ctx: Context, beat: dict[str, Any], overwrite: bool) -> Any:
    """Pass a heartbeat on to a center; the collector is told when none took it, and comes again with the next."""
    try:
        return ctx.core.get(Relay).forward(beat, _remote(ctx), ctx.query("gid"), overwrite=overwrite)
    except CenterError as error:
        raise ApiError(f"failed to post data to center: {error}", "unavailable") from None


def heartbeat(metrics: TargetMetrics, receive: Receive) -> Callable[[Context], Raw]:
    """Return a handler of heartbeats; what it refuses is counted."""

    def handle(ctx: Context) -> Raw:
        try:
            dat = receive(ctx, _beat(ctx), ctx.query_bool("overwrite_gids"))
        except ApiError as error:
            metrics.refused.labels(error.code).inc()
            raise
        # Collectors look into `dat` for an upgrade they are to make, so it is there although it says nothing.
        return Raw(orjson.dumps({"dat": dat, "err": "", "request_id": ctx.request_id}))

    return handle


def _beat(ctx: Context) -> dict[str, Any]:
    """Return the heartbeat in the body; raise ``invalid`` naming what is wrong with it."""
    body, encoding = ctx.raw_body, (ctx.request.get_header("Content-Encoding") or "identity").strip().lower()
    if encoding not in ("gzip", "identity"):
        raise ApiError(f"Content-Encoding: got {encoding[:40]!r}, expected gzip", "unsupported")
    if encoding == "gzip":
        try:
            body = inflate(body, MAX_BEAT, GZIP)
        except TooLargeError as error:
            raise ApiError(str(error), "too_large") from None
        except DecompressError as error:
            raise invalid(str(error)) from None
    beat: dict[str, Any] = checked(_SCHEMA, ctx.parsed_json(body))
    if not beat["hostname"]:
        raise invalid("hostname is required")
    return beat


def _remote(ctx: Context) -> str:
    """Return the address of the host; a front proxy names it, and it is only shown to people."""
    forwarded = (ctx.request.get_header("X-Forwarded-For") or "").partition(",")[0].strip()
    try:
        return str(ipaddress.ip_address(forwarded))
    except ValueError:
        return ctx.remote


def _rows(metrics: TargetMetrics, *rows: tuple[str, Receive, Access]) -> Iterable[Route]:
    for path, receive, access in rows:
        yield root.post(path, heartbeat(metrics, receive), access, max_body=MAX_BEAT)


def collector_routes(metrics: TargetMetrics) -> Iterable[Route]:
    """Return the rows that collectors use of a process that has the center's database."""
    return _rows(metrics, (HEARTBEAT, take, COLLECTOR), (EDGE_HEARTBEAT, take_as_gateway, AGENT))


def forwarding_routes(metrics: TargetMetrics) -> Iterable[Route]:
    """Return the rows that collectors use of a gateway that has not."""
    return _rows(metrics, (HEARTBEAT, forward, AGENT), (EDGE_HEARTBEAT, forward, AGENT))


def gateway_routes(metrics: TargetMetrics) -> Iterable[Route]:
    """Return the row that such gateways use of a center; it belongs to the service API."""
    return _rows(metrics, (CENTER_HEARTBEAT, take, SERVICE))
