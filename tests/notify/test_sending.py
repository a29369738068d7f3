"""From an event in the outbox to a delivery and its record."""

from __future__ import annotations

import threading

import pytest
from tests.notify.conftest import Clock, Journal, Plugin, World, fail, until_idle

from tocsin.notify.models import NotifyRecordRow, PendingSend
from tocsin.plugin import Delivery, Receipt
from tocsin.plugin.testkit import AppFactory, dat
from tocsin.plugin.testkit.components import PATIENCE, wait_until


def test_an_event_is_delivered_and_recorded(world: World) -> None:
    channel = world.channel()
    rule = world.rule({"channel_id": channel, "params": {"room": "a-long-token", "note": "abc"}})
    event = world.fire(rule)
    (delivery,) = world.deliver()
    assert delivery.config == {"url": "x"}
    assert delivery.params == {"room": "a-long-token", "note": "abc"}
    assert delivery.content == {"content": "CPU busy"}
    (sent,) = delivery.events
    assert (sent["id"], sent["notify_rule_id"], sent["notify_rule_name"]) == (event["id"], rule, "R")
    assert world.records(event) == {
        "sub_rules": [],
        "notifies": {
            "Ops": [
                {
                    "notify_rule_id": rule,
                    "target": "a-long-t********",
                    "username": "",
                    "status": 1,
                    "detail": world.records(event)["notifies"]["Ops"][0]["detail"],
                }
            ]
        },
    }
    assert world.records(event)["notifies"]["Ops"][0]["detail"].endswith(" ms thanks")
    assert PendingSend.select().count() == 0
    assert world.metric("svc_alert_alert_notify_total", channel="Ops") == 1
    assert world.metric("svc_alert_alert_notify_error_total", channel="Ops") == 0


def test_a_recovery_is_delivered_unless_the_rule_says_no(world: World) -> None:
    rule = world.rule({"channel_id": world.channel()})
    first, second = world.fire(rule), world.fire(rule, hash="quiet", notify_recovered=0)
    world.recover(first)
    world.recover(second)
    found = [(d.events[0]["hash"], d.events[0]["is_recovered"]) for d in world.deliver()]
    assert sorted(found) == [("h", False), ("h", True), ("quiet", False)]


def test_every_matching_route_of_every_rule_sends(world: World) -> None:
    ops, lab = world.channel("Ops"), world.channel("Lab")
    severe = {"channel_id": lab, "severities": [1]}
    one = world.rule({"channel_id": ops}, {"channel_id": lab}, severe)
    other = world.rule({"channel_id": ops}, name="Other")
    off = world.rule({"channel_id": ops}, enable=False)
    event = world.fire(one, other, other, off, 999)
    assert len(world.deliver()) == 3
    assert {name: len(found) for name, found in world.outcomes(event).items()} == {"Ops": 1, "Lab": 1}
    assert NotifyRecordRow.select().count() == 3
    assert world.metric("svc_notify_route_matches_total") == 3


def test_people_are_reached_by_the_contact_the_channel_needs(world: World) -> None:
    world.user("ann", contacts={"mail_box": "ann@box"})
    world.user("bob", contacts={"mail_box": "bob@box"})
    world.user("cid")
    team = world.team("night", "ann", "bob", "cid")
    param_config = {"user_info": {"contact_key": "mail"}}
    each = world.channel("Each", ident="mail", request_type="smtp", param_config=param_config)
    config = {"per_target": False}
    joint = world.channel("Joint", ident="mail", request_type="smtp", param_config=param_config, request_config=config)
    params = {"user_ids": [world.user_id("ann")], "user_group_ids": [team], "note": ""}
    event = world.fire(world.rule({"channel_id": each, "params": params}, {"channel_id": joint, "params": params}))
    found = sorted(tuple(d.targets) for d in world.deliver())
    assert found == [("ann@box",), ("ann@box", "bob@box"), ("bob@box",)]
    notifies = world.records(event)["notifies"]
    assert [(n["target"], n["username"]) for n in notifies["Joint"]] == [("ann@box********", "ann,bob")]
    assert sorted(n["username"] for n in notifies["Each"]) == ["ann", "bob"]
    assert "user_ids" not in world.channels.deliveries[0].params


