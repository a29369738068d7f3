"""From a configuration directory to a working :class:`Core` and its WSGI application."""

from __future__ import annotations

import logging
import logging.config
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tocsin.app.capabilities import core_features
from tocsin.app.config import Settings, load_settings, read_document
from tocsin.app.core import Core
from tocsin.app.log_lines import LineFormatter
from tocsin.app.registry import Plugins, load_plugins
from tocsin.app.sections import HttpSettings, LogSettings, PluginSettings
from tocsin.app.settings import Loader, SettingsError
from tocsin.http import health
from tocsin.http.app import Application
from tocsin.http.context import Context, Raw, text
from tocsin.http.routes import RouteTable
from tocsin.plugin import Feature, create
from tocsin.store.migrations import run_migrations
from tocsin.store.snapshots import ChangeVersion

log = logging.getLogger(__name__)
PROCESSES = ("center", "edge", "alert", "pushgw")


def open_core(
    process: str,
    directory: Path,
    *,
    environ: Mapping[str, str] | None = None,
    plugins: Plugins | None = None,
) -> Core:
    """Return the core of a process configured by the files of ``directory``; nothing is started yet.

    Raises ``SettingsError`` for a configuration that cannot work and ``PluginClash`` for plugins that fight over a name.
    """
    return make_core(process, read_document(directory), environ=environ, plugins=plugins, directory=directory)


def make_core(
    process: str,
    document: Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    plugins: Plugins | None = None,
    directory: Path = Path(),
    clock: Callable[[], float] = time.time,
) -> Core:
    """Return the core of a process from an already parsed configuration; ``clock`` gives the epoch in seconds."""
    environ = os.environ if environ is None else environ
    if plugins is None:
        plugins = load_plugins(Loader(document, environ).load(PluginSettings).disabled)
    features = (*core_features(), *plugins.of(Feature).values())
    settings = load_settings(document, environ, declared_sections(features, plugins), directory=directory)
    for name in settings.unknown:
        log.warning("configuration: %s is unknown and ignored", name)
    check_certificate(settings[HttpSettings])
    return Core(process, settings, plugins, features, environ=environ, clock=clock)


def check_certificate(http: HttpSettings) -> None:
    """Raise ``SettingsError`` when TLS is asked for and cannot be had: nobody must be served in clear by mistake."""
    given = {"CertFile": http.cert_file, "KeyFile": http.key_file}
    if not any(given.values()):
        return
    for name, path in given.items():
        if not path:
            raise SettingsError(
                f"HTTP.{name}: got nothing, expected a file, as the other of CertFile and KeyFile is set"
            )
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise SettingsError(f"HTTP.{name}: {path} cannot be read: {error.strerror}") from None
    import ssl  # most processes never need it

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(http.cert_file, http.key_file, password="")
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"HTTP.CertFile, HTTP.KeyFile: {http.cert_file} and {http.key_file} cannot be used: {error}"
        ) from None


def declared_sections(features: tuple[Feature, ...], plugins: Plugins) -> list[type]:
    """Return every settings section of features and plugins once."""
    found: dict[type, None] = {}
    for feature in features:
        found.update(dict.fromkeys(feature.settings))
    found.update(dict.fromkeys(plugins.settings))
    return list(found)


def prepare(core: Core) -> None:
    """Bring the database up to date; in the center, write the rows an installation starts with; safe to run in parallel.

    The other processes only check what the center has written: a second author of first rows would be one too many.
    """
    lock = core.data_directory / "migration.lock"
    run_migrations(core.db, [("store", (create(ChangeVersion),))], lock)
    for feature in core.features:
        core.guard(feature, "migrate", partial(run_migrations, core.db, [(feature.name, feature.migrations)], lock))
    for feature in core.features:
        if core.process == "center":
            core.guard(feature, "seed", partial(feature.seed, core))
        else:
            core.guard(feature, "join", partial(feature.join, core))
    core.release()


def route_table(core: Core) -> RouteTable:
    """Return the route table of a process: the frame's rows and those of every active feature."""
    table = RouteTable()
    table.add("http", health.routes(expose_metrics=core.http.expose_metrics, profiling=core.http.pprof))
    for feature in core.features:
        table.add(feature.name, core.guard(feature, "routes", lambda f=feature: list(f.routes(core))) or ())  # type: ignore[misc]
    return table


def make_application(core: Core) -> Application:
    """Return the WSGI application of a process."""
    fallbacks = [handler for feature in core.features if (handler := feature.fallback(core))]
    core.application = Application(core, route_table(core), fallbacks[-1] if fallbacks else not_found_page)
    return core.application


def not_found_page(_: Context) -> Raw:
    """Answer what no route matches where no user interface is served."""
    return text("404 page not found", 404)


def configure_logging(settings: Settings) -> None:
    """Send the service's log where ``[Log]`` says."""
    wanted = settings[LogSettings]
    handler: dict[str, Any] = {"class": "logging.StreamHandler", "formatter": "line"}
    if wanted.output == "file":
        Path(wanted.directory).mkdir(parents=True, exist_ok=True)
        file = str(Path(wanted.directory) / "tocsin.log")
        handler |= {"class": "logging.handlers.WatchedFileHandler", "filename": file}
    else:
        handler["stream"] = getattr(sys, wanted.output)
    line = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": {"()": LineFormatter, "fmt": line}},
            "handlers": {"out": handler},
            "root": {"level": wanted.level, "handlers": ["out"]},
        }
    )
