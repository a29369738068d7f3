"""The composition root: everything a process is made of, passed to whoever needs it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tocsin.app.sections import CacheSettings, DataSettings, DbSettings, HttpSettings, SecretsSettings
from tocsin.app.settings import SettingsError
from tocsin.http.metrics import Metrics
from tocsin.http.routes import RouteClash
from tocsin.store.cache import Cache, open_cache
from tocsin.store.database import Database
from tocsin.store.snapshots import ChangeVersion, Snapshots
from tocsin.store.vault import Vault

if TYPE_CHECKING:
    from tocsin.app.config import Settings
    from tocsin.app.registry import Plugins
    from tocsin.http.access import Gatekeeper
    from tocsin.http.app import Application
    from tocsin.plugin import Feature

T = TypeVar("T")
log = logging.getLogger(__name__)


class Core:
    """One process's settings, plugins, stores and services.

    Capabilities offer a service with :meth:`provide` and others find it by its class with :meth:`get`; a service that
    an inactive feature would have offered is reported by name.
    """

    def __init__(
        self,
        process: str,
        settings: Settings,
        plugins: Plugins,
        features: tuple[Feature, ...],
        *,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.process = process
        self.settings = settings
        self.plugins = plugins
        self.features = tuple(f for f in features if process in f.processes)
        self.environ = environ
        self.metrics = Metrics()
        self.clock = clock
        self.started_at = clock()
        self.http = settings[HttpSettings]
        self.data_directory = Path(settings[DataSettings].directory)
        self.data_directory.mkdir(parents=True, exist_ok=True)
        self.vault = Vault.open(settings[SecretsSettings].key, self.data_directory / "secret.key")
        self.db = Database(settings[DbSettings], self.data_directory, self.metrics)
        self.db.bind([ChangeVersion])
        self.snapshots = Snapshots(self.db)
        self.cache: Cache = open_cache(settings[CacheSettings], self.data_directory, self.metrics)
        self.access_log_enabled: Callable[[], bool] = lambda: self.http.access_log
        self._services: dict[type, Any] = {}
        self.application: Application | None = None
        for feature in self.features:
            self.db.bind(feature.tables)
        for feature in self.features:
            self.guard(feature, "setup", partial(feature.setup, self))

    def guard(self, feature: Feature, stage: str, call: Callable[[], T]) -> T | None:
        """Run one step of a feature; a plugin's feature that fails is left out, core's own must not fail.

        Wrong settings and clashing names stop the start whoever finds them.
        """
        try:
            return call()
        except (SettingsError, RouteClash):
            raise
        except Exception as error:
            if not self.plugins.blame(feature, stage, error):
                raise
            log.exception("feature %s is left out: %s failed", feature.name, stage)
            self.features = tuple(other for other in self.features if other is not feature)
            return None

    def provide(self, service: object, as_type: type | None = None) -> None:
        """Offer a service under its class, or under ``as_type``."""
        self._services[as_type or type(service)] = service

    def get(self, cls: type[T]) -> T:
        """Return the service of class ``cls``; raise :class:`LookupError` when no active feature offers it."""
        try:
            return self._services[cls]  # type: ignore[no-any-return]
        except KeyError:
            raise LookupError(f"no active feature of process {self.process!r} provides {cls.__name__}") from None

    def has(self, cls: type) -> bool:
        """Return whether a service of class ``cls`` is offered."""
        return cls in self._services

    @property
    def gatekeeper(self) -> Gatekeeper:
        """The access capability as the HTTP layer sees it."""
        from tocsin.http.access import Gatekeeper

        return self.get(Gatekeeper)

    def release(self) -> None:
        """Give back what the current thread holds of the stores; called after each request and job."""
        self.db.release()

    def start(self, role: str) -> None:
        """Start the background work of every active feature for ``http`` or ``engine``."""
        for feature in self.features:
            self.guard(feature, "start", partial(feature.start, self, role))

    def stop(self, role: str) -> None:
        """Stop background work in reverse order; a feature that fails to stop does not keep the others from it."""
        for feature in reversed(self.features):
            try:
                feature.stop(self, role)
            except Exception:
                log.exception("feature %s failed to stop", feature.name)

    def close(self) -> None:
        """Close stores; used before a fork and at the end of the process."""
        self.db.close()
        self.cache.close()