def test_what_cannot_be_sent_is_recorded_with_its_reason(world: World) -> None:
    off, on = world.channel("Off", enable=False), world.channel("On")
    rule = world.rule({"channel_id": off}, {"channel_id": 999}, {"channel_id": on, "template_id": 999})
    event = world.fire(rule)
    assert world.deliver() == []
    found = {channel: one[0]["detail"] for channel, one in world.records(event)["notifies"].items()}
    assert found == {
        f"notify_channel_id:{off}": "notify_channel not found",
        "notify_channel_id:999": "notify_channel not found",
        "On": "message_template not found",
    }
    assert world.outcomes(event) == {channel: [2] for channel in found}
    assert world.metric("svc_notify_drops_total", reason="channel_not_found") == 2


def test_a_failure_worth_another_try_is_tried_again(world: World, channels: Journal) -> None:
    answers = iter([fail("out of reach", retryable=True), fail("still", retryable=True), lambda d: Receipt("at last")])
    channels.acts["flaky"] = lambda delivery: next(answers)(delivery)
    rule = world.rule({"channel_id": world.channel(request_config={"act": "flaky"})})
    event = world.fire(rule)
    deliveries = world.deliver()
    assert len(deliveries) == 3
    assert len({d.key for d in deliveries}) == 1
    assert world.outcomes(event) == {"Ops": [1]}
    detail = world.records(event)["notifies"]["Ops"][0]["detail"]
    assert [part.split(" ms ")[1] for part in detail.split("; ")] == ["out of reach", "still", "at last"]
    assert world.metric("svc_notify_retries_total", channel="Ops") == 2
    assert world.metric("svc_notify_attempts_total", channel="Ops", outcome="failure") == 2


def test_attempts_end(world: World, channels: Journal) -> None:
    channels.acts["down"] = fail("out of reach", retryable=True)
    channels.acts["refused"] = fail("no such room", retryable=False)
    down = world.channel("Down", request_config={"act": "down", "attempts": 2})
    refused = world.channel("Refused", request_config={"act": "refused", "attempts": 5})
    event = world.fire(world.rule({"channel_id": down}, {"channel_id": refused}))
    assert len(world.deliver()) == 3
    assert world.outcomes(event) == {"Down": [2], "Refused": [2]}
    details = {name: one[0]["detail"] for name, one in world.records(event)["notifies"].items()}
    assert details["Down"].endswith("out of reach (all 2 attempts failed)")
    assert details["Refused"].endswith("ms no such room")
    assert world.metric("svc_alert_alert_notify_error_total", channel="Down") == 1


def test_pauses_between_attempts_double(world: World, channels: Journal, clock: Clock) -> None:
    channels.acts["down"] = fail("out of reach", retryable=True)
    config = {"act": "down", "attempts": 4, "interval": 100.0}
    world.fire(world.rule({"channel_id": world.channel(request_config=config)}))
    pauses = []
    for _ in range(3):
        dispatcher, lanes = world.side()
        count = len(channels.deliveries)
        dispatcher.step()
        dispatcher.resume()
        channels.wait_for(count + 1)
        lanes.stop(10.0)
        row = PendingSend.get()
        pauses.append(row.next_at - clock.now)
        clock.now = row.next_at
    assert pauses == [100.0, 200.0, 300.0]


def test_a_plugin_that_crashes_harms_its_own_sends_only(world: World, channels: Journal) -> None:
    def crash(delivery: Delivery) -> Receipt:
        raise RuntimeError("the secret is s3cr3t")

    channels.acts["crash"] = crash
    broken = world.channel("Broken", request_config={"act": "crash", "attempts": 1})
    event = world.fire(world.rule({"channel_id": broken}, {"channel_id": world.channel("Fine")}))
    world.deliver()
    assert world.outcomes(event) == {"Broken": [2], "Fine": [1]}
    assert world.records(event)["notifies"]["Broken"][0]["detail"].endswith("plugin post failed in send: RuntimeError")


def test_a_hanging_channel_delays_nobody_else(world: World, channels: Journal, gate: threading.Event) -> None:
    def hang(delivery: Delivery) -> Receipt:
        gate.wait(PATIENCE)
        return Receipt("late")

    channels.acts["hang"] = hang
    stuck = world.channel("Stuck", request_config={"act": "hang", "timeout": 20.0, "concurrency": 1})
    fine = world.channel("Fine")
    rule = world.rule({"channel_id": stuck}, {"channel_id": fine})
    events = [world.fire(rule, hash=f"h{number}") for number in range(20)]
    dispatcher, lanes = world.side()
    while dispatcher.step():
        pass
    channels.wait_for(21)
    fine_ones = [d for d in channels.deliveries if d.config.get("act") is None]
    assert len(fine_ones) == 20
    assert lanes.size(stuck) == 20
    gate.set()
    until_idle(lanes)
    assert all(world.outcomes(event) == {"Stuck": [1], "Fine": [1]} for event in events)


