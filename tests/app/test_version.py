"""``tocsin --version``: what runs here."""

import os
import subprocess
import sys

import pytest

from tocsin import __version__
from tocsin.plugin.testkit.components import PATIENCE


@pytest.mark.parametrize(("pure", "twin"), [("1", "plain Python"), ("0", "compiled|plain Python")])
def test_the_version_tells_how_the_wire_format_is_read(pure: str, twin: str) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tocsin", "--version"],
        env={**os.environ, "TOCSIN_PURE": pure},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout
    assert told in {f"tocsin {__version__} (wire format: {name})\n" for name in twin.split("|")}
