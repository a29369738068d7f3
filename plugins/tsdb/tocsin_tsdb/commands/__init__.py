"""`tocsin tsdb import|export|verify|stats`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tocsin.plugin import Command

FORMATS = ("openmetrics", "remote-write")


class TsdbCommand(Command):
    """Looks into the embedded store's data directory, and moves samples in and out of it."""

    name = "tsdb"
    help = "the embedded store: import, export, verify, stats"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the four actions."""
        parser.add_argument(
            "--dir", type=Path, help="data directory (default: [EmbeddedTSDB] Dir of the configuration)"
        )
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        taking = actions.add_parser("import", help="bring in samples of any age; the service must be stopped")
        taking.add_argument("file", help="file to read; - is standard input")
        taking.add_argument("--format", choices=FORMATS, default=FORMATS[0])
        giving = actions.add_parser("export", help="write samples out; the service must be stopped")
        giving.add_argument("-o", "--output", default="-", help="file to write; - is standard output")
        giving.add_argument("--format", choices=FORMATS, default=FORMATS[0])
        giving.add_argument(
            "--match", action="append", default=[], help="series selector, repeatable; default: all series"
        )
        giving.add_argument("--start", default="", help="unix seconds or RFC 3339")
        giving.add_argument("--end", default="", help="unix seconds or RFC 3339")
        actions.add_parser("verify", help="check every block and log segment; the service may run")
        actions.add_parser("stats", help="show blocks, sizes and cardinalities; the service may run")

    def run(self, arguments: argparse.Namespace, open_core: Callable[[], Any]) -> int:
        """Run one action: 0 is success, 1 a failure that was explained on standard error."""
        from tocsin_tsdb.commands import inspect, transfer
        from tocsin_tsdb.storage.errors import StoreError

        directory = arguments.dir or _configured_directory(open_core)
        try:
            match arguments.action:
                case "import":
                    return transfer.run_import(directory, arguments.file, arguments.format)
                case "export":
                    return transfer.run_export(directory, arguments)
                case "verify":
                    return inspect.verify(directory)
                case _:
                    return inspect.stats(directory)
        except (StoreError, OSError, ValueError) as error:
            print(f"tocsin tsdb {arguments.action}: {error}", file=sys.stderr)
            return 1


def _configured_directory(open_core: Callable[[], Any]) -> Path:
    from tocsin_tsdb.settings import EmbeddedTsdbSettings

    section: EmbeddedTsdbSettings = open_core().settings[EmbeddedTsdbSettings]
    return Path(section.directory)