def test_hanging_sends_hold_no_database_connection(
    make_app: AppFactory, channels: Journal, clock: Clock, gate: threading.Event
) -> None:
    settings = {"DB": {"MaxOpenConns": 3}}
    world = World(make_app(plugins=[Plugin(channels)], settings=settings, clock=clock), clock, channels)
    channels.acts["hang"] = lambda delivery: (gate.wait(PATIENCE), Receipt())[1]
    stuck = world.channel("Stuck", request_config={"act": "hang", "timeout": 20.0, "concurrency": 6})
    rule = world.rule({"channel_id": stuck})
    for number in range(6):
        world.fire(rule, hash=f"h{number}")
    dispatcher, lanes = world.side()
    dispatcher.step()
    channels.wait_for(6)
    event = world.fire(world.rule({"channel_id": world.channel("Fine")}))
    dispatcher.step()
    channels.wait_for(7)
    wait_until(lambda: world.outcomes(event) == {"Fine": [1]}, what="the record of the other channel")
    gate.set()
    until_idle(lanes)
    world.close()


def test_a_plugin_that_ignores_its_time_limit_is_left_behind(
    world: World, channels: Journal, gate: threading.Event
) -> None:
    def hang(delivery: Delivery) -> Receipt:
        gate.wait(PATIENCE)
        return Receipt("late")

    channels.acts["hang"] = hang
    stuck = world.channel(request_config={"act": "hang", "timeout": 0.05, "attempts": 1, "concurrency": 1})
    event = world.fire(world.rule({"channel_id": stuck}))
    world.deliver()
    assert world.outcomes(event) == {"Ops": [2]}
    assert "no answer within 0.05 s" in world.records(event)["notifies"]["Ops"][0]["detail"]


def test_a_recovery_never_overtakes_its_alert(world: World, channels: Journal) -> None:
    answers = iter([fail("out of reach", retryable=True)])

    def first_fails(delivery: Delivery) -> Receipt:
        mine = delivery.events[0]["hash"] == "h"  # the other event's lane may be ahead
        answer = next(answers, None) if mine else None
        return answer(delivery) if answer else Receipt("ok")

    channels.acts["first fails"] = first_fails
    config = {"act": "first fails", "interval": 0.2, "concurrency": 5}
    rule = world.rule({"channel_id": world.channel(request_config=config)})
    event = world.fire(rule)
    world.recover(event)
    world.fire(rule, hash="other")
    found = [(d.events[0]["hash"], d.events[0]["is_recovered"]) for d in world.deliver()]
    assert [f for f in found if f[0] == "h"] == [("h", False), ("h", False), ("h", True)]


def test_a_full_queue_drops_with_a_record(make_app, channels: Journal, clock: Clock, gate: threading.Event) -> None:
    settings = {"Alert": {"Alerting": {"ChannelQueueSize": 2}}}
    world = World(make_app(plugins=[Plugin(channels)], settings=settings, clock=clock), clock, channels)
    channels.acts["hang"] = lambda delivery: (gate.wait(PATIENCE), Receipt())[1]
    rule = world.rule({"channel_id": world.channel(request_config={"act": "hang", "timeout": 20.0})})
    events = [world.fire(rule, hash=f"h{number}") for number in range(3)]
    dispatcher, lanes = world.side()
    dispatcher.step()
    gate.set()
    until_idle(lanes)
    assert [world.outcomes(event) for event in events] == [{"Ops": [1]}, {"Ops": [1]}, {"Ops": [2]}]
    assert world.records(events[2])["notifies"]["Ops"][0]["detail"].startswith("failed to enqueue notify task")
    assert world.metric("svc_notify_drops_total", reason="queue_full") == 1
    world.close()


def test_templates_that_fail_say_so_in_the_message(world: World) -> None:
    content = {"title": "{{$event.Nothing}}", "content": "{{", "fine": '{{$value}} "{{$labels.service}}"\n'}
    template = world.add_template(**content)
    world.fire(world.rule({"channel_id": world.channel(), "template_id": template}), trigger_value="81.5")
    (delivery,) = world.deliver()
    assert delivery.content["fine"] == '81.5 \\"pay\\"\\n'
    assert delivery.content["title"].startswith("failed to execute template: template: title:1:")
    assert delivery.content["content"].startswith("failed to parse template: template: content:1")
    assert world.metric("svc_notify_template_errors_total", kind="message", reason="execution") == 1
    assert world.metric("svc_notify_template_errors_total", kind="message", reason="syntax") == 1
    assert world.metric("svc_notify_template_cache_total", outcome="misses") >= 2


