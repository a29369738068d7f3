"""An application with people, business groups and hosts in it."""

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from tocsin.app import capabilities
from tocsin.plugin.testkit import AppFactory, TestApp, WsgiClient, dat
from tocsin.targets.pulse import Beats

PASSWORD = "correct horse battery"
NOW = 1_760_000_000


@dataclass
class Clock:
    """A clock in the test's hands."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """An application and short ways to put people and hosts into it."""

    app: TestApp
    clock: Clock
    teams: dict[str, int] = field(default_factory=dict)

    @property
    def root(self) -> WsgiClient:
        return self.app.root

    @property
    def agent(self) -> WsgiClient:
        """A collector."""
        return self.app.client

    def user(self, name: str, *roles: str) -> WsgiClient:
        """Make a user with a team of their own and return a client logged in as them."""
        body = {"username": name, "password": PASSWORD, "roles": list(roles or ("Standard",))}
        dat(self.root.post("/api/svc/users", body))
        user_id = dat(self.root.get("/api/svc/users", query={"usernames": name}))["list"][0]["id"]
        self.teams[name] = dat(self.root.post("/api/svc/user-groups", {"name": f"team of {name}"}))
        dat(self.root.post(f"/api/svc/user-group/{self.teams[name]}/members", {"ids": [user_id]}))
        return self.app.login(name, PASSWORD)

    def group(self, name: str, *, label: str = "", **people: str) -> int:
        """Make a business group; ``ann="rw"`` binds the team of that user."""
        root_team = self.teams.get("") or self._root_team()
        members = [{"user_group_id": root_team, "perm_flag": "rw"}]
        members += [{"user_group_id": self.teams[user], "perm_flag": flag} for user, flag in people.items()]
        body = {"name": name, "members": members, "label_enable": int(bool(label)), "label_value": label}
        return int(dat(self.root.post("/api/svc/busi-groups", body)))

    def _root_team(self) -> int:
        self.teams[""] = dat(self.root.post("/api/svc/user-groups", {"name": "roots"}))
        return self.teams[""]

    def beat(self, hostname: str, query: Mapping[str, Any] | None = None, **said: Any) -> None:
        """Send a heartbeat like a collector does, gzipped, and have it written."""
        body = gzip.compress(orjson.dumps({"hostname": hostname, **said}))
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        answer = self.agent.request("POST", "/v1/svc/heartbeat", query=query or {}, headers=headers, body=body)
        assert answer.status == 200, answer
        assert answer.json()["err"] == ""
        self.flush()

    def known(self, *idents: str) -> None:
        """Make hosts known."""
        dat(self.root.post("/api/svc/target-update", {"lst": list(idents), "now": int(self.clock())}))

    def flush(self) -> None:
        """Write signs of life as the thread does once a second."""
        self.app.core.get(Beats).flush()
        self.app.core.release()

    def hosts(self, client: WsgiClient | None = None, **query: Any) -> dict[str, dict[str, Any]]:
        """Return hosts by name, as the list shows them."""
        found = dat((client or self.root).get("/api/svc/targets", query={"limit": 1000, **query}))
        assert found["total"] == len(found["list"])
        return {host["ident"]: host for host in found["list"]}

    def bind(self, group: int | list[int], *idents: str, action: str = "add", **more: Any) -> Any:
        """Bind hosts to groups as root."""
        groups = group if isinstance(group, list) else [group]
        body = {"idents": list(idents), "bgids": groups, "action": action, **more}
        return dat(self.root.put("/api/svc/targets/bgids", body))

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric of this application."""
        return self.app.core.metrics.registry.get_sample_value(name, labels) or 0.0


MakeWorld = Callable[..., World]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_world(make_app: AppFactory, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> MakeWorld:
    """Return a factory of worlds; a second one is another process over the same database and cache."""
    monkeypatch.setattr(
        capabilities,
        "CAPABILITIES",
        ("tocsin.access", "tocsin.targets", "tocsin.datasources", "tocsin.ingest", "tocsin.web"),
    )

    def make(settings: Mapping[str, Any] | None = None, **more: Any) -> World:
        return World(make_app(settings=settings, clock=clock, **more), clock)

    return make


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """A world with default settings."""
    return make_world()
