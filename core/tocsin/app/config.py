"""Reading the configuration directory into :class:`Settings`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tocsin.app.sections import CORE_SECTIONS
from tocsin.app.settings import Loader, SettingsError, section_name

T = TypeVar("T")


class Settings:
    """All loaded sections, addressed by their class: ``settings[HttpSettings].port``."""

    def __init__(self, sections: Mapping[type, Any], *, unknown: Iterable[str] = (), directory: Path = Path()) -> None:
        self._sections = dict(sections)
        self.unknown = tuple(unknown)
        self.directory = directory

    def __getitem__(self, cls: type[T]) -> T:
        return self._sections[cls]  # type: ignore[no-any-return]

    def __contains__(self, cls: type) -> bool:
        return cls in self._sections

    def classes(self) -> list[type]:
        """Return the section classes that were loaded, in the order of the documentation."""
        return list(self._sections)


def read_document(directory: Path) -> dict[str, Any]:
    """Return every ``*.toml`` of ``directory`` read as one document; tables with one name are merged.

    Raises :class:`SettingsError` when the directory is missing, holds no TOML file, or a file cannot be parsed.
    """
    files = sorted(directory.glob("*.toml")) if directory.is_dir() else []
    if not files:
        raise SettingsError(f"no *.toml file in configuration directory {str(directory)!r}")
    document: dict[str, Any] = {}
    for file in files:
        try:
            merge(document, tomllib.loads(file.read_text("utf-8")), file.name)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{file.name}: {error}") from None
    return document


def merge(into: dict[str, Any], other: Mapping[str, Any], file: str, path: str = "") -> None:
    """Merge ``other`` into ``into``; a key that two files set differently is an error that names both."""
    for name, value in other.items():
        where = f"{path}.{name}" if path else name
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            merge(into[name], value, file, where)
        elif name in into:
            raise SettingsError(f"{where}: set again in {file}")
        else:
            into[name] = dict(value) if isinstance(value, Mapping) else value


def load_settings(
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    extra: Iterable[type] = (),
    *,
    directory: Path = Path(),
) -> Settings:
    """Build :class:`Settings` from a parsed document, the environment and the sections that plugins declare."""
    loader = Loader(document, environ)
    sections: dict[type, Any] = {}
    names: dict[str, type] = {}
    for cls in [*CORE_SECTIONS, *extra]:
        name = section_name(cls)
        if names.setdefault(name, cls) is not cls:
            raise SettingsError(f"[{name}] is declared by both {names[name].__module__} and {cls.__module__}")
        sections[cls] = loader.load(cls)
    return Settings(sections, unknown=loader.leftovers(), directory=directory)