def test_plain_text_channels_get_plain_text(world: World) -> None:
    body = {"name": "M", "content": {"subject": '"{{$event.RuleName}}"\n'}, "notify_channel_ident": "mail"}
    template = world.post("/message-templates", [body])[0]
    channel = world.channel(ident="mail", request_type="smtp")
    world.fire(world.rule({"channel_id": channel, "template_id": template}), rule_name="a<b>&c")
    assert world.deliver()[0].content == {"subject": '"a<b>&c"\n'}


def test_the_channels_own_texts_are_rendered_for_it(world: World, channels: Journal) -> None:
    texts: list[str] = []

    def act(delivery: Delivery) -> Receipt:
        for escaped in (False, True):
            text = "{{$tpl.content}}|{{$params.room}}|{{$event.RuleName}}|{{len $events}}|{{$sendto}}"
            texts.append(delivery.render("body", text, escaped=escaped))
        return Receipt()

    channels.acts["render"] = act
    channel = world.channel(request_config={"act": "render"})
    world.fire(world.rule({"channel_id": channel, "params": {"room": 7}}), rule_name="a<b")
    world.deliver()
    assert texts == ["a&lt;b|7|a<b|1|", "a&lt;b|7|a&lt;b|1|"]


def test_an_answer_that_repeats_a_parameter_does_not_reveal_it(world: World, channels: Journal) -> None:
    channels.acts["echo"] = lambda d: Receipt("got token-12345678" + "x" * 1000)
    channel = world.channel(request_config={"act": "echo"})
    event = world.fire(world.rule({"channel_id": channel, "params": {"key": "token-12345678"}}))
    world.deliver()
    detail = world.records(event)["notifies"]["Ops"][0]["detail"]
    assert "token-12345678" not in detail
    assert "got ***xxx" in detail
    assert len(detail) < 600
    assert "token-12345678" not in repr(list(NotifyRecordRow.select().dicts()))


def test_records_are_for_those_who_may_read_the_event(world: World) -> None:
    from tocsin.plugin.testkit import err

    event = world.fire(world.rule({"channel_id": world.channel()}), group_id=77)
    world.deliver()
    bob = world.user("bob")
    assert err(bob.get(f"/api/svc/event-notify-records/{event['id']}")) == "forbidden"
    assert err(world.app.root.get("/api/svc/event-notify-records/999")) == "No such alert event"
    used = dat(bob.get("/api/svc/notification-records/used"))
    assert used == {"used": True, "last_at": int(world.clock.now)}


def test_records_are_as_open_as_event_details(make_app: AppFactory, channels: Journal, clock: Clock) -> None:
    settings = {"Center": {"AnonymousAccess": {"AlertDetail": True}}}
    world = World(make_app(plugins=[Plugin(channels)], settings=settings, clock=clock), clock, channels)
    event = world.fire()
    found = dat(world.app.client.get(f"/api/svc/event-notify-records/{event['id']}"))
    assert found == {"sub_rules": [], "notifies": {}}
    world.close()


def test_old_records_go(world: World, clock: Clock) -> None:
    from tocsin.notify.feature import clean_records

    rule = world.rule({"channel_id": world.channel()})
    world.fire(rule)
    world.deliver()
    clock.now += 6 * 86_400
    young = world.fire(rule, hash="young")
    world.deliver()
    clock.now += 86_400 + 1
    clean_records(world.app.core)
    assert [row.event_id for row in NotifyRecordRow.select()] == [young["id"]]


@pytest.mark.parametrize("broken", [{"tags_map": 3}, {"trigger_time": "x", "severity": None}])
def test_an_event_that_cannot_be_matched_is_recorded_and_holds_nothing_up(world: World, broken: dict) -> None:
    from tocsin.events.models import OutboxEvent

    where = [{"start": "00:00", "end": "01:00", "week": [1]}]
    conditions = (
        {"label_keys": [{"key": "a", "func": "==", "value": "b"}]} if "tags_map" in broken else {"time_ranges": where}
    )
    rule = world.rule({"channel_id": world.channel(), **conditions})
    event = world.event(rule)
    event.update(broken)
    from tocsin.events.form import packed

    OutboxEvent.create(id=5, instance="", hash="x", created_at=1, body=packed(event))
    fine = world.fire(world.rule({"channel_id": world.channel("Fine")}), hash="fine")
    world.deliver()
    assert world.outcomes(fine) == {"Fine": [1]}
    assert OutboxEvent.select().count() == 0
    assert world.metric("svc_notify_drops_total", reason="event_unusable") == 1
