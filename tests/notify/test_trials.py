"""Sending and rendering on request."""

from __future__ import annotations

from typing import Any

import pytest
from tests.notify.conftest import NOW, Journal, World, fail

from tocsin.notify.models import NotifyRecordRow
from tocsin.plugin.testkit import dat, err

CONFIG = {"name": "Draft", "ident": "post", "request_type": "http", "request_config": {"url": "x"}}


def try_rule(world: World, **body: Any) -> Any:
    return world.app.root.post("/api/svc/notify-rule/test", body)


def route(world: World, **more: Any) -> dict[str, Any]:
    return {"channel_id": world.channel(), "template_id": world.template, **more}


def test_a_rule_is_tried_with_a_made_up_event(world: World, channels: Journal) -> None:
    answer = try_rule(world, use_mock_event=True, notify_config=route(world, severities=[3, 1], params={"room": "r"}))
    assert dat(answer) == "thanks"
    (delivery,) = channels.deliveries
    event = delivery.events[0]
    assert event["rule_name"] == "Notification test mock event"
    assert (event["hash"], event["severity"], event["trigger_time"]) == ("notify-rule-test-mock-event", 1, NOW)
    assert event["tags_map"]["source"] == "notify-rule-test"
    assert delivery.content == {"content": "Notification test mock event"}
    assert delivery.params == {"room": "r"}
    assert NotifyRecordRow.select().count() == 0


def test_a_rule_is_tried_with_events_that_match_it(world: World, channels: Journal) -> None:
    event = world.fire()
    body = {"event_ids": [event["id"]]}
    assert dat(try_rule(world, **body, notify_config=route(world, severities=[2]))) == "thanks"
    assert channels.deliveries[0].events[0]["id"] == event["id"]
    for more, message in (
        ({"severities": [1]}, "event severity not match severity filter"),
        ({"label_keys": [{"key": "a", "func": "==", "value": "b"}]}, "event tag not match tag filter"),
        ({"attributes": [{"key": "cate", "func": "~"}]}, "invalid operation"),
    ):
        config = {"channel_id": 1, "template_id": world.template, **more}
        assert message in err(try_rule(world, **body, notify_config=config))


def test_what_is_missing_is_named(world: World, channels: Journal) -> None:
    mock = {"use_mock_event": True}
    off = world.channel("Off", enable=False)
    channels.acts["down"] = fail("out of reach", retryable=True)
    down = world.channel("Down", request_config={"act": "down"})
    assert err(try_rule(world, **mock)) == "notify_config.channel_id required"
    assert err(try_rule(world, notify_config={"channel_id": off})) == "event_ids or use_mock_event required"
    assert err(try_rule(world, notify_config={"channel_id": off}, event_ids=[99])) == "event not found"
    assert err(try_rule(world, **mock, notify_config={"channel_id": 99})) == "notify channel not found"
    message = "notify channel not enabled, please enable it first"
    assert err(try_rule(world, **mock, notify_config={"channel_id": off})) == message
    assert err(try_rule(world, **mock, notify_config={"channel_id": down})) == "message_template not found"
    config = {"channel_id": down, "template_id": world.template}
    assert err(try_rule(world, **mock, notify_config=config)) == "failed to send http notify: out of reach"
    assert len(channels.deliveries) == 1


def test_events_of_others_cannot_be_sent_anywhere(world: World, channels: Journal) -> None:
    event = world.fire(group_id=77)
    bob = world.user("bob", ("Standard",))
    body = {"event_ids": [event["id"]], "tpl": {"content": {"content": "{{$event.RuleName}}"}}}
    assert err(bob.post("/api/svc/events-message", body)) == "forbidden"
    assert dat(world.app.root.post("/api/svc/events-message", body))["content"]["content"] == "CPU busy"


def test_a_channel_is_tried_before_it_is_saved(world: World, channels: Journal) -> None:
    body = {
        "config": CONFIG,
        "notify_config": {"params": {"room": "r"}},
        "tpl_content": {"title": "{{$event.Severity}} {{$event.IsRecovered}}"},
        "use_mock_event": True,
        "mock_severity": 1,
        "mock_is_recovered": True,
    }
    assert world.post("/notify-channel-config/test", body) == {"success": True, "error_message": ""}
    (delivery,) = channels.deliveries
    assert delivery.content == {"title": "1 true"}
    assert delivery.events[0]["recover_time"] == NOW
    assert len(world.get("/notify-channel-configs")) == 1


