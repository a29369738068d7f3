"""The contract of features, commands and sidecars: subclass the one of your kind in your plugin's tests."""

from __future__ import annotations

import argparse
import importlib
import threading
from typing import Any, ClassVar

import pytest

from tocsin.app.bootstrap import PROCESSES, prepare, route_table
from tocsin.app.core import Core
from tocsin.app.settings import entries, section_name
from tocsin.http.access import Need
from tocsin.plugin import Command, Feature, Sidecar
from tocsin.plugin.testkit._app import AppFactory, TestApp
from tocsin.plugin.testkit.components import PATIENCE
from tocsin.plugin.testkit.contract import PluginContract


class FeatureContract(PluginContract):
    """What a feature promises: rows, tables and background work that fit the frame."""

    feature_name: ClassVar[str] = ""
    """Which feature to test when the plugin supplies several."""
    settings: ClassVar[dict[str, Any]] = {}
    """The configuration to test with, when the feature needs one to be active."""
    open_routes: ClassVar[frozenset[str]] = frozenset()
    """Paths that are meant to be open to anybody; every other row must ask for somebody."""

    @property
    def feature(self) -> Feature:
        """The feature under test."""
        return self.supplied(Feature, self.feature_name)

    def app(self, make_app: AppFactory, **options: Any) -> TestApp:
        """Return an application with this plugin."""
        return make_app(plugins=[importlib.import_module(self.plugin)], settings=self.settings, **options)

    def test_it_runs_where_processes_are(self) -> None:
        """Only the four process kinds exist."""
        assert self.feature.processes, "the feature runs nowhere"
        assert self.feature.processes <= set(PROCESSES), f"unknown process: {self.feature.processes - set(PROCESSES)}"

    def test_migrations_are_numbered_from_one(self) -> None:
        """Numbers have no gaps, so that nobody wonders what is missing."""
        numbers = sorted(step.number for step in self.feature.migrations)
        assert numbers == list(range(1, len(numbers) + 1)), f"migrations are numbered {numbers}"
        assert bool(self.feature.tables) <= bool(numbers), "there are tables but no migration that creates them"

    def test_migrated_tables_are_what_the_models_say(self, make_app: AppFactory) -> None:
        """Every column of every model is there after the migrations."""
        core = self.app(make_app).core
        for table in self.feature.tables:
            name = table._meta.table_name
            there = {column.name for column in core.db.peewee.get_columns(name)}
            wanted = {field.column_name for field in table._meta.sorted_fields}
            assert there == wanted, f"{name}: migrated {sorted(there)}, the model has {sorted(wanted)}"

    def test_seeding_twice_is_seeding_once(self, make_app: AppFactory) -> None:
        """Every start seeds."""
        core = self.app(make_app).core
        before = _rows(core, self.feature)
        prepare(core)
        assert _rows(core, self.feature) == before

    def test_every_route_says_who_may_call(self, make_app: AppFactory) -> None:
        """Anonymous is a word one has to write, and to repeat in the tests."""
        for route in route_table(self.app(make_app).core):
            if route.feature == self.feature.name and (Need.ANONYMOUS, "") in route.access.needs:
                assert route.path in self.open_routes, f"{route.method} {route.path} is open to anybody"

    def test_settings_are_explained(self) -> None:
        """Each key has a line for the reference."""
        for cls in self.feature.settings:
            assert section_name(cls), f"{cls.__name__} has no section name"
            assert all(entry.doc.strip() for entry in entries(cls)), f"a key of {section_name(cls)} is not explained"

    def test_jobs_say_when(self) -> None:
        """A job runs every so many seconds or by a cron expression, not both."""
        for job in self.feature.jobs:
            assert (job.every > 0) != bool(job.cron), f"job {job.name}: every={job.every}, cron={job.cron!r}"

    @pytest.mark.parametrize("role", ["http", "engine"])
    def test_it_starts_and_stops(self, make_app: AppFactory, role: str) -> None:
        """Nothing is left running."""
        before = set(threading.enumerate())
        app = self.app(make_app, start=role)
        assert self.feature.name in {feature.name for feature in app.core.features}, app.core.plugins.infos
        make_app.close()
        left = [thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()]
        assert not left, f"threads left running: {left}"


def _rows(core: Core, feature: Feature) -> dict[str, int]:
    return {table._meta.table_name: table.select().count() for table in feature.tables}


class CommandContract(PluginContract):
    """What a subcommand promises."""

    command_name: ClassVar[str] = ""

    @property
    def command(self) -> Command:
        """The command under test."""
        return self.supplied(Command, self.command_name)

    def test_it_is_explained(self) -> None:
        """``tocsin --help`` lists it with a line."""
        assert self.command.help.strip(), f"{self.command.name} has no help"

    def test_its_arguments_fit_the_command_line(self) -> None:
        """``-c`` is taken by the configuration directory, and help can be printed."""
        parser = argparse.ArgumentParser(prog=self.command.name)
        parser.add_argument("-c", "--configs")
        self.command.configure(parser)
        assert parser.format_help()


class SidecarContract(PluginContract):
    """What a sidecar promises: it says when it serves, and ends when it is told to."""

    sidecar_name: ClassVar[str] = ""
    settings: ClassVar[dict[str, Any]] = {}

    @property
    def sidecar(self) -> Sidecar:
        """The sidecar under test."""
        return self.supplied(Sidecar, self.sidecar_name)

    def app(self, make_app: AppFactory, **options: Any) -> TestApp:
        """Return an application with this plugin."""
        return make_app(plugins=[importlib.import_module(self.plugin)], settings=self.settings, **options)

    def test_it_serves_until_told_to_stop(self, make_app: AppFactory) -> None:
        """``ready`` is called, nothing returns early, ``stopping`` ends it."""
        core = self.app(make_app).core
        sidecar = core.plugins.of(Sidecar)[self.sidecar.name]
        assert sidecar.enabled(core), "the sidecar is not enabled by the settings of this test"
        stopping, ready, failures = threading.Event(), threading.Event(), list[BaseException]()

        def run() -> None:
            try:
                sidecar.run(core, stopping, ready.set)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert ready.wait(PATIENCE), f"not ready after {PATIENCE} s: {failures}"
            thread.join(0.1)
            assert thread.is_alive(), f"it ended by itself: {failures}"
        finally:
            stopping.set()
            thread.join(PATIENCE)
        assert not thread.is_alive(), f"it still runs {PATIENCE} s after it was told to stop"
        assert not failures, failures
