"""The process of the store: the launcher forks it, watches it and starts it again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocsin.plugin import SettingsError, Sidecar
from tocsin_tsdb.address import PREFIX
from tocsin_tsdb.settings import EmbeddedTsdbSettings, StoreSettings, understand
from tocsin_tsdb.storage.directory import lock
from tocsin_tsdb.storage.errors import StoreUnusable

if TYPE_CHECKING:
    from tocsin_tsdb.api.options import ApiOptions
    from tocsin_tsdb.storage.options import StoreOptions


class StoreSidecar(Sidecar):
    """Runs the store where `[EmbeddedTSDB] Enable` is true."""

    name = "tsdb"
    settings = (EmbeddedTsdbSettings,)

    def enabled(self, core: Any) -> bool:
        """Return whether the store is switched on. A data directory that cannot be used stops the start: raises SettingsError."""
        section: EmbeddedTsdbSettings = core.settings[EmbeddedTsdbSettings]
        if section.enable:
            try:
                lock(understand(section).directory).close()
            except StoreUnusable as error:
                raise SettingsError(f"EmbeddedTSDB.Dir: {error}") from None
        return section.enable

    def run(self, core: Any, stopping: threading.Event, ready: Callable[[], None]) -> None:
        """Serve the store until the launcher stops it."""
        from tocsin_tsdb.server import serve

        settings = understand(core.settings[EmbeddedTsdbSettings])
        serve(
            settings.socket,
            store_options(settings),
            api_options(settings),
            lookback_ms=settings.lookback,
            max_samples=settings.query_max_samples,
            stopping=stopping,
            ready=ready,
        )


def store_options(settings: StoreSettings) -> StoreOptions:
    """Return the storage engine's options."""
    from tocsin_tsdb.storage.options import StoreOptions

    return StoreOptions(
        directory=settings.directory,
        retention=settings.retention,
        max_bytes=settings.max_bytes,
        out_of_order_window=settings.out_of_order,
    )


def api_options(settings: StoreSettings) -> ApiOptions:
    """Return the API's options, with the settings as the status endpoints show them."""
    from tocsin_tsdb.api.options import ApiOptions
    from tocsin_tsdb.promql.durations import format_duration

    shown = {
        "storage.tsdb.path": str(settings.directory),
        "storage.tsdb.retention.time": format_duration(settings.retention),
        "storage.tsdb.retention.size": f"{settings.max_bytes}B",
        "query.timeout": format_duration(settings.query_timeout),
        "query.max-concurrency": str(settings.query_max_concurrency),
        "query.max-samples": str(settings.query_max_samples),
        "query.lookback-delta": format_duration(settings.lookback),
        "web.enable-admin-api": str(settings.enable_admin).lower(),
        "web.enable-remote-write-receiver": "true",
    }
    window = format_duration(settings.out_of_order)
    return ApiOptions(
        query_timeout=settings.query_timeout / 1000,
        query_concurrency=settings.query_max_concurrency,
        enable_admin=settings.enable_admin,
        flags=shown,
        config=f"storage:\n  tsdb:\n    out_of_order_time_window: {window}\n",
        prefix=PREFIX,
    )
