"""Fixtures for every test of a plugin, loaded by pytest on its own where Tocsin is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.plugin.testkit._app import AppFactory

pytest_plugins = (
    "tocsin.plugin.testkit.components.fixtures",
    "tocsin.plugin.testkit.deployment",
    "tocsin.plugin.testkit.arrivals",
)


@pytest.fixture
def make_app(tmp_path: Path) -> Iterator[AppFactory]:
    """Return a factory of running applications: ``make_app(plugins=[module], settings={...})``.

    Only the plugins given are loaded, whatever is installed.  Everything is closed when the test ends.
    """
    factory = AppFactory(tmp_path)
    yield factory
    factory.close()
