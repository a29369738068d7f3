"""Whatever moment the process dies at: nothing is lost, and nothing that is recorded as done is sent again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.notify.conftest import Behaviour, Journal, Plugin, World, fail, until_idle

from tocsin.events.models import OutboxEvent
from tocsin.events.outbox import Outbox
from tocsin.notify.models import NotifyRecordRow, PendingSend
from tocsin.plugin import Delivery, Receipt
from tocsin.plugin.testkit import AppFactory
from tocsin.plugin.testkit.components import PATIENCE, wait_until


class Death(BaseException):
    """The end of the process."""


@contextmanager
def dying_at(world: World, statement: int) -> Iterator[Callable[[], bool]]:
    """Let everything that talks to the database die from its n-th change on, as a killed process would.

    Yields whether that moment came.
    """
    database: Any = world.app.core.db.peewee
    original = database.execute
    changes, lock = 0, threading.Lock()

    def execute(query: Any, **options: Any) -> Any:
        nonlocal changes
        if type(query).__name__.removeprefix("Model") in ("Insert", "Update", "Delete"):
            with lock:
                changes += 1
                if changes >= statement:
                    raise Death
        elif changes >= statement:
            raise Death
        return original(query, **options)

    database.execute = execute
    try:
        yield lambda: changes >= statement
    finally:
        del database.execute


def run(world: World, died: Callable[[], bool] = lambda: False) -> None:
    """Run a sending side until it is done or dead."""
    dispatcher, lanes = world.side()
    world.forget_sides()
    quiet, threading.excepthook = threading.excepthook, lambda args: None
    try:
        dispatcher.resume()
        while dispatcher.step():
            pass
        wait_until(lambda: died() or not lanes.known(), what="the end of all sends")
    except Death:
        pass
    finally:
        lanes.stop(0.2 if died() else 10.0)
        threading.excepthook = quiet
        world.app.core.release()


def test_dying_at_every_change_loses_nothing(world: World, channels: Journal) -> None:
    answers: dict[str, Iterator[Behaviour]] = {"flaky": iter(())}

    def flaky(delivery: Delivery) -> Receipt:
        return next(answers["flaky"], lambda _: Receipt("ok"))(delivery)

    channels.acts["flaky"] = flaky
    steady = world.channel("Steady", request_config={"concurrency": 1})
    shaky = world.channel("Shaky", request_config={"act": "flaky", "concurrency": 1})
    rule = world.rule({"channel_id": steady}, {"channel_id": shaky}, {"channel_id": 999})
    came, statement = True, 0
    while came:
        statement += 1
        assert statement < 60
        channels.deliveries.clear()
        answers["flaky"] = iter([fail("not yet", retryable=True)])
        event = world.fire(rule, hash=f"h{statement}")
        with dying_at(world, statement) as moment:
            run(world, moment)
            came = moment()
        done = {row.channel for row in NotifyRecordRow.select() if row.event_id == event["id"] and row.status == 1}
        before = len(channels.deliveries)
        run(world)
        repeated = [d for d in channels.deliveries[before:] if channel_of(d) in done]
        assert not repeated, f"sent again although recorded as done, when dying at change {statement}"
        assert {channel_of(d) for d in channels.deliveries} == {"Steady", "Shaky"}
        wanted = {"Steady": [1], "Shaky": [1], "notify_channel_id:999": [2]}
        assert world.outcomes(event) == wanted, f"when dying at change {statement}"
        assert (OutboxEvent.select().count(), PendingSend.select().count()) == (0, 0)
    assert statement > 8, "the loop has to meet every change that a send makes"


def channel_of(delivery: Delivery) -> str:
    return "Shaky" if delivery.config.get("act") else "Steady"


def test_sends_of_a_dead_engine_are_taken_over_once(world: World, channels: Journal) -> None:
    rule = world.rule({"channel_id": world.channel()})
    world.journal.instance = "dead:1"
    event = world.fire(rule)
    dispatcher, lanes = world.side()
    lanes.stop(0)
    dispatcher.step()
    assert PendingSend.get().instance == "dead:1"
    world.journal.instance = "living:1"
    outbox = world.app.core.get(Outbox)
    outbox.others = lambda: ("dead:1",)
    survivor, its_lanes = world.side()
    assert (survivor.resume(), survivor.take_over()) == (0, 0)
    outbox.others = lambda: ()
    assert (survivor.resume(), survivor.take_over()) == (0, 1)
    until_idle(its_lanes)
    assert (survivor.resume(), survivor.take_over()) == (0, 0)
    assert world.outcomes(event) == {"Ops": [1]}
    assert len(channels.deliveries) == 1


def test_an_engine_taken_for_dead_leaves_its_sends_to_the_one_that_took_over(
    world: World, channels: Journal, gate: threading.Event
) -> None:
    channels.acts["hang"] = lambda delivery: (gate.wait(PATIENCE), Receipt())[1]
    config = {"act": "hang", "concurrency": 1, "timeout": 20.0}
    rule = world.rule({"channel_id": world.channel(request_config=config)})
    first, second = world.fire(rule), world.fire(rule, hash="other")
    world.journal.instance = "slow:1"
    dispatcher, lanes = world.side()
    dispatcher.step()
    channels.wait_for(1)
    PendingSend.update(instance="other:1").where(PendingSend.event_id == second["id"]).execute()
    gate.set()
    until_idle(lanes)
    assert [d.events[0]["id"] for d in channels.deliveries] == [first["id"]]
    assert PendingSend.select().count() == 1


def test_two_engines_that_see_one_event_send_it_once(world: World, channels: Journal) -> None:
    world.fire(world.rule({"channel_id": world.channel()}))
    first, its_lanes = world.side()
    second, other_lanes = world.side()
    items = world.app.core.get(Outbox).pending()
    assert first.step() == 1
    second._outbox = type("Stale", (), {"pending": lambda _, limit: items, "acknowledge": Outbox().acknowledge})()
    assert second.step() == 1
    until_idle(its_lanes)
    until_idle(other_lanes)
    assert len(channels.deliveries) == 1


def test_an_attempt_that_cannot_be_written_down_is_not_made_again(world: World, channels: Journal, monkeypatch) -> None:
    from tocsin.notify import lanes as lanes_module
    from tocsin.notify import records

    monkeypatch.setattr(lanes_module, "FAULT_PAUSE", 0.01)
    broken = iter([OSError("the database is away"), OSError("still")])
    original = records.write

    def write(*given: Any) -> int:
        error = next(broken, None)
        if error:
            raise error
        return original(*given)

    monkeypatch.setattr(records, "write", write)
    event = world.fire(world.rule({"channel_id": world.channel()}))
    world.deliver()
    assert len(channels.deliveries) == 1
    assert world.outcomes(event) == {"Ops": [1]}


def test_the_thread_wakes_for_events_and_survives_a_database_that_is_away(
    world: World, channels: Journal, monkeypatch
) -> None:
    dispatcher, lanes = world.side()
    outbox = world.app.core.get(Outbox)
    failures = iter([OSError("away")])
    pending, failed = outbox.pending, threading.Event()

    def once(*given: Any) -> Any:
        error = next(failures, None)
        if error:
            failed.set()
            raise error
        return pending(*given)

    monkeypatch.setattr(outbox, "pending", once)
    dispatcher.start()
    assert failed.wait(PATIENCE)
    event = world.fire(world.rule({"channel_id": world.channel()}))
    outbox.ready.set()
    channels.wait_for(1)
    until_idle(lanes)
    dispatcher.stop(10)
    assert world.outcomes(event) == {"Ops": [1]}
    assert world.metric("svc_notify_internal_errors_total", stage="dispatch") == 1


def test_an_alert_process_sends_too(world: World, channels: Journal, make_app: AppFactory) -> None:
    event = world.fire(world.rule({"channel_id": world.channel()}))
    make_app(plugins=[Plugin(channels)], process="alert", start="engine")
    channels.wait_for(1)
    wait_until(lambda: world.outcomes(event) == {"Ops": [1]}, what="the record")
