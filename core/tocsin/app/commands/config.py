"""``tocsin config``: check a configuration, or write the reference and the sample file from the settings themselves."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tocsin.app.settings import entries, section_name
from tocsin.plugin import Command

if TYPE_CHECKING:
    from tocsin.app.core import Core


INTRODUCTION = """# Configuration

Every `*.toml` file of the directory given by `-c` is read; together they are one document. Keys match without regard to
case. A key nobody knows is named in a warning, a value that cannot work stops the start with the key, the value and what
was expected. `tocsin config check -c DIR` says both without starting anything.

The environment overrides files: `TOCSIN_<SECTION>_<KEY>`, nested sections joined with underscores, all upper case, for
example `TOCSIN_HTTP_PORT=18000` or `TOCSIN_HTTP_APIFORSERVICE_ENABLE=true`. Lists of texts are separated by commas.

This page is written by `tocsin config reference` from the settings themselves.
"""
"""What precedes the tables of the settings reference."""


class ConfigCommand(Command):
    """Checks the configuration directory and documents every setting."""

    name = "config"
    help = "check the configuration, or print every setting"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the action."""
        parser.add_argument(
            "action",
            choices=("check", "sample", "reference"),
            help="check: validate and name unknown keys; sample: a TOML file with every default; reference: Markdown",
        )

    def run(self, arguments: argparse.Namespace, open_core: Callable[[], Core]) -> int:
        """Do the action; a check fails when a key is unknown."""
        if arguments.action == "check":
            return self._check(open_core())
        lines = (
            sample(known_sections()) if arguments.action == "sample" else [INTRODUCTION, *reference(known_sections())]
        )
        print("\n".join(lines).rstrip())
        return 0

    def _check(self, core: Core) -> int:
        for name in core.settings.unknown:
            print(f"unknown key: {name}")
        for info in core.plugins.infos:
            if not info.healthy and info.stage != "disabled":
                print(f"plugin {info.name} is left out: {info.stage}: {info.error}")
        if core.settings.unknown:
            return 1
        print(f"{core.settings.directory}: ok")
        return 0


def known_sections() -> list[type]:
    """Return the sections of core and of the installed plugins."""
    from tocsin.app.bootstrap import declared_sections
    from tocsin.app.capabilities import core_features
    from tocsin.app.registry import load_plugins
    from tocsin.app.sections import CORE_SECTIONS
    from tocsin.plugin import Feature

    plugins = load_plugins()
    features = (*core_features(), *plugins.of(Feature).values())
    return [*CORE_SECTIONS, *declared_sections(features, plugins)]


def reference(sections: list[type]) -> Iterator[str]:
    """Yield the lines of the settings reference."""
    for cls in sections:
        yield from (f"## [{section_name(cls)}]", "", (cls.__doc__ or "").strip().splitlines()[0], "")
        yield from ("| Key | Type | Default | Meaning |", "| --- | --- | --- | --- |")
        for entry in entries(cls):
            shown = "" if entry.default in ("", [], {}) else f"`{toml(entry.default)}`"
            yield f"| `{entry.path}` | {entry.type} | {shown} | {entry.doc} |"
        yield ""


def sample(sections: list[type]) -> Iterator[str]:
    """Yield the lines of the shipped configuration file: every key with its explanation, defaults commented out."""
    yield "# Configuration of Tocsin; lines that begin with a number sign show defaults."
    yield "# `tocsin config reference` explains every key, `tocsin config check` validates these files."
    for cls in sections:
        table = None
        for entry in entries(cls):
            if "[]" in entry.path:
                continue
            parent, _, name = entry.path.rpartition(".")
            if parent != table:
                yield from ("", f"[{parent}]")
                table = parent
            yield f"# {entry.doc}"
            yield f"# {name} = {toml(entry.default)}" if entry.shipped is None else f"{name} = {toml(entry.shipped)}"
        yield ""


def toml(value: Any) -> str:
    """Return a default as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    return str(value)
