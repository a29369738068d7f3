"""Endpoints that every process serves: liveness, identity, version, metrics, profiling, synchronisation status."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tocsin import __version__
from tocsin.http.access import ANONYMOUS, LOCAL
from tocsin.http.context import Context, Raw, text
from tocsin.http.routes import Handler, Route, page, root


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
    if context.core.process == "center":
        uptime = context.core.metrics.bare_counter(
            "svc_center_uptime", "Seconds since the service started.", mode="max"
        )
        uptime.set(context.core.clock() - context.core.started_at)
    return Raw(*context.core.metrics.exposition(context.request.get_header("Accept") or ""))


def dumper_sync(context: Context) -> Raw:
    """Answer when each cached part of the configuration was last read, for local callers."""
    return text("\n" + "\n".join(context.core.snapshots.report()))


def profiler() -> Handler:
    """Return the handler of the profiling pages; all of them share the rule of one timed profile at a time."""
    from tocsin.http.pprof import Profiler  # profiling is rare: its imports are not worth every process's start

    pages = Profiler()

    def profile(context: Context) -> Raw:
        query = {name: context.query(name) for name in ("seconds", "debug")}
        found = pages.page(context.params.get("kind", ""), query)
        disposition = {"Content-Disposition": f'attachment; filename="{found.filename}"'} if found.filename else {}
        return Raw(found.body, found.content_type, found.status, disposition)

    return profile


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
        profile = profiler()
        yield root.get("/api/debug/pprof", profile, ANONYMOUS)
        yield root.get("/api/debug/pprof/:kind", profile, ANONYMOUS)
        yield root.post("/api/debug/pprof/:kind", profile, ANONYMOUS)
