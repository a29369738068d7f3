"""Optional capabilities, scheduled jobs, commands and sidecars."""

from __future__ import annotations

import argparse
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tocsin.app.core import Core
    from tocsin.http.routes import Handler, Route
    from tocsin.store.database import Table
    from tocsin.store.migrations import Migration

CENTER = frozenset(("center",))
EVERY_PROCESS = frozenset(("center", "edge", "alert", "pushgw"))


@dataclass(frozen=True)
class Job:
    """Background work of a feature, run in the engine of the process kinds in ``processes``.

    ``run`` is called every ``every`` seconds, or at the times of the five-field ``cron`` expression (local time); runs of
    one job never overlap.  An exception is logged and counted, the next run comes at its time.
    """

    name: str
    run: Callable[[Core], None]
    every: float = 0.0
    cron: str = ""
    processes: frozenset[str] = CENTER


class Feature:
    """A capability: route rows, tables with migrations, settings sections, background work.

    Core's own capabilities are features too.  Subclass it, or make an instance and set the attributes.
    """

    name: ClassVar[str] = ""
    processes: ClassVar[frozenset[str]] = CENTER
    """The process kinds in which the feature is active: ``center``, ``edge``, ``alert``, ``pushgw``."""
    settings: ClassVar[tuple[type, ...]] = ()
    """Settings sections; loaded in every process, active or not, so that ``tocsin config check`` knows their keys."""
    tables: ClassVar[tuple[type[Table], ...]] = ()
    migrations: ClassVar[tuple[Migration, ...]] = ()
    jobs: ClassVar[tuple[Job, ...]] = ()

    def routes(self, core: Core) -> Iterable[Route]:
        """Return the rows this feature adds to the route table."""
        return ()

    def fallback(self, core: Core) -> Handler | None:
        """Return the handler of paths that no row matches, for the one feature that serves the user interface."""
        return None

    def setup(self, core: Core) -> None:
        """Prepare services (``core.provide``) once tables are bound; no threads, no network, no queries yet."""

    def seed(self, core: Core) -> None:
        """Write the rows an installation starts with; runs in the center after the migrations, must be idempotent."""

    def join(self, core: Core) -> None:
        """Check that a process beside the center can work with the center's rows; runs there in place of :meth:`seed`."""

    def greeting(self, core: Core) -> Sequence[str]:
        """Return lines to print once on the console when the service starts."""
        return ()

    def start(self, core: Core, role: str) -> None:
        """Start threads in a process that serves HTTP (``role`` is ``http``) or runs the engine (``engine``)."""

    def stop(self, core: Core, role: str) -> None:
        """Stop what :meth:`start` started, losing nothing that was accepted."""


class Command(ABC):
    """A subcommand of ``tocsin``."""

    name: ClassVar[str] = ""
    help: ClassVar[str] = ""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments; ``-c DIR``, the configuration directory, is already there."""

    @abstractmethod
    def run(self, arguments: argparse.Namespace, open_core: Callable[[], Core]) -> int:
        """Do the work and return the exit code; ``open_core`` gives settings, database and services on demand."""


class Sidecar(ABC):
    """A process of its own that the launcher starts before the HTTP workers, watches and restarts.

    The launcher forks: nothing heavy may be imported before :meth:`run`.
    """

    name: ClassVar[str] = ""
    settings: ClassVar[tuple[type, ...]] = ()

    def enabled(self, core: Core) -> bool:
        """Return whether this installation wants the process; asked in the launcher of a center."""
        return True

    @abstractmethod
    def run(self, core: Core, stopping: threading.Event, ready: Callable[[], None]) -> None:
        """Work until ``stopping`` is set (the launcher sets it on SIGTERM); call ``ready`` once it serves.

        Returning early or raising is a crash: the launcher restarts the process with back-off.
        """
