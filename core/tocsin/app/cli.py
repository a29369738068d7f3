"""The command ``tocsin``: process kinds, built-in subcommands, and those that plugins bring."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
import time
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
METRICS_PREFIX = "tocsin-metrics-"
FRESH_SECONDS = 60.0
"""Age below which a metrics directory may be that of a service which has not locked it yet."""


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
    parent = memory if memory.is_dir() else Path(tempfile.gettempdir())
    remove_abandoned(parent)
    directory = tempfile.mkdtemp(prefix=METRICS_PREFIX, dir=parent)
    # Held by every process of the service, since each is a fork of this one, and so until the last of them has ended.
    fcntl.flock(os.open(directory, os.O_RDONLY), fcntl.LOCK_SH)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory


def remove_abandoned(parent: Path) -> None:
    """Delete what services left that were killed before they could: it is memory that nobody would give back."""
    for directory in parent.glob(f"{METRICS_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else's, or in use
            lock = os.open(directory, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(lock).st_mtime > FRESH_SECONDS:
                    shutil.rmtree(directory)
            finally:
                os.close(lock)


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

        twin = "plain Python" if vars(wire)["__name__"].endswith("_py") else "compiled"
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
