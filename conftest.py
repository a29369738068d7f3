"""What holds for every test of the repository, core's and the plugins': hypothesis profiles, order and leak guards."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import hypothesis
import pytest

from tocsin.plugin.testkit.components import running_processes

pytest_plugins = ["tocsin.plugin.testkit.components.fixtures", "pytester"]

# No deadline: on a busy machine it measures the neighbours. In CI the examples are the same in every run.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("long", deadline=None, max_examples=20_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))

T = TypeVar("T")

_SETTLE = 30.0
"""Seconds that threads and children get to end after a test; only a leaking test waits that long."""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _children() -> set[int]:
    """Return the process ids of our children, those excepted that the test kit stops at the end of the session."""
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended meanwhile
            found.update(int(pid) for pid in task.read_text().split())
    return found.difference(*(process.pids for process in running_processes()))


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.is_alive()}


def _left_over(before: set[T], now: Callable[[], set[T]]) -> set[T]:
    """Return what is new and stays; waits only as long as there is something to wait for."""
    deadline = time.monotonic() + _SETTLE
    while (left := now() - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    return f"{pid} {b' '.join(words).decode(errors='replace') or '(not waited for)'}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where processes share the tests, begin with those that take longest: they mostly wait, and none is left for the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that changes the environment or leaves a thread or a child process running.

    Set up before and checked after all other fixtures of the test's own; those of wider scope may keep theirs.
    """
    environment, threads, children = _environment(), _threads(), _children()
    yield
    problems = []
    after = _environment()
    if after != environment:
        changed = sorted(n for n in after.keys() | environment.keys() if after.get(n) != environment.get(n))
        problems.append(f"changed environment variables {changed}")
        for name in changed:
            os.environ.pop(name, None)
        os.environ.update(environment)
    if left := _left_over(threads, _threads):
        problems.append(f"left threads running: {sorted(thread.name for thread in left)}")
    if alive := _left_over(children, _children):
        problems.append(f"left child processes: {[_describe(pid) for pid in sorted(alive)]}")
    if problems:
        pytest.fail(f"{request.node.nodeid} " + "; ".join(problems), pytrace=False)
