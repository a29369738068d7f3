"""The service API of rules, engines and events."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tocsin.plugin.testkit._app import dat, err

ACCOUNT = {"HTTP": {"APIForService": {"Enable": True, "BasicAuth": {"robot": "secret"}}}}
BASIC = "Basic " + base64.b64encode(b"robot:secret").decode()
RULE = {"name": "a", "cate": "fake", "rule_config": {"queries": [{"prom_ql": "cpu > 80", "severity": 2}]}}
EVENT = {
    "hash": "0f3c",
    "rule_id": 42,
    "datasource_id": 3,
    "group_id": 5,
    "severity": 2,
    "tags": ["ident=web-01"],
    "trigger_time": 1_700_000_000,
    "last_eval_time": 1_700_000_000,
    "rule_config": {"any": 1},
    "unknown": 1,
}


@pytest.fixture
def service(world_with) -> Any:
    world = world_with(**ACCOUNT)
    world.robot = world.app.client.with_headers(Authorization=BASIC)
    return world


def test_rules(service) -> None:
    robot = service.robot
    made = dat(robot.post("/v1/svc/alert-rule-add", {**RULE, "group_id": service.group, "create_by": "ann"}))
    rule = dat(robot.get(f"/v1/svc/alert-rule/{made}"))
    assert (rule["name"], rule["create_by"], rule["group_id"]) == ("a", "ann", service.group)
    twice = [{**RULE, "group_id": service.group}, {**RULE, "name": "b", "group_id": service.group, "disabled": 1}]
    assert dat(robot.post("/v1/svc/alert-rules", twice)) == {"a": "AlertRule already exists", "b": ""}
    assert err(robot.post("/v1/svc/alert-rule-add", twice[0])) == "AlertRule already exists"
    names = [found["name"] for found in dat(robot.get("/v1/svc/alert-rules", query={"disabled": "0"}))]
    assert names == ["a"]
    assert dat(robot.get("/v1/svc/alert-rules", query={"cate": "mysql"})) == []
    assert dat(robot.put(f"/v1/svc/alert-rule/{made}", {**RULE, "note": "n", "update_by": "bob"})) is None
    changed = dat(robot.get(f"/v1/svc/alert-rule/{made}"))
    assert (changed["note"], changed["update_by"], changed["group_id"]) == ("n", "bob", service.group)
    assert dat(robot.delete("/v1/svc/alert-rules", {"ids": [made]})) is None
    assert err(robot.get(f"/v1/svc/alert-rule/{made}")) == "No such AlertRule"


def test_only_with_an_account(service) -> None:
    assert service.app.client.get("/v1/svc/alert-rules").status == 401
    assert service.app.root.get("/v1/svc/alert-cur-events").status == 401


def test_engines(service) -> None:
    robot = service.robot
    beat = {"instance": "10.8.0.4:19000", "engine_cluster": "edge", "datasource_id": 12}
    for _ in range(2):
        assert dat(robot.post("/v1/svc/server-heartbeat", beat)) is None
    assert dat(robot.get("/v1/svc/servers-active", query={"dsid": "12"})) == ["10.8.0.4:19000"]
    assert dat(robot.get("/v1/svc/servers-active", query={"engine_name": "edge"})) == ["10.8.0.4:19000"]
    assert err(robot.get("/v1/svc/servers-active")) == "dsid is required"
    service.clock.now += 30
    assert dat(robot.get("/v1/svc/servers-active", query={"dsid": "12"})) == []


def test_events_of_other_engines_are_stored(service) -> None:
    robot = service.robot
    first = dat(robot.post("/v1/svc/event-persist", EVENT))
    second = dat(robot.post("/v1/svc/event-persist", {**EVENT, "notify_cur_number": 2}))
    assert second > first
    (active,) = dat(robot.get("/v1/svc/alert-cur-events-get-by-rid", query={"rid": "42", "dsid": "3"}))
    assert (active["id"], active["tags_map"], active["rule_config"]) == (second, {"ident": "web-01"}, {"any": 1})
    assert dat(robot.get("/v1/svc/alert-cur-events"))["total"] == 1
    assert service.outbox.size() == 0
    dat(robot.post("/v1/svc/event-persist", {**EVENT, "is_recovered": True}))
    assert dat(robot.get("/v1/svc/alert-cur-events"))["total"] == 0
    history = dat(robot.get("/v1/svc/alert-his-events", query={"hours": "1000000"}))["list"]
    assert [event["is_recovered"] for event in history] == [1, 0, 0]
    assert dat(robot.get(f"/v1/svc/alert-his-event/{first}"))["hash"] == "0f3c"
    dat(robot.post("/v1/svc/event-persist", EVENT))
    assert dat(robot.get("/v1/svc/alert-cur-events-del-by-hash", query={"hash": "0f3c"})) is None
    assert dat(robot.get("/v1/svc/alert-cur-events"))["total"] == 0


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"hash": ""}, "hash"), ({"rule_id": 0}, "rule_id"), ({"severity": "2"}, "severity"), ({"tags": "a"}, "tags")],
)
def test_events_that_are_refused(service, changed: dict[str, Any], field: str) -> None:
    answer = service.robot.post("/v1/svc/event-persist", {**EVENT, **changed})
    assert err(answer).startswith(f"json body invalid: {field}")
