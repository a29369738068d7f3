"""An application with a channel plugin that does what a test says, and the sending side stepped by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tocsin.events.form import Event, new_event, tag_map
from tocsin.events.journal import Change, EventJournal, Kind
from tocsin.notify.dispatch import Dispatcher
from tocsin.notify.feature import make_dispatcher, make_lanes
from tocsin.notify.lanes import Lanes
from tocsin.plugin import ChannelSeed, ChannelType, Delivery, Receipt, SendError, SendPlan, TemplateSeed, hookimpl
from tocsin.plugin.testkit import AppFactory, TestApp, dat
from tocsin.plugin.testkit.components import wait_until


def until_idle(lanes: Lanes) -> None:
    """Wait until nothing waits in lanes or is under way."""
    wait_until(lambda: not lanes.known(), what="the end of all sends")


NOW = 1_700_000_000
"""A Tuesday, 22:13:20 UTC."""
Behaviour = Callable[[Delivery], Receipt]


class Clock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


class Journal:
    """What test channels were given, and how they behave by channel option ``act``."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.acts: dict[str, Behaviour] = {}
        self._arrived = threading.Condition()

    def take(self, delivery: Delivery) -> Receipt:
        with self._arrived:
            self.deliveries.append(delivery)
            self._arrived.notify_all()
        act = self.acts.get(str(delivery.config.get("act", "")))
        return act(delivery) if act else Receipt("thanks")

    def wait_for(self, count: int, timeout: float = 10.0) -> list[Delivery]:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.deliveries) >= count, timeout), len(self.deliveries)
            return list(self.deliveries)


class PostChannel(ChannelType):
    """Serves idents nobody else claims; ``request_config`` holds its plan."""

    ident = "post"
    title = "Post"
    general = True

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def check(self, config: Mapping[str, Any]) -> None:
        if "bad" in config:
            raise ValueError(f"bad: got {config['bad']!r}, expected nothing")

    def plan(self, config: Mapping[str, Any]) -> SendPlan:
        return SendPlan(
            timeout=config.get("timeout", 5.0),
            attempts=config.get("attempts", 3),
            interval=config.get("interval", 0.01),
            concurrency=config.get("concurrency", 5),
            per_target=config.get("per_target", True),
        )

    def default_channels(self) -> list[ChannelSeed]:
        return [ChannelSeed("Post", {"url": "somewhere"}, weight=3)]

    def default_templates(self) -> list[TemplateSeed]:
        return [TemplateSeed("Post", {"content": "{{$event.RuleName}}"}, lang, weight=7) for lang in ("", "en")]

    def send(self, delivery: Delivery) -> Receipt:
        return self.journal.take(delivery)


class MailChannel(PostChannel):
    """A channel to people, whose templates are plain text."""

    ident = "mail"
    title = "Mail"
    request_type = "smtp"
    general = False
    contact_key = "mail_box"
    escapes = False

    def default_channels(self) -> list[ChannelSeed]:
        return []

    def default_templates(self) -> list[TemplateSeed]:
        return []


class Plugin:
    def __init__(self, journal: Journal) -> None:
        self.types = [PostChannel(journal), MailChannel(journal)]

    @hookimpl
    def tocsin_channels(self) -> list[ChannelType]:
        return list(self.types)


