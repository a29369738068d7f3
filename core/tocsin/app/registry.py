"""Finds, checks and indexes plugins; one faulty plugin never takes another down."""

from __future__ import annotations

import importlib
import logging
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import pluggy

from tocsin import plugin as api
from tocsin.plugin import hookspecs

log = logging.getLogger(__name__)
GROUP = "tocsin"


@dataclass(frozen=True)
class Kind:
    """One kind of descriptor: its hook, its base class, and the attribute that names a descriptor."""

    hook: str
    base: type
    key: str = "name"

    @property
    def title(self) -> str:
        """The kind's name for people, like ``datasource types``."""
        return self.hook.removeprefix("tocsin_").replace("_", " ")


KINDS: tuple[Kind, ...] = (
    Kind("tocsin_datasource_types", api.DatasourceType),
    Kind("tocsin_ingest_protocols", api.IngestProtocol),
    Kind("tocsin_writers", api.WriterType),
    Kind("tocsin_channels", api.ChannelType, "ident"),
    Kind("tocsin_toolsets", api.Toolset),
    Kind("tocsin_event_processors", api.EventProcessor),
    Kind("tocsin_sso_providers", api.SsoProvider),
    Kind("tocsin_features", api.Feature),
    Kind("tocsin_commands", api.Command),
    Kind("tocsin_sidecars", api.Sidecar),
)


class PluginClash(Exception):
    """Two plugins claim one name: the service must not guess, so it does not start."""


@dataclass
class PluginInfo:
    """What is known of one installed plugin."""

    name: str
    distribution: str = ""
    version: str = ""
    provides: list[str] = field(default_factory=list)
    stage: str = ""
    """Where it failed: ``import``, ``register``, ``hook`` or ``describe``; empty for a healthy plugin."""
    error: str = ""

    @property
    def healthy(self) -> bool:
        """Whether the plugin is in use."""
        return not self.error


class Faulty(Exception):
    """A plugin breaks the contract of its kind."""


class Plugins:
    """The healthy plugins' descriptors by kind and name, and the story of every installed plugin."""

    def __init__(self) -> None:
        self.infos: list[PluginInfo] = []
        self._found: dict[type, dict[str, Any]] = {kind.base: {} for kind in KINDS}
        self._owners: dict[tuple[str, str], str] = {}

    def of(self, base: type[Any]) -> dict[str, Any]:
        """Return the descriptors of one base class by name."""
        return dict(self._found[base])

    @property
    def settings(self) -> list[type]:
        """Settings sections that features and sidecars declare, each once, in order of plugin name."""
        sections: dict[type, None] = {}
        for base in (api.Feature, api.Sidecar):
            for descriptor in self._found[base].values():
                sections.update(dict.fromkeys(descriptor.settings))
        return list(sections)

    def blame(self, feature: Any, stage: str, error: Exception) -> bool:
        """Record that a plugin's feature failed; return false when the feature is no plugin's."""
        if feature not in self._found[api.Feature].values():
            return False
        owner = self._owners["tocsin_features", feature.name]
        for info in self.infos:
            if info.name == owner:
                info.stage, info.error = stage, f"{type(error).__name__}: {error}"
        del self._found[api.Feature][feature.name]
        return True

    def add(self, info: PluginInfo, module: Any) -> None:
        """Register one plugin module, call its hooks and index what they return; record a failure in ``info``."""
        self.infos.append(info)
        try:
            found = _describe(info, module)
        except Exception as error:
            info.error = f"{type(error).__name__}: {error}"
            log.error("plugin %s (%s %s) is left out: %s: %s", info.name, info.distribution, info.version, info.stage,
                      info.error)  # fmt: skip
            log.debug("%s", traceback.format_exc())
            return
        info.stage = ""
        for kind, descriptor in found:
            self._index(info, kind, descriptor)

    def _index(self, info: PluginInfo, kind: Kind, descriptor: Any) -> None:
        name = getattr(descriptor, kind.key)
        owner = self._owners.setdefault((kind.hook, name), info.name)
        if name in self._found[kind.base]:
            raise PluginClash(f"{kind.title}: {name!r} is claimed by both plugin {owner!r} and plugin {info.name!r}")
        self._found[kind.base][name] = descriptor
        info.provides.append(f"{kind.title}: {name}")


def _describe(info: PluginInfo, module: Any) -> list[tuple[Kind, Any]]:
    """Return what one plugin supplies; raise at the first breach with ``info.stage`` saying where."""
    info.stage = "register"
    wanted = getattr(module, "TOCSIN_API", api.API_VERSION)
    if wanted != api.API_VERSION:
        raise Faulty(f"it needs plugin API {wanted}, this service has {api.API_VERSION}")
    manager = pluggy.PluginManager("tocsin")
    manager.add_hookspecs(hookspecs)
    manager.register(module, info.name)
    manager.check_pending()
    found: list[tuple[Kind, Any]] = []
    for kind in KINDS:
        info.stage = "hook"
        results = getattr(manager.hook, kind.hook)()
        info.stage = "describe"
        for result in results:
            found += [(kind, _checked(kind, item)) for item in _listed(kind, result)]
    return found


def _listed(kind: Kind, result: Any) -> Iterable[Any]:
    if not isinstance(result, list | tuple):
        raise Faulty(f"{kind.hook} returned {type(result).__name__}, expected a list")
    return result


def _checked(kind: Kind, item: Any) -> Any:
    if not isinstance(item, kind.base):
        raise Faulty(f"{kind.hook} returned a {type(item).__name__}, expected an instance of {kind.base.__name__}")
    name = getattr(item, kind.key)
    if not isinstance(name, str) or not name:
        raise Faulty(f"{kind.hook}: {type(item).__name__}.{kind.key} is {name!r}, expected a text that is not empty")
    return item


def load_plugins(
    disabled: Iterable[str] = (),
    found: Iterable[EntryPoint] | None = None,
    importer: Callable[[str], ModuleType] = importlib.import_module,
) -> Plugins:
    """Load every installed plugin in order of name; raise :class:`PluginClash` when two claim one name."""
    plugins = Plugins()
    left_out = frozenset(disabled)
    points = entry_points(group=GROUP) if found is None else found
    for info, point in sorted(((describe(point), point) for point in points), key=lambda pair: pair[0].name):
        if info.name in left_out:
            info.stage, info.error = "disabled", "switched off by Plugins.Disabled"
            plugins.infos.append(info)
            continue
        try:
            module = importer(point.module)
        except Exception as error:
            info.stage, info.error = "import", f"{type(error).__name__}: {error}"
            plugins.infos.append(info)
            log.error("plugin %s (%s) is left out: import: %s", info.name, info.distribution, info.error)
            continue
        plugins.add(info, module)
    return plugins


def describe(point: EntryPoint) -> PluginInfo:
    """Return who an entry point is: a plugin is called like its distribution, without the common prefix."""
    if point.dist is None:
        return PluginInfo(point.name)
    name = point.dist.name.removeprefix("tocsin-")
    siblings = [other for other in point.dist.entry_points if other.group == GROUP]
    return PluginInfo(name if len(siblings) == 1 else f"{name}.{point.name}", point.dist.name, point.dist.version)
