"""History, active table and outbox move together."""

from __future__ import annotations

import pytest

from tocsin.events.journal import Change, Kind, active_events
from tocsin.events.models import ActiveEvent, HistoryEvent, OutboxEvent


def rows(table: type[ActiveEvent | HistoryEvent | OutboxEvent]) -> list[int]:
    return [row.id for row in table.select().order_by(table.id)]


def test_a_firing_is_in_all_three(world) -> None:
    event = world.fire(annotations={"a": "b"})
    assert rows(ActiveEvent) == rows(HistoryEvent) == rows(OutboxEvent) == [event["id"]]
    ((active, last),) = active_events()
    assert (active, last) == (event, 0)


def test_a_recovery_leaves_the_active_table(world) -> None:
    event = world.fire()
    ended = world.recover(event)
    assert rows(ActiveEvent) == []
    assert rows(HistoryEvent) == rows(OutboxEvent) == [event["id"], ended["id"]]


def test_ids_grow_in_the_order_of_changes(world) -> None:
    changes = [Change(Kind.FIRE, world.event(f"h{n}")) for n in range(120)]
    world.journal.record(changes, 1)
    ids = [change.event["id"] for change in changes]
    assert ids == sorted(ids)
    assert rows(ActiveEvent) == rows(HistoryEvent) == ids


def test_what_is_not_to_be_notified_stays_out_of_the_outbox(world) -> None:
    world.journal.record([Change(Kind.FIRE, world.event(), notify=False)], 1)
    assert len(rows(ActiveEvent)) == 1
    assert rows(OutboxEvent) == []


@pytest.mark.parametrize("previous", [0, 999])
def test_a_change_of_an_event_that_is_not_the_active_one_is_left_out(world, previous: int) -> None:
    event = world.fire()
    late = Change(Kind.FIRE, world.event(), previous)
    other = Change(Kind.FIRE, world.event("other"))
    assert world.journal.record([late, other], 1) == [late]
    assert rows(ActiveEvent) == [event["id"], other.event["id"]]


def test_a_second_recovery_is_left_out(world) -> None:
    event = world.fire()
    world.recover(event)
    again = Change(Kind.RECOVER, {**event}, event["id"])
    assert world.journal.record([again], 1) == [again]
    assert len(rows(HistoryEvent)) == 2


def test_an_event_deleted_by_hand_still_recovers_into_history(world) -> None:
    event = world.fire()
    ActiveEvent.delete().execute()
    assert world.recover(event)["id"] > event["id"]


def test_a_failure_leaves_no_trace(world, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(OutboxEvent, "insert_many", fail)
        with pytest.raises(OSError, match="disk full"):
            world.fire()
    assert rows(ActiveEvent) == rows(HistoryEvent) == rows(OutboxEvent) == []
    assert world.fire()["id"] == 1


def test_closing_notes_the_reason_and_notifies_only_when_asked(world) -> None:
    quiet = world.fire("quiet", notify_recovered=1)
    loud = world.fire("loud", notify_recovered=1, extra_config={"notify_on_disable": True})
    world.outbox.acknowledge(rows(OutboxEvent))
    closed = world.journal.close([quiet, loud], "rule deleted", 5)
    assert [change.event["annotations"]["close_reason"] for change in closed] == ["rule deleted"] * 2
    assert rows(ActiveEvent) == []
    assert [item.event["hash"] for item in world.outbox.pending()] == ["loud"]


def test_the_outbox_hands_over_until_acknowledged(world) -> None:
    events = [world.fire(f"h{n}") for n in range(5)]
    ids = [event["id"] for event in events]
    assert [item.id for item in world.outbox.pending(3)] == ids[:3]
    assert [item.id for item in world.outbox.pending(3, set(ids[:3]))] == ids[3:]
    assert world.outbox.pending()[0].event == events[0]
    world.outbox.acknowledge(ids[:4])
    assert [item.id for item in world.outbox.pending()] == ids[4:]
    assert world.outbox.size() == 1


def test_the_outbox_wakes_its_consumer(world) -> None:
    assert not world.outbox.wait(0)
    event = world.event()
    change = Change(Kind.FIRE, event)
    world.journal.record([change], 1)
    world.journal.announce([change])
    assert world.outbox.wait(0)
    assert not world.outbox.wait(0)


def test_events_of_a_living_engine_are_left_to_it(world) -> None:
    world.journal.instance = "10.0.0.2:17000"
    world.fire()
    world.outbox.others = lambda: {"10.0.0.2:17000"}
    assert world.outbox.pending() == []
    world.outbox.others = tuple
    assert len(world.outbox.pending()) == 1


def test_the_journal_works_on_every_database(make_world, database) -> None:
    world = make_world(DB={"DBType": database.kind, "DSN": database.dsn})
    big = "x" * 100_000
    changes = [Change(Kind.FIRE, world.event(f"h{n}", rule_note=big if not n else "")) for n in range(60)]
    assert world.journal.record(changes, 1) == []
    assert len(rows(ActiveEvent)) == len(rows(OutboxEvent)) == 60
    assert active_events()[0][0]["rule_note"] == big
    world.recover(changes[0].event)
    assert world.journal.record([Change(Kind.FIRE, world.event("h1"))], 1) != []
    world.journal.mark_anomaly_times({"h2": 7, "h3": 9})
    assert {event["hash"]: last for event, last in active_events() if last} == {"h2": 7, "h3": 9}
    assert len(world.get("/alert-cur-events/list", query="web-01 cpu", limit=100)["list"]) == 59
    assert world.get("/alert-his-events/list", hours=1, is_recovered=1)["total"] == 1
