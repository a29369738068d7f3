"""``tocsin plugins``: what is installed and how it is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from tocsin.app.registry import load_plugins
from tocsin.plugin import Command

if TYPE_CHECKING:
    from tocsin.app.core import Core


class PluginsCommand(Command):
    """Lists installed plugins."""

    name = "plugins"
    help = "list installed plugins with version, what they supply and their health"

    def run(self, arguments: argparse.Namespace, open_core: Callable[[], Core]) -> int:
        """Print a block per plugin; the exit code tells whether all of them are healthy."""
        try:
            infos = open_core().plugins.infos
        except OSError:
            infos = load_plugins().infos
        for info in infos:
            state = "ok" if info.healthy else f"left out: {info.stage}: {info.error}"
            print(f"{info.name}  {info.distribution} {info.version}  {state}")
            for provided in info.provides:
                print(f"    {provided}")
        return 0 if all(info.healthy or info.stage == "disabled" for info in infos) else 1
