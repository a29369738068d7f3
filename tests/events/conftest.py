"""An application whose events are written through the journal, as the engine writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tocsin.events.form import Event, new_event, tag_map
from tocsin.events.journal import Change, EventJournal, Kind
from tocsin.events.outbox import Outbox
from tocsin.plugin.testkit._app import AppFactory, TestApp, dat

NOW = 1_700_000_000
"""A Tuesday, 22:13:20 UTC."""


class World:
    """An application on a fixed clock, with a way to write events."""

    def __init__(self, app: TestApp) -> None:
        self.app = app
        self.journal = app.core.get(EventJournal)
        self.outbox = app.core.get(Outbox)
        self.group = self.busi_group("Payments")

    def busi_group(self, name: str, *members: str) -> int:
        """Make a business group of a new team with these users, and return its id."""
        root = self.app.root
        team = int(dat(root.post("/api/svc/user-groups", {"name": f"team of {name}"})))
        ids = [user["id"] for m in members for user in dat(root.get("/api/svc/users", query={"usernames": m}))["list"]]
        if ids:
            dat(root.post(f"/api/svc/user-group/{team}/members", {"ids": ids}))
        binding = [{"user_group_id": team, "perm_flag": "rw"}]
        return int(dat(root.post("/api/svc/busi-groups", {"name": name, "members": binding})))

    def user(self, name: str) -> Any:
        """Make a Standard user and return a client logged in as them."""
        body = {"username": name, "password": "a long password", "roles": ["Standard"]}
        dat(self.app.root.post("/api/svc/users", body))
        return self.app.login(name, "a long password")

    def event(self, key: str = "h", **fields: Any) -> Event:
        """Return an event that is not recorded."""
        tags = fields.setdefault("tags", ["ident=web-01", "rulename=cpu"])
        given = {
            "hash": key,
            "rule_id": 1,
            "rule_name": "cpu",
            "group_id": self.group,
            "group_name": "Payments",
            "severity": 2,
            "cate": "prometheus",
            "rule_prod": "metric",
            "datasource_id": 3,
            "trigger_time": NOW - 60,
            "last_eval_time": NOW - 60,
            "notify_cur_number": 1,
        }
        return new_event(**{**given, **fields, "tags_map": tag_map(tags)})

    def fire(self, key: str = "h", **fields: Any) -> Event:
        """Record a firing and return the event with its id."""
        event = self.event(key, **fields)
        assert self.journal.record([Change(Kind.FIRE, event)], NOW) == []
        return event

    def recover(self, event: Event, at: int = NOW) -> Event:
        """Record the recovery of an event."""
        ended = {**event, "is_recovered": True, "recover_time": at, "last_eval_time": at}
        assert self.journal.record([Change(Kind.RECOVER, ended, event["id"])], at) == []
        return ended

    def get(self, path: str, client: Any = None, **query: Any) -> Any:
        """Return ``dat`` of a page-API answer."""
        return dat((client or self.app.root).get(f"/api/svc{path}", query={k: str(v) for k, v in query.items()}))


@pytest.fixture
def make_world(make_app: AppFactory) -> Callable[..., World]:
    return lambda **settings: World(make_app(settings=settings, clock=lambda: float(NOW)))


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
