"""The capability as core sees it: settings, writers, endpoints, and the life of the gateway in each worker."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tocsin.app.sections import HttpSettings, default_workers
from tocsin.app.settings import Loader, SettingsError
from tocsin.http.routes import Route
from tocsin.ingest.gateway import Gateway
from tocsin.ingest.hosts import HostRegister, NoHosts, TargetLabels
from tocsin.ingest.metrics import GatewayMetrics
from tocsin.ingest.outlet import Outlet, OutletOptions
from tocsin.ingest.proxy import Proxy
from tocsin.ingest.relabel import RelabelError, parse_rule
from tocsin.ingest.routes import ingest_routes
from tocsin.ingest.settings import PushgwSettings
from tocsin.plugin import Feature, IngestProtocol, Writer, WriterContext, WriterType

if TYPE_CHECKING:
    from tocsin.app.core import Core

log = logging.getLogger(__name__)

DRAIN_SHARE = 2 / 3
"""Share of the shutdown time that draining may take; requests that were being served may have taken the other third."""


class Ingest(Feature):
    """Samples in, batches out."""

    name = "ingest"
    processes: ClassVar[frozenset[str]] = frozenset(("center", "edge", "pushgw"))
    settings = (PushgwSettings,)

    def setup(self, core: Core) -> None:
        """Build the writers and the gateway; a configuration that cannot work stops the start."""
        settings = core.settings[PushgwSettings]
        workers = core.http.workers or default_workers()
        metrics = GatewayMetrics.make(core.metrics)
        writers = _Writers(core, settings, workers)
        outlets = {writer.url: Outlet(writer, options, metrics, core.clock) for writer, options in writers.built}
        gateway = Gateway(
            settings,
            list(outlets.values()),
            metrics,
            core.get(TargetLabels) if core.has(TargetLabels) else NoHosts(),
            core.get(HostRegister) if core.has(HostRegister) else NoHosts(),
            workers=workers,
            clock=core.clock,
        )
        core.provide(gateway)
        core.provide(Proxy(settings, [writer for writer, _ in writers.built], gateway.board, core.metrics))

    def routes(self, core: Core) -> Iterable[Route]:
        """Return the endpoints of every protocol, unless collectors are to have no way to write."""
        http = core.settings[HttpSettings]
        if not http.api_for_agent.enable:
            return ()
        protocols = core.plugins.of(IngestProtocol).values()
        return ingest_routes(core.get(Gateway), core.get(Proxy), protocols, http.max_content_length)

    def start(self, core: Core, role: str) -> None:
        """Start the consumers in a worker."""
        if role == "http":
            core.get(Gateway).start()
            core.release()

    def stop(self, core: Core, role: str) -> None:
        """Drain the queues."""
        if role == "http":
            core.get(Gateway).stop(core.http.shutdown_timeout * DRAIN_SHARE)


class _Writers:
    """The writers that the configuration and the plugins ask for."""

    def __init__(self, core: Core, settings: PushgwSettings, workers: int) -> None:
        self._settings, self._workers = settings, workers
        self._context = WriterContext(core.settings, core.metrics, {"process": core.process})
        self.built: list[tuple[Writer, OutletOptions]] = []
        types: list[WriterType] = list(core.plugins.of(WriterType).values())
        known = {kind.config_key.lower(): kind for kind in types if kind.config_key}
        for key, tables in settings.arrays.items():
            kind = known.get(key.lower())
            if kind is None and not _is_array(tables):
                log.warning("configuration: Pushgw.%s is unknown and ignored", key)
                continue
            if kind is None:
                raise SettingsError(f"Pushgw.{key}: no installed writer plugin is configured by this array of tables")
            if not _is_array(tables):
                raise SettingsError(f"Pushgw.{key}: got {tables!r}, expected an array of tables")
            for index, table in enumerate(tables):
                self._configured(kind, table, f"Pushgw.{kind.config_key}[{index}]")
        for kind in types:
            for element in kind.implied(self._context):
                self._add(kind, element, critical=kind.critical)

    def _configured(self, kind: WriterType, table: Mapping[str, Any], where: str) -> None:
        """Add one element of an array."""
        ours = {name.lower(): name for name in table if name.lower() in ("asyncwrite", "writerelabels")}
        asynchronous = table[ours["asyncwrite"]] if "asyncwrite" in ours else False
        if not isinstance(asynchronous, bool):
            raise SettingsError(f"{where}.AsyncWrite: got {asynchronous!r}, expected true or false")
        rules = table[ours["writerelabels"]] if "writerelabels" in ours else []
        if not _is_array(rules):
            raise SettingsError(f"{where}.WriteRelabels: got {rules!r}, expected an array of tables")
        rest = {name: value for name, value in table.items() if name.lower() not in ours}
        element: Any = rest
        if kind.settings is not None:
            loader = Loader({}, {})
            element = loader.read(kind.settings, rest, where)
            for name in loader.unknown:
                log.warning("configuration: %s is unknown and ignored", name)
        self._add(kind, element, rules, where, critical=kind.critical and not asynchronous)

    def _add(self, kind: WriterType, element: Any, rules: Any = (), where: str = "", *, critical: bool) -> None:
        try:
            parsed = [parse_rule(rule, f"{where}.WriteRelabels[{index}]") for index, rule in enumerate(rules)]
        except RelabelError as error:
            raise SettingsError(str(error)) from None
        chosen = self._settings.writer_options.effective()
        options = OutletOptions(
            critical=critical,
            retry_count=chosen.retry_count,
            retry_interval=chosen.retry_interval,
            relabel=parsed,
            relabel_cache_size=self._settings.label_cache_size,
            spool_directory=Path(chosen.spool_directory) if chosen.spool_directory else None,
            spool_max_bytes=chosen.spool_max_bytes // self._workers,
        )
        self.built.append((kind.build(element, self._context), options))


def _is_array(value: Any) -> bool:
    """Whether a value is an array of tables."""
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


FEATURE = Ingest()
