"""Rules, channels and message templates as clients create, read, change and delete them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.notify.conftest import World

from tocsin.notify.models import NotifyChannelRow, NotifyRuleRow
from tocsin.plugin.testkit import dat, err

CHANNEL = {
    "name": "Ops",
    "ident": "post",
    "enable": True,
    "request_type": "http",
    "request_config": {"url": "x", "token": "very-secret-token"},
    "param_config": {"custom": {"params": [{"key": "room", "cname": "Room", "type": "string"}]}},
}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/notify-rules", "models.NotifyRule"),
        ("/notify-channel-configs", "models.NotifyChannelConfig"),
        ("/message-templates", "models.MessageTemplate"),
    ],
)
def test_array_endpoints_refuse_a_bare_object_by_type(world: World, path: str, name: str) -> None:
    message = err(world.app.root.post(f"/api/svc{path}", {"name": "x"}))
    assert message == f"json body invalid: json: cannot unmarshal object into Go value of type []{name}"
    assert err(world.app.root.post(f"/api/svc{path}", [])) == "input json is empty"


def test_the_life_of_a_channel(world: World) -> None:
    root = world.app.root
    (number,) = world.post("/notify-channel-configs", [CHANNEL])
    stored = world.get(f"/notify-channel-config/{number}")
    assert stored["request_config"] == CHANNEL["request_config"]
    assert stored["create_by"] == stored["update_by"] == "root"
    assert err(root.post("/api/svc/notify-channel-configs", [CHANNEL])) == "name already exists"
    world.clock.now += 10
    changed = {**stored, "name": "Night shift", "weight": 9, "enable": False}
    assert dat(root.put(f"/api/svc/notify-channel-config/{number}", changed)) is None
    stored = world.get(f"/notify-channel-config/{number}")
    assert (stored["name"], stored["weight"], stored["enable"]) == ("Night shift", 9, False)
    assert stored["update_at"] - stored["create_at"] == 10
    assert [c["name"] for c in world.get("/notify-channel-configs")] == ["Post", "Night shift"]
    dat(root.delete("/api/svc/notify-channel-configs", {"ids": [number]}))
    assert err(root.get(f"/api/svc/notify-channel-config/{number}")) == "notify channel not found"


def test_secrets_are_unreadable_in_the_database(world: World) -> None:
    channel = world.post("/notify-channel-configs", [CHANNEL])[0]
    world.rule(
        {"channel_id": channel, "params": {"room": "very-secret-token"}}, extra_config={"k": "very-secret-token"}
    )
    rows = [*NotifyChannelRow.select().dicts(), *NotifyRuleRow.select().dicts()]
    assert "very-secret-token" not in repr(rows)
    assert world.get("/notify-rules")[0]["extra_config"] == {"k": "very-secret-token"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": " "}, "name cannot be empty"),
        ({"ident": "a b"}, "ident: got 'a b'"),
        ({"request_type": "pigeon"}, "invalid request type, must be one of http, smtp; got 'pigeon'"),
        ({"request_config": None}, "request_config: got nothing, expected an object"),
        ({"request_config": {"bad": 1}}, "bad: got 1, expected nothing"),
        ({"request_config": []}, "request_config: got an array, expected an object"),
        ({"param_config": {"custom": {"params": [{"key": "a", "cname": ""}]}}}, "param items must have valid cname"),
        ({"weight": True}, "weight: got true, expected an integer"),
        ({"enable": "yes"}, "enable: got a text, expected true or false"),
    ],
)
def test_a_channel_that_cannot_work_is_refused(world: World, change: dict[str, Any], message: str) -> None:
    assert message in err(world.app.root.post("/api/svc/notify-channel-configs", [{**CHANNEL, **change}]))


def test_channels_are_made_all_or_none(world: World) -> None:
    body = [CHANNEL, {**CHANNEL, "name": "Post"}]
    assert err(world.app.root.post("/api/svc/notify-channel-configs", body)) == "name already exists"
    assert [c["name"] for c in world.get("/notify-channel-configs")] == ["Post"]


def test_an_ident_without_a_plugin_is_served_by_the_general_type(world: World) -> None:
    assert world.channel("Chat", ident="some-chat")
    smtp = {**CHANNEL, "name": "M", "ident": "other-mail", "request_type": "smtp"}
    message = err(world.app.root.post("/api/svc/notify-channel-configs", [smtp]))
    assert message == "unsupported channel: ident=other-mail request_type=smtp"


def test_what_everybody_sees_of_channels_is_no_configuration(world: World) -> None:
    world.post("/notify-channel-configs", [CHANNEL])
    reader = world.user("reader")
    found = world.get("/notify-channel-config", reader, ident="post")
    assert (found["request_config"], found["param_config"]) == ({}, {"custom": {"params": None}})
    simple = world.get("/simplified-notify-channel-configs", reader)
    assert [c["name"] for c in simple] == ["Ops", "Post"]
    assert all("request_config" not in c and c["create_by"] == "" for c in simple)
    assert simple[0]["param_config"] == CHANNEL["param_config"]
    assert world.get("/notify-channel-config/idents", reader) == ["post"]
    assert err(reader.get("/api/svc/notify-channel-config", query={"ident": "none"})) == "notify channel not found"


def test_used_channels_and_templates_are_not_deleted(world: World) -> None:
    channel = world.channel()
    rule = world.rule({"channel_id": channel})
    root = world.app.root
    for path, number in (("notify-channel-configs", channel), ("message-templates", world.template)):
        assert err(root.delete(f"/api/svc/{path}", {"ids": [number]})) == f"used by notify rule: [{rule}]"
        assert err(root.delete(f"/api/svc/{path}", {"ids": []})) == "ids empty"
        assert "ids.0: got 9223372036854775808, expected" in err(root.delete(f"/api/svc/{path}", {"ids": [1 << 63]}))
    dat(root.delete("/api/svc/notify-rules", {"ids": [rule]}))
    for path, number in (("notify-channel-configs", channel), ("message-templates", world.template)):
        dat(root.delete(f"/api/svc/{path}", {"ids": [number]}))


def test_the_life_of_a_rule(world: World) -> None:
    channel = world.channel()
    world.user("ann", nickname="Ann")
    team = world.team("night", "ann")
    body = {
        "name": "P1",
        "enable": True,
        "user_group_ids": [team],
        "notify_configs": [
            {
                "channel_id": channel,
                "template_id": world.template,
                "params": {"room": "abc", "user_ids": [world.user_id("ann")], "user_group_ids": [team]},
                "severities": [1, 2],
                "time_ranges": [{"start": "00:00", "end": "00:00", "week": [0, 1]}],
                "label_keys": [{"key": "service", "func": "=~", "value": "^pay"}],
                "attributes": [{"key": "group_name", "func": "in", "value": ["Payments"]}],
                "channel_ident": "forged",
            }
        ],
        "extra_config": {"escalations": []},
    }
    (created,) = world.post("/notify-rules", [body])
    assert "channel_ident" not in created["notify_configs"][0]
    shown = world.get(f"/notify-rule/{created['id']}")
    assert shown["notify_configs"][0]["channel_ident"] == "post"
    assert shown["notify_configs"][0]["user_names"] == ["Ann"]
    assert shown["notify_configs"][0]["user_group_names"] == ["night"]
    assert shown["extra_config"] == {"escalations": []}
    change = {**shown, "name": "P2", "notify_configs": [], "extra_config": None}
    dat(world.app.root.put(f"/api/svc/notify-rule/{created['id']}", change))
    shown = world.get("/notify-rules")[0]
    assert (shown["name"], shown["notify_configs"], shown["extra_config"]) == ("P2", [], {"escalations": []})
    assert shown["update_by_nickname"] != "" or shown["update_by"] == "root"
    dat(world.app.root.delete("/api/svc/notify-rules", {"ids": [created["id"]]}))
    assert err(world.app.root.get(f"/api/svc/notify-rule/{created['id']}")) == "notify rule not found"


@pytest.mark.parametrize(
    ("route", "message"),
    [
        ({"channel_id": 0}, "invalid channel id"),
        ({"channel_id": 1 << 40}, "notify_configs.0.channel_id: got 1099511627776, expected a number"),
        ({"severities": [4]}, "invalid severity level"),
        ({"label_keys": [{"key": "", "func": "=="}]}, "tag key cannot be empty"),
        ({"label_keys": [{"key": "a", "func": "~"}]}, "invalid operation"),
        ({"label_keys": [{"key": "a", "func": "=~", "value": "("}]}, "a: '(' is no regular expression"),
        ({"time_ranges": [{"start": "08:00", "week": [1]}]}, "time_ranges.end: got ''"),
        ({"time_ranges": [{"start": "24:00", "end": "01:00"}]}, "time_ranges.start: got '24:00'"),
        ({"time_ranges": [{"start": "00:00", "end": "01:00", "week": [7]}]}, "time_ranges.week"),
        ({"params": {"user_ids": ["ann"]}}, 'params.user_ids: got ["ann"], expected a list of ids'),
        ({"severities": "1"}, "notify_configs.0.severities: got a text, expected an array"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(world: World, route: dict[str, Any], message: str) -> None:
    body = [{"name": "R", "notify_configs": [{"channel_id": 1, **route}]}]
    assert message in err(world.app.root.post("/api/svc/notify-rules", body))
    assert world.get("/notify-rules") == []


def test_rules_belong_to_their_teams(world: World) -> None:
    points = ["/notification-rules", *(f"/notification-rules/{verb}" for verb in ("add", "put", "del"))]
    role = dat(world.app.root.post("/api/svc/roles", {"name": "Notifier"}))
    role = role or next(r["id"] for r in world.get("/roles") if r["name"] == "Notifier")
    dat(world.app.root.put(f"/api/svc/role/{role}/ops", points))
    ann, bob = world.user("ann", ("Notifier",)), world.user("bob", ("Notifier",))
    team = world.team("of ann", "ann")
    body = {"name": "R", "notify_configs": [], "user_group_ids": [team]}
    assert err(bob.post("/api/svc/notify-rules", [body])) == "forbidden"
    rule = world.post("/notify-rules", [body], ann)[0]["id"]
    assert world.get("/notify-rules", bob) == []
    assert [r["id"] for r in world.get("/notify-rules", ann)] == [rule]
    assert err(bob.get(f"/api/svc/notify-rule/{rule}")) == "forbidden"
    assert err(bob.put(f"/api/svc/notify-rule/{rule}", body)) == "forbidden"
    assert err(bob.delete("/api/svc/notify-rules", {"ids": [rule]})) == "forbidden"
    dat(ann.put(f"/api/svc/notify-rule/{rule}", {**body, "name": "R2"}))
    dat(ann.delete("/api/svc/notify-rules", {"ids": [rule]}))


def test_permission_points_stand_before_every_change(world: World) -> None:
    guest = world.user("guest", ("Guest",))
    for method, path, body in (
        ("get", "/notify-rules", None),
        ("post", "/notify-rules", [{}]),
        ("put", "/notify-rule/1", {}),
        ("delete", "/notify-rules", {"ids": [1]}),
        ("post", "/notify-rule/test", {}),
        ("get", "/notify-channel-configs", None),
        ("post", "/notify-channel-configs", [{}]),
        ("put", "/notify-channel-config/1", {}),
        ("delete", "/notify-channel-configs", {"ids": [1]}),
        ("post", "/notify-channel-config/test", {}),
        ("get", "/message-template/1", None),
        ("post", "/message-templates", [{}]),
        ("put", "/message-template/1", {}),
        ("delete", "/message-templates", {"ids": [1]}),
    ):
        call = getattr(guest, method)
        assert err(call(f"/api/svc{path}", body) if body is not None else call(f"/api/svc{path}")) == "forbidden", path


def test_parameters_in_use_are_offered_to_ones_own_teams(world: World) -> None:
    channel = world.post("/notify-channel-configs", [CHANNEL])[0]
    team = world.team("mine")
    for room, note in (("a", "x"), ("a", "x"), ("b", "y")):
        world.rule({"channel_id": channel, "params": {"room": room, "note": note}}, user_group_ids=[team])
    world.rule({"channel_id": channel, "params": {"room": "of others"}})
    found = world.get("/notify-rule/custom-params", notify_channel_id=channel)
    assert found == [[{"name": "room", "cname": "Room", "value": room}] for room in ("a", "b")]
    assert world.get("/notify-rule/custom-params", notify_channel_id=999) == []
    message = err(world.app.root.get("/api/svc/notify-rule/custom-params"))
    assert message == "query param[notify_channel_id] is necessary"


def test_the_life_of_a_message_template(world: World) -> None:
    root = world.app.root
    stored = world.get(f"/message-template/{world.template}")
    assert (stored["lang"], stored["user_group_ids"], stored["private"]) == ("en", [], 0)
    path = f"/api/svc/message-template/{world.template}"
    dat(root.put(path, {**stored, "content": {"title": "{{$value}}"}, "weight": 4}))
    assert world.get(f"/message-template/{world.template}")["content"] == {"title": "{{$value}}"}
    assert err(root.put(path, {**stored, "ident": "post"})) == "message template ident already exists"
    assert err(root.put(path, {**stored, "ident": "new"})) == "cannot update ident"
    assert err(root.get("/api/svc/message-template/999")) == "message template not found"
    answer = root.post("/api/svc/message-templates", [stored], headers={"X-Language": "x" * 33})
    assert err(answer) == "X-Language: got 33 characters, expected at most 32"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "template name cannot be empty"),
        ({"name": "x" * 65}, "name: got 65 characters, expected at most 64"),
        ({"content": {"": "x"}}, "template content cannot have empty keys"),
        ({"private": 2}, "private flag must be 0 or 1"),
        ({"private": 1}, "user group IDs of private msg tpl cannot be empty"),
    ],
)
def test_a_template_that_cannot_work_is_refused(world: World, change: dict[str, Any], message: str) -> None:
    body = [{"name": "T", "content": {"content": "x"}, **change}]
    assert err(world.app.root.post("/api/svc/message-templates", body)) == message


def test_private_templates_are_for_their_teams(world: World) -> None:
    world.user("ann")
    team = world.team("of ann", "ann")
    body = {"name": "Secret", "content": {"content": "x"}, "private": 1, "user_group_ids": [team]}
    number = world.post("/message-templates", [body])[0]
    bob, ann = world.user("bob", ("Guest",)), world.app.login("ann", "a long password")
    assert "Secret" in [t["name"] for t in world.get("/message-templates", ann)]
    assert "Secret" not in [t["name"] for t in world.get("/message-templates", bob)]
    assert err(bob.get(f"/api/svc/message-template/{number}")) == "forbidden"


def test_templates_of_the_installation_are_listed_in_one_language(world: World) -> None:
    def idents(language: str) -> list[str]:
        client = world.app.root.with_headers(X_Language=language)
        found = world.get("/message-templates", client, notify_channel_idents="post")
        return [t["ident"] for t in found if t["create_by"] == "system"]

    assert idents("en_US") == ["post-en"]
    assert idents("zh_CN") == ["post"]
    assert idents("fr") == ["post-en"]
    assert world.get("/message-templates", notify_channel_idents="none") == []
    assert len(world.get("/message-templates", notify_channel_ids="1")) == 2
    assert world.get("/message-templates", notify_channel_ids="999") == []


def test_what_came_with_the_installation_follows_it_until_somebody_changes_it(world: World) -> None:
    from tocsin.notify.channels import Channels

    core = world.app.core
    (post,) = world.get("/notify-channel-configs")
    NotifyChannelRow.update(weight=99).where(NotifyChannelRow.id == post["id"]).execute()
    core.snapshots.bump("notify_channel")
    core.get(Channels).seed()
    assert world.get("/notify-channel-configs")[0]["weight"] == 3
    dat(world.app.root.put(f"/api/svc/notify-channel-config/{post['id']}", {**post, "weight": 50}))
    core.get(Channels).seed()
    assert world.get("/notify-channel-configs")[0]["weight"] == 50
