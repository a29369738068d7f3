"""What every plugin promises, whatever its kind: the base of the contract classes."""

from __future__ import annotations

import ast
import importlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tocsin.app.registry import PluginInfo, Plugins
from tocsin.plugin.testkit.components import HttpSink

SECRET = "s3cr3t-7h47-mu57-n07-5h0w"  # noqa: S105 - made to be looked for
SLACK = 1.0
"""Seconds that a call may take beyond its limit on a busy machine."""

_LOADED = """
import sys, tocsin.app.bootstrap
from tocsin.app.capabilities import core_features
core_features()
before = set(sys.modules)
__import__(sys.argv[1])
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))
"""


class PluginContract:
    """Subclass the contract of your kind, not this one; ``plugin`` is the module that the entry point names."""

    plugin: ClassVar[str] = ""

    def test_importing_it_loads_nothing_third_party(self) -> None:
        """An installation with forty plugins starts as quickly as one with three."""
        extra = third_party_imports(self.plugin) - {self.plugin.split(".")[0], "tocsin"}
        assert not extra, f"importing {self.plugin} loads {sorted(extra)}: import them on first use"

    def test_core_is_used_through_its_public_api(self) -> None:
        """What is not in ``tocsin.plugin`` may change without notice."""
        found = list(private_imports(Path(str(importlib.import_module(self.plugin).__file__)).parent))
        assert not found, "; ".join(found)

    def test_the_service_takes_it(self) -> None:
        """Its hooks return descriptors that the service can index."""
        self.descriptors()

    def descriptors(self) -> Plugins:
        """Return what the plugin supplies, as the service sees it."""
        loaded = Plugins()
        info = PluginInfo(self.plugin)
        loaded.add(info, importlib.import_module(self.plugin))
        assert info.healthy, f"{info.stage}: {info.error}"
        return loaded

    @pytest.fixture
    def sink(self) -> Iterator[HttpSink]:
        """A backend on the loopback interface that misbehaves on demand."""
        with HttpSink() as sink:
            yield sink


def third_party_imports(module: str) -> set[str]:
    """Return the top-level packages beyond the standard library that importing a module loads, in a fresh interpreter."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _LOADED, module]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def private_imports(package: Path) -> Iterator[str]:
    """Yield every import of core in a package that is not of its public API."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                public = name == "tocsin.plugin" or name.startswith("tocsin.plugin.testkit")
                if name.split(".")[0] == "tocsin" and not public:
                    yield f"{path.name}:{getattr(node, 'lineno', 0)} imports {name}"


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns and fail when it took longer than ``seconds`` and some slack."""
    started = time.monotonic()
    try:
        return work()
    finally:
        took = time.monotonic() - started
        assert took < seconds + SLACK, f"took {took:.2f} s with a limit of {seconds:g} s"


@contextmanager
def silent_listener() -> Iterator[tuple[str, Callable[[], bool]]]:
    """Yield an address that accepts connections and never answers, and a function: has anybody connected yet?"""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def connected() -> bool:
            return bool(select.select([server], [], [], 0.05)[0])

        yield f"http://127.0.0.1:{server.getsockname()[1]}", connected


def forms_of(secret: str) -> tuple[str, ...]:
    """Return the texts in which a secret would be recognised: itself, percent-encoded, and in basic authentication."""
    import base64
    from urllib.parse import quote

    pairs = {base64.b64encode(f"{user}:{secret}".encode()).decode() for user in ("reader", "user", "")}
    return (secret, quote(secret, safe=""), *pairs)
