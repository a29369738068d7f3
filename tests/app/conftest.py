"""Fixtures of the tests of processes and commands."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def run() -> Callable[[list[str], Path, Path], str]:
    """Return a function that runs Python with arguments in a directory, with packages of ``site`` found first."""

    def start(arguments: list[str], directory: Path, site: Path) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        environment |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=directory, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return start