def test_a_channel_that_fails_its_trial_says_why(world: World, channels: Journal) -> None:
    channels.acts["down"] = fail("out of reach", retryable=True)
    body = {"config": CONFIG, "use_mock_event": True, "tpl_content": {"a": "x", "b": "{{"}}
    found = world.post("/notify-channel-config/test", body)
    assert not found["success"]
    assert found["error_message"].startswith('template field "b": failed to parse template: ')
    body = {"config": {**CONFIG, "request_config": {"act": "down"}}, "use_mock_event": True}
    found = world.post("/notify-channel-config/test", body)
    assert found == {"success": False, "error_message": "out of reach"}
    root = world.app.root
    script = {"config": {**CONFIG, "request_type": "script"}, "use_mock_event": True}
    assert err(root.post("/api/svc/notify-channel-config/test", script)).startswith("script media type must be saved")
    bad = {"config": {**CONFIG, "request_config": {"bad": 1}}, "use_mock_event": True}
    assert err(root.post("/api/svc/notify-channel-config/test", bad)) == "bad: got 1, expected nothing"
    nobody = {"config": CONFIG, "use_mock_event": True, "notify_config": {"params": {"user_ids": 3}}}
    answer = root.post("/api/svc/notify-channel-config/test", nobody)
    assert err(answer) == "params.user_ids: got 3, expected a list of ids"
    assert "config: Missing data" in err(root.post("/api/svc/notify-channel-config/test", {}))


def test_a_preview_shows_every_field(world: World) -> None:
    content = {"good": '<b>{{$labels.ident}}</b> "x"', "bad": "{{$event.No}}", "site": "{{.domain}}"}
    found = world.post("/events-message", {"use_mock_event": True, "tpl": {"content": content}})
    assert found["good"] == {"content": '<b>mock-host-01</b> "x"', "success": True, "message": ""}
    assert found["site"]["content"].startswith("http://")
    assert (found["bad"]["content"], found["bad"]["success"]) == ("", False)
    assert "No" in found["bad"]["message"]
    root = world.app.root
    assert err(root.post("/api/svc/events-message", {})) == "event_ids or use_mock_event required"


@pytest.mark.parametrize("severity", [0, 9])
def test_a_made_up_event_has_a_severity_that_exists(world: World, severity: int) -> None:
    body = {"use_mock_event": True, "mock_severity": severity, "tpl": {"content": {"s": "{{$event.Severity}}"}}}
    assert world.post("/events-message", body)["s"]["content"] == "2"


def test_other_processes_read_and_write_through_the_service_api(make_app, channels: Journal) -> None:
    from tests.notify.conftest import Clock, Plugin

    settings = {"HTTP": {"APIForService": {"Enable": True, "BasicAuth": {"u": "p"}}}}
    clock = Clock()
    world = World(make_app(plugins=[Plugin(channels)], settings=settings, clock=clock), clock, channels)
    world.rule({"channel_id": world.channel(enable=False)})
    world.rule({"channel_id": 1}, name="Off", enable=False)
    client = world.app.client.with_headers(Authorization="Basic dTpw")

    def asked(path: str, **query: str) -> Any:
        return dat(client.get(f"/v1/svc{path}", query=query))

    assert [rule["name"] for rule in asked("/notify-rules")] == ["R"]
    assert [channel["name"] for channel in asked("/notify-channels", enabled="1")] == ["Post"]
    assert [channel["name"] for channel in asked("/notify-channels", name="Ops")] == ["Ops"]
    assert [t["ident"] for t in asked("/message-templates", ident="post")] == ["post"]
    assert "enabled: got 2" in client.get("/v1/svc/notify-channels", query={"enabled": "2"}).text
    event = world.fire()
    record = {
        "notify_rule_id": 1,
        "event_id": event["id"],
        "channel": "Ops",
        "status": 3,
        "target": "t",
        "details": "d",
    }
    assert dat(client.post("/v1/svc/notify-record", [record, {**record, "sub_id": 4}])) is None
    found = world.records(event)
    assert found["notifies"]["Ops"][0]["status"] == 3
    assert [sub["sub_id"] for sub in found["sub_rules"]] == [4]
