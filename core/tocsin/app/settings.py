"""Typed settings: one frozen dataclass per TOML section, one :func:`key` per setting.

A section class is the single authority on its keys: loading, environment overrides, ``tocsin config check``,
``etc/config.toml`` and ``docs/configuration.md`` are all derived from it.  A plugin declares its own section the same
way and names the class in its descriptor.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
OTHERS = "*"
"""Name of a key that takes all keys of its section which no other takes; whoever declares it checks them."""


class SettingsError(ValueError):
    """A setting that stops the start; the text names the key, the value and what was expected."""


@dataclass(frozen=True)
class Key:
    """What is known of one setting beside its type: its TOML name, a line of explanation, and a check."""

    name: str
    doc: str
    check: Callable[[Any], str | None] | None = None
    secret: bool = False
    shipped: Any = None


def key(
    name: str,
    default: Any,
    doc: str,
    *,
    check: Callable[[Any], str | None] | None = None,
    secret: bool = False,
    shipped: Any = None,
) -> Any:
    """Declare one setting of a section.

    ``check`` gets the converted value and returns what was expected instead, or ``None`` when the value is fine.
    ``secret`` values are never shown by ``tocsin config check`` nor logged.
    ``shipped`` is the value in the configuration file that comes with the service where that differs from the default.
    A default that is a list, a dict or a section is copied for each instance.
    """
    meta = {"key": Key(name, doc, check, secret, shipped)}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=meta)
    if isinstance(default, type):
        return field(default_factory=default, metadata=meta)
    return field(default=default, metadata=meta)


def at_least(low: float) -> Callable[[Any], str | None]:
    """Return a check that a number is not below ``low``."""
    return lambda value: None if value >= low else f"a number of at least {low}"


def between(low: float, high: float) -> Callable[[Any], str | None]:
    """Return a check that a number is neither below ``low`` nor above ``high``."""
    return lambda value: None if low <= value <= high else f"a number from {low} to {high}"


def one_of(*allowed: str) -> Callable[[Any], str | None]:
    """Return a check that a text is one of ``allowed``."""
    return lambda value: None if value in allowed else "one of " + ", ".join(repr(a) for a in allowed)


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
def section(name: str) -> Callable[[type[T]], type[T]]:
    """Make a class of :func:`key` attributes a settings section called ``[name]``."""

    def decorate(cls: type[T]) -> type[T]:
        made = dataclass(frozen=True, kw_only=True)(cls)
        made.__section__ = name  # type: ignore[attr-defined]
        return made

    return decorate


@dataclass(frozen=True)
class Entry:
    """One documented setting: where it stands, its type as text, its default and its explanation."""

    path: str
    type: str
    default: Any
    doc: str
    secret: bool
    shipped: Any


def section_name(cls: type) -> str:
    """Return the TOML name of a section class, or an empty text for a nested one without a name."""
    return str(getattr(cls, "__section__", ""))


def entries(cls: type, prefix: str | None = None) -> Iterator[Entry]:
    """Yield every setting of a section class and of the sections nested in it, in the order of declaration."""
    prefix = section_name(cls) if prefix is None else prefix
    hints = typing.get_type_hints(cls)
    nested = []
    for spec in dataclasses.fields(cls):
        meta: Key = spec.metadata["key"]
        if meta.name == OTHERS:
            continue
        kind = hints[spec.name]
        path = f"{prefix}.{meta.name}" if prefix else meta.name
        if dataclasses.is_dataclass(kind):
            nested.append((typing.cast(type, kind), path))
            continue
        default = spec.default_factory() if callable(spec.default_factory) else spec.default
        yield Entry(path, type_text(kind), default, meta.doc, meta.secret, meta.shipped)
        item = typing.get_args(kind)[0] if typing.get_origin(kind) is list else None
        if item is not None and dataclasses.is_dataclass(item):
            nested.append((typing.cast(type, item), path + "[]"))
    for kind, path in nested:
        yield from entries(kind, path)


def type_text(kind: Any) -> str:
    """Return how a type is called in messages and documentation."""
    names = {bool: "true or false", int: "integer", float: "number", str: "text"}
    if kind in names:
        return names[kind]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return "array of sections" if dataclasses.is_dataclass(args[0]) else f"array of {type_text(args[0])}"
    if origin is dict:
        return f"table of {type_text(args[1])}"
    if origin in (types.UnionType, typing.Union):
        return " or ".join(type_text(a) for a in args if a is not type(None))
    return "any value"


class Loader:
    """Turns a parsed TOML table and environment overrides into section instances, collecting unknown keys."""

    def __init__(self, document: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self.document = document
        self.environ = {k: v for k, v in environ.items() if k.startswith("TOCSIN_")}
        self.unknown: list[str] = []
        self._claimed: set[str] = set()

    def load(self, cls: type[T]) -> T:
        """Return an instance of section class ``cls``; raise :class:`SettingsError` for a wrong type or value."""
        name = section_name(cls)
        table: Any = self.document
        for part in name.split("."):
            table = folded(table).get(part.lower(), {}) if isinstance(table, Mapping) else {}
        self._claimed.add(name.lower())
        return self._section(cls, table, name)

    def leftovers(self) -> list[str]:
        """Return the names of keys and sections that no loaded section knows, in document order."""
        roots = {name.split(".")[0] for name in self._claimed}
        spare = [name for name in self.document if name.lower() not in roots]
        deeper = tuple(name for name in self._claimed if "." in name)
        return [*spare, *(u for u in self.unknown if not any((d + ".").startswith(u.lower() + ".") for d in deeper))]

    def read(self, cls: type[T], table: Any, path: str) -> T:
        """Return an instance of a section class that stands somewhere else, like an element of an array."""
        return self._section(cls, table, path)

    def _section(self, cls: type[T], table: Any, path: str) -> T:
        if not isinstance(table, Mapping):
            raise SettingsError(f"[{path}]: got {table!r}, expected a section")
        written, table = table, folded(table)
        hints = typing.get_type_hints(cls)
        values: dict[str, Any] = {}
        known = set()
        for spec in dataclasses.fields(cls):  # type: ignore[arg-type]
            meta: Key = spec.metadata["key"]
            known.add(meta.name.lower())
            where = f"{path}.{meta.name}" if path else meta.name
            present, raw = self._raw(table, meta.name, where, hints[spec.name])
            if present:
                values[spec.name] = self._checked(hints[spec.name], raw, where, meta)
        rest = [name for name in written if name.lower() not in known]
        for spec in dataclasses.fields(cls):  # type: ignore[arg-type]
            if spec.metadata["key"].name == OTHERS:
                values[spec.name], rest = {name: written[name] for name in rest}, []
        self.unknown += [f"{path}.{name}" for name in rest]
        return cls(**values)

    def _raw(self, table: Mapping[str, Any], name: str, where: str, kind: Any) -> tuple[bool, Any]:
        if dataclasses.is_dataclass(kind):
            return True, table.get(name.lower(), {})
        override = self.environ.get("TOCSIN_" + where.replace(".", "_").upper())
        if override is not None:
            return True, parse_text(kind, override, where)
        return name.lower() in table, table.get(name.lower())

    def _checked(self, kind: Any, raw: Any, where: str, meta: Key) -> Any:
        value = self._convert(kind, raw, where, meta.secret)
        expected = meta.check(value) if meta.check else None
        if expected is not None:
            raise SettingsError(f"{where}: got {shown(raw, meta.secret)}, expected {expected}")
        return value

    def _convert(self, kind: Any, raw: Any, where: str, secret: bool) -> Any:
        if dataclasses.is_dataclass(kind):
            return self._section(typing.cast(type, kind), raw, where)
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if origin is list and isinstance(raw, list):
            return [self._convert(args[0], item, f"{where}[{i}]", secret) for i, item in enumerate(raw)]
        if origin is dict and isinstance(raw, Mapping):
            return {str(k): self._convert(args[1], v, f"{where}.{k}", secret) for k, v in raw.items()}
        if kind is Any:
            return raw
        if kind is float and isinstance(raw, int) and not isinstance(raw, bool):
            return float(raw)
        if isinstance(kind, type) and isinstance(raw, kind) and not (kind is int and isinstance(raw, bool)):
            return raw
        raise SettingsError(f"{where}: got {shown(raw, secret)}, expected {type_text(kind)}")


def folded(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``table`` with lower-case names: TOML keys of this service match without regard to case."""
    return {name.lower(): value for name, value in table.items()}


def shown(raw: Any, secret: bool) -> str:
    """Return a value for a message, or stars when it is secret."""
    return "***" if secret else repr(raw)


def parse_text(kind: Any, text: str, where: str) -> Any:
    """Convert the text of an environment override to the type of its setting."""
    if kind is str:
        return text
    if kind is bool:
        if text.lower() in ("true", "1", "yes", "on"):
            return True
        if text.lower() in ("false", "0", "no", "off"):
            return False
        raise SettingsError(f"{where}: got {text!r} from the environment, expected true or false")
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise SettingsError(f"{where}: got {text!r} from the environment, expected {type_text(kind)}") from None
    if typing.get_origin(kind) is list and typing.get_args(kind)[0] is str:
        return [part.strip() for part in text.split(",") if part.strip()]
    raise SettingsError(f"{where}: {type_text(kind)} cannot be set from the environment, use the configuration file")
