"""What a host without credentials is told and given: nothing here is secret."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tocsin.access.configs import Site
from tocsin.app.sections import CenterSettings
from tocsin.datasources.catalog import Catalog
from tocsin.ingest.gateway import Gateway
from tocsin.plugin import ANONYMOUS, Context, Raw, Route, invalid, page, text
from tocsin.targets.install.addresses import is_written_by, normal_address, own_address
from tocsin.targets.install.packages import PACKAGES, VERSION, Packages

SCRIPT = "text/x-shellscript; charset=utf-8"
SCRIPT_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store, no-cache, must-revalidate",
}
PIECE = 64 << 10


def describe(ctx: Context) -> dict[str, Any]:
    """Tell what can be installed, and where the host is to report to."""
    packages = _packages(ctx)
    arches, base = packages.arches(), _report_address(ctx)
    return {
        "bundled": bool(arches),
        "version": VERSION,
        "arches": arches,
        "basic_auth": bool(ctx.core.http.api_for_agent.basic_auth),
        "base_url": base,
        "script_url": f"{base}/api/svc/agents/categraf/install.sh",
        "collect": True,
        "metric_datasource_ids": _written_datasources(ctx),
    }


def download(ctx: Context) -> Raw:
    """Send a package. The installer depends on a real 404 to look elsewhere."""
    arch = ctx.query("arch") or "amd64"
    if arch not in PACKAGES:
        return text(f"unsupported arch: {arch[:64]}", 400)
    path = _packages(ctx).path(arch)
    try:
        size = path.stat().st_size
        pieces = _pieces(path)
    except OSError:
        return text(f"categraf package for {arch} is not bundled", 404)
    headers = {"Content-Disposition": f'attachment; filename="{PACKAGES[arch]}"', "Content-Length": str(size)}
    return Raw(pieces, "application/gzip", headers=headers)


def install_script(ctx: Context) -> Raw:
    """Send the installer, made for the address under which the host reached us."""
    try:
        report = normal_address(ctx.query("host")) if ctx.query("host") else _own_address(ctx)
    except ValueError:
        return text(f"invalid host: {ctx.query('host')[:300]}", 400)
    body = _packages(ctx).install_script(report, _own_address(ctx))
    return Raw(body, SCRIPT, headers={**SCRIPT_HEADERS, "Vary": "Host, X-Forwarded-Host, X-Forwarded-Proto"})


def collect_script(ctx: Context) -> Raw:
    """Send the script that configures one input."""
    return Raw(Packages.collect_script(), SCRIPT, headers=dict(SCRIPT_HEADERS))


def _pieces(path: Path) -> Iterable[bytes]:
    """Return the pieces of a file that is opened now, so that a missing one is noticed before the answer begins."""
    handle = path.open("rb")

    def read() -> Iterable[bytes]:
        with handle:
            while piece := handle.read(PIECE):
                yield piece

    return read()


def _packages(ctx: Context) -> Packages:
    settings = ctx.core.settings[CenterSettings]
    return Packages(Path(settings.agents_directory), settings.agents_release_url.rstrip("/"))


def _own_address(ctx: Context) -> str:
    request = ctx.request
    return own_address(
        request.scheme,
        request.get_header("X-Forwarded-Proto") or "",
        request.get_header("X-Forwarded-Host") or "",
        request.get_header("Host") or "",
        ctx.core.get(Site).info().site_url,
    )


def _report_address(ctx: Context) -> str:
    given = ctx.query("host")
    try:
        return normal_address(given) if given else _own_address(ctx)
    except ValueError:
        raise invalid(f"invalid host: {given[:300]}") from None


def _written_datasources(ctx: Context) -> list[int] | None:
    """Return the ids of the Prometheus datasources that our own writers fill; None without writers."""
    if not ctx.core.has(Gateway) or not ctx.core.has(Catalog):
        return None
    written = [url for outlet in ctx.core.get(Gateway).outlets for url in outlet.url.split(",")]
    if not written:
        return None
    return [
        record.id
        for record in ctx.core.get(Catalog).records().values()
        if record.plugin_type == "prometheus"
        and is_written_by([str(record.http.get("url") or ""), *map(str, record.http.get("urls") or ())], written)
    ]


def install_routes() -> Iterable[Route]:
    """Return the rows of the helpers."""
    yield from (
        page.get("/agents/categraf/meta", describe, ANONYMOUS),
        page.get("/agents/categraf/download", download, ANONYMOUS),
        page.get("/agents/categraf/install.sh", install_script, ANONYMOUS),
        page.get("/agents/categraf/collect.sh", collect_script, ANONYMOUS),
    )
