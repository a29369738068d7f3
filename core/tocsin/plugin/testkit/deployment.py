"""A whole deployment started from the outside: the command ``tocsin center`` with real processes and a real port."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tocsin.plugin.testkit._app import ROOT_PASSWORD
from tocsin.plugin.testkit.components import PATIENCE, Process, free_port, wait_until

DRAIN_SECONDS = 30
"""What a deployment's processes get to finish their work when they are stopped."""


class Deployment:
    """One running installation and an HTTP client of it.

    One that runs ``beside`` another, as an alert process does beside a center, shares its data directory: database,
    cache and key.  ``drain`` is what its processes get to finish their work when it is stopped, in seconds.
    """

    def __init__(
        self,
        directory: Path,
        settings: str = "",
        *,
        process: str = "center",
        beside: Deployment | None = None,
        drain: int = DRAIN_SECONDS,
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.directory = directory
        self._token = ""
        configs = directory / "etc"
        configs.mkdir(parents=True)
        head = f'[HTTP]\nHost = "127.0.0.1"\nPort = {self.port}\nWorkers = 2\nShutdownTimeout = {drain}\n'
        self.data_directory: Path = beside.data_directory if beside else directory / "data"
        (configs / "config.toml").write_text(f'[Data]\nDir = "{self.data_directory}"\n{head}{settings}')
        environment = {"TOCSIN_ROOT_PASSWORD": ROOT_PASSWORD, "PYTHONUNBUFFERED": "1"}
        argv = [sys.executable, "-m", "tocsin", process, "-c", str(configs)]
        self.process = Process(f"tocsin-{process}", argv, directory=directory, environment=environment)
        self._http = urllib3.PoolManager(retries=False, timeout=PATIENCE)

    def start(self) -> Deployment:
        """Start the service and wait until it answers."""
        self.process.start()
        self.process.wait_ready(lambda: self.serves(), timeout=2 * PATIENCE)
        return self

    def serves(self) -> bool:
        """Return whether ``/ping`` answers now."""
        try:
            return self._http.request("GET", self.url + "/ping", timeout=10.0).data == b"pong"
        except urllib3.exceptions.HTTPError:
            return False

    def stop(self) -> int | None:
        """Stop the service as an operator would and return its exit code.

        Connections of this client are closed before: a worker that stops gives those that are kept another two seconds.
        """
        self._hang_up()
        try:
            return self.process.stop(grace=PATIENCE)
        finally:
            self._hang_up()

    def _hang_up(self) -> None:
        pools = [self._http.pools[key] for key in self._http.pools.keys()]  # noqa: SIM118 - it cannot be iterated
        self._http.clear()
        for pool in pools:
            pool.close()

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the urllib3 response; a dict or list goes as JSON."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        return self._http.request(method, self.url + path, body=data, headers=dict(headers or {}))

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Call the page API as root and return ``dat``; raise :class:`AssertionError` with the text of a failure."""
        if not self._token:
            login = {"username": "root", "password": ROOT_PASSWORD}
            answer = json.loads(self.request("POST", "/api/svc/auth/login", login).data)
            assert not answer["err"], answer["err"]
            self._token = answer["dat"]["access_token"]
        response = self.request(method, "/api/svc" + path, body, {"Authorization": f"Bearer {self._token}"})
        answer = json.loads(response.data)
        assert not answer["err"], f"{method} {path}: {answer['err']}"
        return answer.get("dat")

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of all series of a metric on ``/metrics`` that have these labels, 0 when there is none."""
        lines = self.request("GET", "/metrics").data.decode().splitlines()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        values = (line.rsplit(" ", 1) for line in lines if line.startswith((name + "{", name + " ")))
        return sum(float(value) for series, value in values if all(label in series for label in wanted))

    def processes(self) -> dict[str, list[int]]:
        """Return the living processes by what they do: ``guard``, ``launcher``, ``http``, ``worker`` and so on."""
        found: dict[str, list[int]] = {"guard": [self.process.pid] if self.process.alive else []}
        names: dict[int, str] = {}
        for line in self.process.log.read_text(errors="replace").splitlines():
            if " started as process " in line:
                what, _, number = line.split(": ", 1)[1].partition(" started as process ")
                names[int(number)] = what
        for pid, what in names.items():
            if Path(f"/proc/{pid}").exists():
                found.setdefault(what, []).append(pid)
        tree = _children_by_parent()
        found["worker"] = [child for pid in found.get("http", []) for child in tree.get(pid, [])]
        return found

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to one process of that name and return its pid."""
        pid = self.processes()[name][0]
        os.kill(pid, number)
        return pid

    def terminate(self, pid: int) -> None:
        """Ask a process to end, for a launcher whose guard is dead and who would go on serving."""
        os.kill(pid, signal.SIGTERM)

    def until(self, check: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        """Wait until ``check`` is true; a refused connection and a failed call count as not yet."""

        def guarded() -> bool:
            try:
                return check()
            except (urllib3.exceptions.HTTPError, json.JSONDecodeError, AssertionError) as error:
                raise OSError(str(error)) from None

        wait_until(guarded, timeout=timeout, what=what)


def _children_by_parent() -> dict[int, list[int]]:
    tree: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        tree.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    return tree


@pytest.fixture
def make_deployment(tmp_path: Path) -> Iterator[Callable[..., Deployment]]:
    """Return a factory of running deployments: ``make_deployment(settings_toml, process="center", beside=None)``.

    Other keywords are those of :class:`Deployment`.
    """
    made: list[Deployment] = []

    def make(settings: str = "", **options: Any) -> Deployment:
        deployment = Deployment(tmp_path / f"deployment{len(made)}", settings, **options)
        made.append(deployment)
        return deployment.start()

    yield make
    for deployment in reversed(made):
        deployment.stop()
