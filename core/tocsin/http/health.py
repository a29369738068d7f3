"""Endpoints that every process serves: liveness, identity, version, metrics, profiling, synchronisation status."""

from __future__ import annotations

import os
from collections.abc import Iterator

from prometheus_client.exposition import choose_encoder

from tocsin import __version__
from tocsin.http.access import ANONYMOUS, LOCAL
from tocsin.http.context import Context, Raw, text
from tocsin.http.errors import ApiError
from tocsin.http.routes import Route, page, root


def ping(_: Context) -> Raw:
    """Answer ``pong``: proves that the HTTP server listens, nothing else."""
    return text("pong")


def pid(_: Context) -> Raw:
    """Answer the id of the process that serves this request."""
    return text(str(os.getpid()))


def ppid(_: Context) -> Raw:
    """Answer the id of the parent of that process."""
    return text(str(os.getppid()))


def addr(context: Context) -> Raw:
    """Answer address and port of the TCP peer, an IPv6 address in brackets."""
    host = context.remote
    port = context.request.env.get("REMOTE_PORT", "")
    return text(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def version(_: Context) -> Raw:
    """Answer the version as ``v<major>.<minor>.<patch>``."""
    return text(f"v{__version__}")


def metrics(context: Context) -> Raw:
    """Answer the self metrics of all processes of this installation in the format the client asks for."""
    encode, content_type = choose_encoder(context.request.get_header("Accept") or "")
    return Raw(encode(context.core.metrics.exposed()), content_type)


def dumper_sync(context: Context) -> Raw:
    """Answer when each cached part of the configuration was last read, for local callers."""
    return text("\n" + "\n".join(context.core.snapshots.report()))


def profile(context: Context) -> Raw:
    """Answer one profile; see :mod:`tocsin.http.pprof` for the kinds."""
    from tocsin.http import pprof  # profiling is rare: its imports are not worth a worker's start

    request = pprof.ProfileRequest(
        kind=context.params.get("kind", ""),
        seconds=context.query_int("seconds", 0),
        debug=context.query_int("debug", 0),
        body=context.raw_body if context.request.method == "POST" else b"",
    )
    answer = pprof.respond(request)
    if answer.status >= 400:
        raise ApiError(answer.body.decode(), "unavailable", status=answer.status)
    return Raw(answer.body, answer.content_type, answer.status)


def routes(*, expose_metrics: bool, profiling: bool) -> Iterator[Route]:
    """Yield the rows; metrics and profiling only when they are switched on."""
    yield root.get("/ping", ping, ANONYMOUS)
    yield root.get("/pid", pid, ANONYMOUS)
    yield root.get("/ppid", ppid, ANONYMOUS)
    yield root.get("/addr", addr, ANONYMOUS)
    yield page.get("/version", version, ANONYMOUS)
    yield root.get("/dumper/sync", dumper_sync, LOCAL)
    if expose_metrics:
        yield root.get("/metrics", metrics, ANONYMOUS)
    if profiling:
        yield root.get("/api/debug/pprof", profile, ANONYMOUS)
        yield root.get("/api/debug/pprof/:kind", profile, ANONYMOUS)
        yield root.post("/api/debug/pprof/:kind", profile, ANONYMOUS)
