"""What every plugin promises, whatever its kind: the base of the contract classes."""

from __future__ import annotations

import ast
import importlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest

from tocsin.app.registry import PluginInfo, Plugins
from tocsin.plugin.testkit._imports import BareCore
from tocsin.plugin.testkit.components import HttpSink

SECRET = "s3cr3t-7h47-mu57-n07-5h0w"  # noqa: S105 - made to be looked for
SLACK = 1.0
"""Seconds that a call may take beyond its limit."""
T = TypeVar("T")


class PluginContract:
    """Subclass the contract of your kind, not this one; ``plugin`` is the module that the entry point names."""

    plugin: ClassVar[str] = ""

    def test_importing_it_loads_nothing_third_party(self, bare_core: BareCore) -> None:
        """An installation with forty plugins starts as quickly as one with three."""
        extra = bare_core.third_party_imports(self.plugin) - {self.plugin.split(".")[0], "tocsin"}
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

    def supplied(self, kind: type[T], name: str) -> T:
        """Return the descriptor of that kind and name, the only or first one when the name is empty."""
        found: dict[str, T] = self.descriptors().of(kind)
        assert found, f"{self.plugin} supplies no {kind.__name__}"
        return found[name] if name else next(iter(found.values()))

    @pytest.fixture
    def sink(self) -> Iterator[HttpSink]:
        """A backend on the loopback interface that misbehaves on demand."""
        with HttpSink() as sink:
            yield sink


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


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what ``work`` returns and fail when it took longer than ``seconds`` and some slack.

    What counts is the time that a thread could have slept meanwhile, in short naps: while the machine is busy elsewhere,
    the napping thread is kept waiting as well.
    """
    nap, naps, ended = 0.02, 0, threading.Event()

    def count() -> None:
        nonlocal naps
        while not ended.wait(nap):
            naps += 1

    counter = threading.Thread(target=count, daemon=True)
    counter.start()
    try:
        return work()
    finally:
        ended.set()
        counter.join()
        assert naps * nap < seconds + SLACK, f"took {naps * nap:.2f} s with a limit of {seconds:g} s"


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
