"""``tocsin routes``: print the route table."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from tocsin.app.bootstrap import route_table
from tocsin.plugin import Command

if TYPE_CHECKING:
    from tocsin.app.core import Core


class RoutesCommand(Command):
    """Prints method, path, who may call, and the feature of every route of the center."""

    name = "routes"
    help = "print every route with who may call it"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the filter."""
        parser.add_argument("contains", nargs="?", default="", help="only paths that contain this text")

    def run(self, arguments: argparse.Namespace, open_core: Callable[[], Core]) -> int:
        """Print the table."""
        rows = [
            (route.method, route.full_path, str(route.access), route.feature)
            for route in route_table(open_core())
            if arguments.contains in route.full_path
        ]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        return 0
