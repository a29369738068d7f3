"""Real worker processes of one service: what one is told, the other knows with its next request."""

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tocsin.plugin.testkit import ROOT_PASSWORD
from tocsin.plugin.testkit.components import PATIENCE
from tocsin.plugin.testkit.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


class Line:
    """A connection that stays with the worker that accepted it."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.pid = self._answer("GET", "/pid", {})

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return json.loads(self._answer(method, "/api/svc" + path, named, body))

    def _answer(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> bytes:
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        return self._connection.getresponse().read()


@pytest.fixture
def service(make_deployment: Callable[..., Deployment]) -> Deployment:
    return make_deployment()


@pytest.fixture
def lines(service: Deployment) -> Iterator[tuple[Line, Line]]:
    """Connections to both workers of one service."""
    opened: list[Line] = []

    def two_workers() -> bool:
        opened.append(Line(service.port))
        return len({line.pid for line in opened}) == 2

    try:
        service.until(two_workers, "both workers have accepted a connection")
        yield opened[0], opened[-1]
    finally:
        for line in opened:
            line.close()


def test_withdrawals_between_workers(service: Deployment, lines: tuple[Line, Line]) -> None:
    here, there = lines
    login = {"username": "root", "password": ROOT_PASSWORD}
    session = here.ask("POST", "/auth/login", login)["dat"]
    bearer = {"Authorization": f"Bearer {session['access_token']}"}
    for turn in range(10):
        name = f"user{turn}"
        person = {"username": name, "password": ROOT_PASSWORD, "roles": ["Standard"]}
        assert here.ask("POST", "/users", person, **bearer)["err"] == ""
        logged_in = there.ask("POST", "/auth/login", {"username": name, "password": ROOT_PASSWORD})["dat"]
        theirs = {"Authorization": f"Bearer {logged_in['access_token']}"}
        token = here.ask("POST", "/self/token", {"token_name": "ci"}, **theirs)["dat"]
        by_token = {"X_User_Token": token["token"]}
        assert there.ask("GET", "/users", **by_token)["err"] == ""
        profile = f"/user/{logged_in['user']['id']}/profile"
        assert here.ask("PUT", profile, {"roles": ["Guest"]}, **bearer)["err"] == ""
        assert there.ask("GET", "/users", **by_token)["err"] == "forbidden"
        assert here.ask("DELETE", f"/self/token/{token['id']}", **theirs)["err"] == ""
        assert there.ask("GET", "/self/profile", **by_token)["err"] == "unauthorized"
        assert there.ask("POST", "/auth/logout", **theirs)["err"] == ""
        assert here.ask("GET", "/self/profile", **theirs)["err"] == "unauthorized"
    assert service.metric("svc_center_login_total") == 11


def test_accounts_sessions_and_tokens_outlive_every_process(service: Deployment, lines: tuple[Line, Line]) -> None:
    session = lines[0].ask("POST", "/auth/login", {"username": "root", "password": ROOT_PASSWORD})["dat"]
    bearer = {"Authorization": f"Bearer {session['access_token']}"}
    token = lines[1].ask("POST", "/self/token", {"token_name": "ci"}, **bearer)["dat"]["token"]
    for name in ("worker", "http", "launcher"):
        pid = service.kill(name)
        service.until(lambda: service.serves() and pid not in service.processes().get(name, []), f"{name} is back")  # noqa: B023
    line = Line(service.port)
    try:
        assert line.ask("GET", "/self/profile", **bearer)["dat"]["username"] == "root"
        assert line.ask("GET", "/self/profile", X_User_Token=token)["dat"]["username"] == "root"
    finally:
        line.close()