class World:
    """An application on a fixed clock with ways to write what notification needs."""

    def __init__(self, app: TestApp, clock: Clock, channels: Journal) -> None:
        self.app = app
        self.clock = clock
        self.channels = channels
        self.journal = app.core.get(EventJournal)
        self._sides: list[Lanes] = []
        self.template = self.add_template()

    def get(self, path: str, client: Any = None, **query: Any) -> Any:
        return dat((client or self.app.root).get(f"/api/svc{path}", query={k: str(v) for k, v in query.items()}))

    def post(self, path: str, body: Any, client: Any = None) -> Any:
        return dat((client or self.app.root).post(f"/api/svc{path}", body))

    def user(self, name: str, roles: tuple[str, ...] = ("Standard",), **more: Any) -> Any:
        body = {"username": name, "password": "a long password", "roles": list(roles), **more}
        dat(self.app.root.post("/api/svc/users", body))
        return self.app.login(name, "a long password")

    def user_id(self, name: str) -> int:
        found = self.get("/users", query=name)["list"]
        return next(int(user["id"]) for user in found if user["username"] == name)

    def team(self, name: str, *members: str) -> int:
        team = int(self.post("/user-groups", {"name": name}))
        if members:
            self.post(f"/user-group/{team}/members", {"ids": [self.user_id(member) for member in members]})
        return team

    def channel(self, name: str = "Ops", **more: Any) -> int:
        body = {
            "name": name,
            "ident": "post",
            "enable": True,
            "request_type": "http",
            "request_config": {"url": "x"},
            **more,
        }
        return int(self.post("/notify-channel-configs", [body])[0])

    def add_template(self, **content: str) -> int:
        body = {"name": "T", "content": content or {"content": "{{$event.RuleName}}"}, "notify_channel_ident": "post"}
        return int(self.post("/message-templates", [body])[0])

    def rule(self, *routes: Mapping[str, Any], **more: Any) -> int:
        configs = [{"template_id": self.template, **route} for route in routes]
        body = {"name": "R", "enable": True, "notify_configs": configs, **more}
        return int(self.post("/notify-rules", [body])[0]["id"])

    def event(self, *rules: int, **fields: Any) -> Event:
        tags = fields.setdefault("tags", ["ident=web-01", "service=pay"])
        given = {
            "hash": "h",
            "rule_id": 1,
            "rule_name": "CPU busy",
            "group_name": "Payments",
            "severity": 2,
            "trigger_time": NOW,
            "notify_recovered": 1,
            "notify_rule_ids": list(rules),
        }
        return new_event(**{**given, **fields, "tags_map": tag_map(tags)})

    def fire(self, *rules: int, **fields: Any) -> Event:
        """Record a firing and return the event with its id."""
        event = self.event(*rules, **fields)
        self.journal.record([Change(Kind.FIRE, event)], int(self.clock.now))
        return event

    def recover(self, event: Event) -> Event:
        """Record a recovery and return its event."""
        ended = {**event, "is_recovered": True, "recover_time": int(self.clock.now)}
        self.journal.record([Change(Kind.RECOVER, ended, event["id"])], int(self.clock.now))
        return ended

    def side(self) -> tuple[Dispatcher, Lanes]:
        """Return a sending side as an engine process has one; it knows nothing of earlier ones."""
        lanes = make_lanes(self.app.core)
        self._sides.append(lanes)
        return make_dispatcher(self.app.core, lanes), lanes

    def forget_sides(self) -> None:
        """Leave it to the test to stop the sending sides made so far."""
        self._sides.clear()

    def deliver(self) -> list[Delivery]:
        """Dispatch everything, wait until all is settled, and return what channels got so far."""
        dispatcher, lanes = self.side()
        while dispatcher.step():
            pass
        until_idle(lanes)
        return list(self.channels.deliveries)

    def records(self, event: Event) -> Any:
        return self.get(f"/event-notify-records/{event['id']}")

    def outcomes(self, event: Event) -> dict[str, list[int]]:
        """Return the statuses of an event's records by channel."""
        notifies = self.records(event)["notifies"]
        return {channel: [one["status"] for one in found] for channel, found in notifies.items()}

    def metric(self, name: str, **labels: str) -> float:
        return self.app.core.metrics.registry.get_sample_value(name, labels) or 0.0

    def close(self) -> None:
        for lanes in self._sides:
            lanes.stop(10.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def channels() -> Journal:
    return Journal()


@pytest.fixture
def world(make_app: AppFactory, clock: Clock, channels: Journal) -> Iterator[World]:
    made = World(make_app(plugins=[Plugin(channels)], clock=clock), clock, channels)
    yield made
    made.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Something that a send can wait for; opened when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def fail(message: str, *, retryable: bool) -> Behaviour:
    def act(delivery: Delivery) -> Receipt:
        raise SendError(message, retryable=retryable)

    return act
