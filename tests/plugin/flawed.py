"""Plugins that break one clause of their kind's contract each: how such a case is written down and tried."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tocsin.plugin.testkit.backend import BackendContract
from tocsin.plugin.testkit.components import HttpSink


@dataclass(frozen=True)
class Case:
    """A clause, the name of a package or a type that breaks it, a part of the complaint, the clause's parameter."""

    clause: str
    flawed: Callable[[], Any] | str
    complaint: str
    argument: Any = None


def doze() -> None:
    """Take longer than the limit and its slack: in naps, as the contract measures time, for machines that are busy."""
    for _ in range(110):
        time.sleep(0.02)


def expect_complaint(contract: type[BackendContract], case: Case, **fixtures: Any) -> None:
    """Try the clause of a case on a contract that is kept but for the case's flaw."""
    flaw = {"plugin": case.flawed} if isinstance(case.flawed, str) else {"kind": case.flawed()}
    broken = type("Broken", (contract,), {**flaw, "patience": 3.0})()
    clause = getattr(broken, case.clause)
    with HttpSink() as sink:
        given = {"sink": sink, **fixtures}
        wanted = {name: given.get(name, case.argument) for name in inspect.signature(clause).parameters}
        with pytest.raises((Exception, pytest.fail.Exception), match="(?s)" + case.complaint):
            clause(**wanted)


def clauses(contract: type[BackendContract]) -> set[str]:
    """Return the names of a contract's tests."""
    return {name for name in dir(contract) if name.startswith("test_")}
