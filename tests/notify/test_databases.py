"""The sending side on every database that is supported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.notify.conftest import Clock, Journal, Plugin, World, fail, until_idle

from tocsin.notify.models import PendingSend
from tocsin.plugin import Receipt
from tocsin.plugin.testkit import AppFactory, dat
from tocsin.plugin.testkit.components import Database


@pytest.fixture
def anywhere(make_app: AppFactory, clock: Clock, channels: Journal, database: Database) -> Iterator[World]:
    settings = {"DB": {"DBType": database.kind, "DSN": database.dsn}}
    made = World(make_app(plugins=[Plugin(channels)], settings=settings, clock=clock), clock, channels)
    yield made
    made.close()


def test_the_whole_way(anywhere: World, channels: Journal) -> None:
    world = anywhere
    answers = iter([fail("not yet 🕑", retryable=True)])
    channels.acts["flaky"] = lambda delivery: next(answers, lambda _: Receipt("ok\0\ud800"))(delivery)
    big = world.channel("Big", request_config={"act": "flaky", "notes": "x" * 100_000})
    rule = world.rule({"channel_id": big, "params": {"room": "ü" * 50_000}})
    event = world.fire(rule, rule_note="y" * 100_000)
    assert [len(d.params["room"]) for d in world.deliver()] == [50_000, 50_000]
    assert world.outcomes(event) == {"Big": [1]}
    assert "not yet 🕑" in world.records(event)["notifies"]["Big"][0]["detail"]
    assert world.records(event)["notifies"]["Big"][0]["detail"].endswith(" ok?")
    assert PendingSend.select().count() == 0
    assert world.get("/notify-channel-configs")[0]["request_config"]["notes"] == "x" * 100_000
    root = world.app.root
    dat(root.delete("/api/svc/notify-rules", {"ids": [rule]}))
    dat(root.delete("/api/svc/notify-channel-configs", {"ids": [big]}))
    assert [c["name"] for c in world.get("/notify-channel-configs")] == ["Post"]


def test_what_was_begun_is_taken_up_again(anywhere: World) -> None:
    world = anywhere
    event = world.fire(world.rule({"channel_id": world.channel()}))
    dispatcher, lanes = world.side()
    lanes.stop(0)
    dispatcher.step()
    assert PendingSend.select().count() == 1
    survivor, its_lanes = world.side()
    assert survivor.resume() == 1
    until_idle(its_lanes)
    assert world.outcomes(event) == {"Ops": [1]}
