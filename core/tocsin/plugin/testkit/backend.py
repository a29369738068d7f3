"""The base of three contracts: plugins that speak HTTP, tried against a backend that misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import pytest

from tocsin.plugin.testkit.components import PATIENCE, Answer, HttpSink, Request, free_port, wait_until
from tocsin.plugin.testkit.components.sink import Behaviour
from tocsin.plugin.testkit.contract import SECRET, PluginContract, forms_of

LIMIT = 0.4
"""Seconds that a call may take while the backend misbehaves: each silence of a backend costs its test as many."""


class BackendContract(PluginContract):
    """Subclass the contract of your kind, not this one."""

    faults: ClassVar[Mapping[str, Behaviour | None]] = {}
    """What the backend does wrong, by name, ``None`` for nobody there; leave out what makes no sense for the protocol."""
    echoes: ClassVar[Mapping[str, int]] = {}
    """The statuses with which a backend repeats what it was sent, by the name of that fault."""
    limit: float = LIMIT
    """Seconds that a call may take, which is for configurations to say; ``patience`` where the backend answers."""
    patience: float = PATIENCE
    """Seconds in which what must happen has happened."""

    def broken(self, sink: HttpSink, fault: str) -> str:
        """Return the address of a backend with a fault; skip the test when the type has no such fault."""
        if fault in self.echoes:
            self.limit = self.patience
            sink.default = lambda request: Answer(self.echoes[fault], everything(request).encode())
            return sink.url
        if fault not in self.faults:
            pytest.skip("no fault of this protocol")
        behaviour = self.faults[fault]
        if behaviour is None:
            return f"http://127.0.0.1:{free_port()}"
        sink.default = behaviour
        return sink.url

    def at_once(self, works: Iterable[Callable[[], object]]) -> None:
        """Run each piece of work in a thread of its own; fail with what any of them raised."""
        failures: list[Exception] = []

        def run(work: Callable[[], object]) -> None:
            try:
                work()
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.patience)
        assert not failures, failures
        assert not any(thread.is_alive() for thread in threads), "a thread does not come to an end"

    def no_connection_is_left(self, sink: HttpSink) -> None:
        """Wait until the backend has no connection any more."""
        wait_until(lambda: not sink.connections, timeout=self.patience, what="the end of all connections")


def everything(request: Request) -> str:
    """Return all that a request says, as text."""
    return f"{request.path} {dict(request.query)} {dict(request.headers)} {request.body.decode('utf-8', 'replace')}"


def reveals_nothing(text: str) -> None:
    """Fail when the secret is in a text, in whatever form."""
    assert not [form for form in forms_of(SECRET) if form in text], f"a secret in: {text}"
