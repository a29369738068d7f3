"""The hooks of Tocsin: everything a plugin can add, on one page.

A plugin is a distribution with an entry point in the group ``tocsin`` that names a module.  In that module, functions
marked with :data:`tocsin.plugin.hookimpl` return lists of descriptors.  Each hook is called once at the start of every
process, never per sample, event or request.  When a hook raises, or returns something that breaks the contract of its
kind, that plugin is left out, and the log, ``tocsin plugins`` and the About page say why; the service starts without it.
When two plugins claim one name, the service refuses to start and names both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from tocsin.plugin import (
        ChannelType,
        Command,
        DatasourceType,
        EventProcessor,
        Feature,
        IngestProtocol,
        Sidecar,
        SsoProvider,
        Toolset,
        WriterType,
    )

hookspec = pluggy.HookspecMarker("tocsin")


@hookspec
def tocsin_datasource_types() -> list[DatasourceType]:  # type: ignore[empty-body]
    """Return kinds of datasource: how to reach them, check them and query them."""


@hookspec
def tocsin_ingest_protocols() -> list[IngestProtocol]:  # type: ignore[empty-body]
    """Return protocols in which samples arrive: their endpoints and decoders.  Used by center, edge and pushgw."""


@hookspec
def tocsin_writers() -> list[WriterType]:  # type: ignore[empty-body]
    """Return ways to hand batches of series to a backend.  Used by center, edge and pushgw."""


@hookspec
def tocsin_channels() -> list[ChannelType]:  # type: ignore[empty-body]
    """Return media through which notifications leave.  Used where the alert engine runs, and for test sends."""


@hookspec
def tocsin_toolsets() -> list[Toolset]:  # type: ignore[empty-body]
    """Return sets of tools for AI clients; every tool is a call of the page API.  Used by the center."""


@hookspec
def tocsin_event_processors() -> list[EventProcessor]:  # type: ignore[empty-body]
    """Return steps of event pipelines.  Used where the alert engine runs, and for try-runs."""


@hookspec
def tocsin_sso_providers() -> list[SsoProvider]:  # type: ignore[empty-body]
    """Return ways to log in besides user name and password.  Used by the center."""


@hookspec
def tocsin_features() -> list[Feature]:  # type: ignore[empty-body]
    """Return optional capabilities: routes, tables with migrations, settings, background work."""


@hookspec
def tocsin_commands() -> list[Command]:  # type: ignore[empty-body]
    """Return subcommands of ``tocsin``.  Called by the command line only."""


@hookspec
def tocsin_sidecars() -> list[Sidecar]:  # type: ignore[empty-body]
    """Return long-running processes that the launcher keeps alive.  Called by the launcher."""
