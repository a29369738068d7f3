"""Datasources: where metrics and logs are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tocsin.app.calls import PluginCalls
from tocsin.datasources import routes
from tocsin.datasources.catalog import Catalog
from tocsin.datasources.models import DatasourceRow
from tocsin.datasources.pool import DatasourcePool
from tocsin.datasources.saving import Saver
from tocsin.datasources.settings import AnonymousAccess, DatasourceSettings
from tocsin.plugin import DatasourceConfig, DatasourceRegistry, DatasourceType, Feature, Route, create

if TYPE_CHECKING:
    from tocsin.app.core import Core


class Datasources(Feature):
    """Keeps datasources, connects to them through their plugins, and answers queries."""

    name = "datasources"
    processes = frozenset(("center", "alert"))
    settings = (DatasourceSettings, AnonymousAccess)
    tables = (DatasourceRow,)
    migrations = (create(DatasourceRow),)

    def setup(self, core: Core) -> None:
        """Provide the catalog, the pool and what saves datasources."""
        settings = core.settings[DatasourceSettings]
        types = core.plugins.of(DatasourceType)
        networks = settings.networks()

        def complete(config: DatasourceConfig) -> DatasourceConfig:
            return replace(config, from_edge=core.process != "center", denied_networks=networks)

        catalog = Catalog(core.db, core.snapshots, core.vault, types, core.clock)
        calls = PluginCalls(core.metrics, settings.max_overdue)
        pool = DatasourcePool(catalog, types, calls, complete=complete, max_timeout=settings.max_query_timeout)
        core.provide(catalog)
        core.provide(catalog, DatasourceRegistry)
        core.provide(pool)
        core.provide(Saver(catalog, pool, types, complete=complete, check_timeout=settings.check_timeout))

    def routes(self, core: Core) -> Iterable[Route]:
        """Return the rows of the center, and those that datasource types add."""
        if core.process != "center":
            return
        yield from routes.page_rows(core)
        if core.http.api_for_service.enable:
            yield from routes.service_rows()
        for kind in core.plugins.of(DatasourceType).values():
            yield from kind.routes(core)

    def stop(self, core: Core, role: str) -> None:
        """Close connections to datasources."""
        core.get(DatasourcePool).close()


FEATURE = Datasources()
