"""What happens to a test whose program is not installed."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

IN_CI = bool(os.environ.get("CI"))
"""Read once: a missing program fails a test where the environment is ours to prepare, and skips it elsewhere."""


def missing(reason: str) -> NoReturn:
    """Skip the test, or fail it when the environment variable CI is set."""
    if IN_CI:
        pytest.fail(f"{reason} (CI is set, so this must not be skipped)", pytrace=False)
    pytest.skip(reason)


def require_program(name: str, package: str, *folders: str) -> Path:
    """Return the path of a program from PATH, /usr/sbin or one of `folders` (newest first when globs match).

    Without it the test ends with `missing`, naming the Debian package.
    """
    if found := shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin"):
        return Path(found)
    for folder in folders:
        if matches := sorted(Path("/").glob(f"{folder.lstrip('/')}/{name}"), reverse=True):
            return matches[0]
    missing(f"program {name!r} is not installed (Debian package {package})")


def require_package(name: str) -> None:
    """End the test with `missing` when a Python package, an optional dependency of core, is not installed."""
    if importlib.util.find_spec(name) is None:
        missing(f"Python package {name!r} is not installed")
