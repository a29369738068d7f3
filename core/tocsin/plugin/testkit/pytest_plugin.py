"""Fixtures for every test of a plugin, loaded by pytest on its own where Tocsin is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.plugin.testkit import _imports
from tocsin.plugin.testkit._app import AppFactory
from tocsin.plugin.testkit._installations import Installations

pytest_plugins = (
    "tocsin.plugin.testkit.components.fixtures",
    "tocsin.plugin.testkit.deployment",
    "tocsin.plugin.testkit.arrivals",
)


@pytest.fixture(scope="session")
def bare_core() -> Iterator[_imports.BareCore]:
    """Return an interpreter with core alone, which tells what importing a module loads."""
    with _imports.bare_core() as found:
        yield found


@pytest.fixture(scope="session")
def _installations() -> Installations:
    return Installations()


@pytest.fixture
def make_app(tmp_path: Path, _installations: Installations) -> Iterator[AppFactory]:
    """Return a factory of running applications: ``make_app(plugins=[module], settings={...})``.

    Only the plugins given are loaded, whatever is installed.  The first start of an installation is done once and
    copied; plugins find core's tables and first rows there and add theirs.  Everything is closed when the test ends.
    """
    factory = AppFactory(tmp_path, _installations)
    yield factory
    factory.close()
