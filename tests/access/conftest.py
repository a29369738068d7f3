"""An application with people in it, for the tests of access."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tocsin.app import capabilities
from tocsin.plugin.testkit import AppFactory, TestApp, WsgiClient, dat

PASSWORD = "correct horse battery"


@dataclass
class World:
    """An application and short ways to put people, teams and groups into it."""

    app: TestApp

    @property
    def root(self) -> WsgiClient:
        """A client logged in as the first administrator."""
        return self.app.root

    def user(self, name: str, *roles: str) -> WsgiClient:
        """Make a user and return a client logged in as them."""
        body = {"username": name, "password": PASSWORD, "roles": list(roles or ("Standard",))}
        assert dat(self.root.post("/api/svc/users", body)) is None
        return self.app.login(name, PASSWORD)

    def user_id(self, name: str) -> int:
        """Return the id of a user."""
        found = dat(self.root.get("/api/svc/users", query={"usernames": name}))["list"]
        assert len(found) == 1, found
        return int(found[0]["id"])

    def role(self, name: str, *points: str) -> int:
        """Make a role with permission points and return its id."""
        assert dat(self.root.post("/api/svc/roles", {"name": name, "note": ""})) is None
        role_id = next(role["id"] for role in dat(self.root.get("/api/svc/roles")) if role["name"] == name)
        assert dat(self.root.put(f"/api/svc/role/{role_id}/ops", list(points))) is None
        return int(role_id)

    def team(self, name: str, *members: str) -> int:
        """Make a team of these users (and root, who makes it) and return its id."""
        team_id = int(dat(self.root.post("/api/svc/user-groups", {"name": name})))
        if members:
            ids = [self.user_id(member) for member in members]
            assert dat(self.root.post(f"/api/svc/user-group/{team_id}/members", {"ids": ids})) is None
        return team_id

    def group(self, name: str, **teams: int) -> int:
        """Make a business group; ``rw=team_id`` and ``ro=team_id`` bind teams to it."""
        members = [{"user_group_id": team, "perm_flag": flag} for flag, team in teams.items()]
        return int(dat(self.root.post("/api/svc/busi-groups", {"name": name, "members": members})))

    def token(self, client: WsgiClient, name: str = "ci") -> tuple[int, WsgiClient]:
        """Make a personal token as ``client`` and return its id and a client that uses nothing else."""
        made = dat(client.post("/api/svc/self/token", {"token_name": name}))
        return int(made["id"]), self.app.client.with_headers(X_User_Token=made["token"])


MakeWorld = Callable[..., World]


@pytest.fixture
def make_world(make_app: AppFactory, monkeypatch: pytest.MonkeyPatch) -> MakeWorld:
    """Return a factory of worlds with the access capability alone: ``make_world(plugins=[...], settings={...})``."""
    monkeypatch.setattr(capabilities, "CAPABILITIES", ("tocsin.access", "tocsin.web"))

    def make(settings: Mapping[str, Any] | None = None, **more: Any) -> World:
        return World(make_app(settings=settings, **more))

    return make


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """A world with default settings."""
    return make_world()
