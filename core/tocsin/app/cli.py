"""The command ``tocsin``: process kinds, built-in subcommands, and those that plugins bring."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROCESS_KINDS = {
    "center": "everything: page API, ingest, rule evaluation, notifications",
    "edge": "ingest and rule evaluation near the monitored systems, configured by a center",
    "alert": "rule evaluation and notifications only",
    "pushgw": "ingest only",
}
WORKING_KINDS = ("center", "alert", "pushgw")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 success, 1 failure, 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    share_metrics(arguments)
    from tocsin.app.registry import PluginClash
    from tocsin.app.settings import SettingsError

    try:
        return _run(arguments)
    except (SettingsError, PluginClash, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def share_metrics(arguments: Sequence[str]) -> None:
    """Make all processes of a service add their metrics up; must happen before the metrics library is imported."""
    if not arguments or arguments[0] not in WORKING_KINDS or "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        return
    memory = Path("/dev/shm")  # noqa: S108 - the directory inside it is made private and random
    directory = tempfile.mkdtemp(prefix="tocsin-metrics-", dir=memory if memory.is_dir() else None)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory


def _run(argv: list[str]) -> int:
    from tocsin.app.commands import builtin_commands
    from tocsin.app.registry import load_plugins
    from tocsin.plugin import Command

    parser = argparse.ArgumentParser(prog="tocsin", description="Monitoring and alerting service.")
    parser.add_argument("--version", action=_Version, help="show the version and how the wire format is read")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for kind, text in PROCESS_KINDS.items():
        _with_directory(commands.add_parser(kind, help=text, description=text.capitalize() + "."))
    installed: dict[str, Command] = {command.name: command for command in builtin_commands()}
    if argv and argv[0] not in PROCESS_KINDS and argv[0] not in installed:
        installed |= load_plugins().of(Command)
    for command in installed.values():
        sub = commands.add_parser(command.name, help=command.help, description=command.help)
        command.configure(_with_directory(sub))
    options = parser.parse_args(argv)
    if options.command in PROCESS_KINDS:
        return run_process(options.command, options.configs)
    return run_command(installed[options.command], options)


class _Version(argparse.Action):
    """Prints the version, and which twin of the wire functions ingest runs: the compiled one is many times as fast."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from tocsin import __version__
        from tocsin.ingest.wire import wire

        twin = "plain Python" if wire.__name__.endswith("_py") else "compiled"
        print(f"tocsin {__version__} (wire format: {twin})")
        parser.exit()


def _with_directory(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    default = Path(os.environ.get("TOCSIN_CONFIG", "etc"))
    parser.add_argument("-c", "--configs", type=Path, default=default, metavar="DIR", help="configuration directory")
    return parser


def run_process(kind: str, directory: Path) -> int:
    """Run a process kind until it is told to stop."""
    if kind not in WORKING_KINDS:
        print(
            f"tocsin: the {kind} process is not available yet: reading configuration from a center ([CenterApi]) is missing",
            file=sys.stderr,
        )
        return 1
    from tocsin.app.launcher import launch

    owner = os.getpid()
    try:
        return launch(kind, directory)
    finally:
        if os.getpid() == owner:
            shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)


def run_command(command: object, options: argparse.Namespace) -> int:
    """Run a subcommand with a core that is opened when it asks for one."""
    from tocsin.app.bootstrap import open_core
    from tocsin.app.core import Core
    from tocsin.plugin import Command

    assert isinstance(command, Command)
    opened: list[Core] = []

    def open_once() -> Core:
        if not opened:
            opened.append(open_core("center", options.configs))
        return opened[0]

    try:
        return command.run(options, open_once)
    finally:
        for core in opened:
            core.close()
