"""Hand-computed expectations, see `script.py` for their notation."""

from __future__ import annotations

from pathlib import Path

import pytest

from .script import Check, read_checks, run

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
CHECKS = [check for path in SCRIPTS for check in read_checks(path)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_script(check: Check) -> None:
    run(check)
