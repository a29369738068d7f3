"""``tocsin plugin new``: write a plugin to start from."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.app.commands.skeleton import KINDS, write_skeleton
from tocsin.plugin import Command

if TYPE_CHECKING:
    from tocsin.app.core import Core


class PluginCommand(Command):
    """Writes a new plugin."""

    name = "plugin"
    help = "write a complete new plugin distribution: tocsin plugin new KIND NAME"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add kind, name and folder."""
        parser.add_argument("action", choices=("new",))
        parser.add_argument("kind", choices=KINDS)
        parser.add_argument("plugin", metavar="NAME", help="lower-case letters, digits and single hyphens")
        parser.add_argument("--into", type=Path, default=Path(), help="folder in which the distribution is written")

    def run(self, arguments: argparse.Namespace, open_core: Callable[[], Core]) -> int:
        """Write the distribution and say how to try it."""
        try:
            folder = write_skeleton(arguments.kind, arguments.plugin, arguments.into)
        except ValueError as error:
            print(f"tocsin plugin new: {error}")
            return 2
        print(f"{folder}: written; try it with\n  pip install -e {folder}\n  pytest {folder}")
        return 0
