"""A whole application in the test's own process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher

from tocsin.access.passwords import Passwords
from tocsin.app.bootstrap import make_application, make_core, prepare
from tocsin.app.core import Core
from tocsin.app.registry import PluginInfo, Plugins
from tocsin.http.client import Answer, WsgiClient
from tocsin.plugin.testkit._installations import Clock, Installations

ROOT_PASSWORD = "a root password for tests"  # noqa: S105 - of throw-away databases
_QUICK_HASHER = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
"""What a hash costs protects passwords that are worth something."""


@dataclass
class TestApp:
    """A core, its application and clients of it."""

    __test__ = False

    core: Core
    client: WsgiClient
    _logged_in: dict[str, WsgiClient] = field(default_factory=dict)

    @property
    def root(self) -> WsgiClient:
        """A client logged in as the first administrator."""
        return self.login("root", ROOT_PASSWORD)

    def login(self, username: str, password: str) -> WsgiClient:
        """Return a client that is logged in; raise :class:`AssertionError` with the answer when that fails."""
        if username not in self._logged_in:
            answer = self.client.post("/api/svc/auth/login", {"username": username, "password": password})
            token = dat(answer)["access_token"]
            self._logged_in[username] = self.client.with_headers(Authorization=f"Bearer {token}")
        return self._logged_in[username]


def dat(answer: Answer) -> Any:
    """Return ``dat`` of a successful envelope; raise :class:`AssertionError` with the text of a failed one."""
    body = answer.json()
    assert answer.status == 200, answer
    assert body["err"] == "", body["err"]
    return body.get("dat")


def err(answer: Answer) -> str:
    """Return the text of a failed envelope; raise :class:`AssertionError` for a success."""
    body = answer.json()
    assert answer.status == 200, answer
    assert body["err"], body
    assert body["request_id"], body
    return str(body["err"])


class AppFactory:
    """Makes applications whose files live below one temporary directory.

    With ``installations`` an application starts on a copy of what such an application left when it was set up before;
    without, it is set up from nothing.
    """

    def __init__(self, directory: Path, installations: Installations | None = None) -> None:
        self._directory = directory
        self._installations = installations
        self._cores: list[tuple[Core, str]] = []

    def __call__(
        self,
        *,
        plugins: Iterable[Any] = (),
        settings: Mapping[str, Any] | None = None,
        process: str = "center",
        start: str = "",
        clock: Clock = time.time,
    ) -> TestApp:
        """Return an application with exactly these plugin modules.

        ``start`` starts background work for that role (``http`` or ``engine``), stopped when the test ends.
        A second application shares database and cache with the first, like another process would.
        Passwords are hashed as strongly as it takes to try the code, which is not at all.
        """
        loaded = Plugins()
        for module in plugins:
            loaded.add(PluginInfo(getattr(module, "__name__", repr(module))), module)
        for info in loaded.infos:
            assert info.healthy, f"{info.name}: {info.stage}: {info.error}"
        data, given = self._directory / "data", settings or {}
        if self._installations:
            self._installations.lay(data, process, given, clock, _set_up)
        core = _prepared(process, {"Data": {"Dir": str(data)}, **given}, loaded, clock)
        application = make_application(core)
        self._cores.append((core, start))
        if start:
            core.start(start)
        return TestApp(core, WsgiClient(application))

    def close(self) -> None:
        """Stop and close everything this factory made."""
        for core, role in reversed(self._cores):
            if role:
                core.stop(role)
            core.close()
        self._cores.clear()


def _prepared(process: str, document: Mapping[str, Any], plugins: Plugins, clock: Clock) -> Core:
    core = make_core(process, document, environ={"TOCSIN_ROOT_PASSWORD": ROOT_PASSWORD}, plugins=plugins, clock=clock)
    if core.has(Passwords):
        core.get(Passwords).hasher = _QUICK_HASHER
    prepare(core)
    return core


def _set_up(process: str, document: Mapping[str, Any], clock: Clock) -> None:
    _prepared(process, document, Plugins(), clock).close()
