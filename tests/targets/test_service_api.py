"""The service API of hosts, and the calls of other processes."""

from typing import Any

import pytest

from tocsin.plugin.testkit import WsgiClient, dat, err
from tocsin.targets.rule_hosts import hosts_of_rules

NOW = 1_760_000_000


@pytest.fixture
def served(make_world):
    world = make_world({"HTTP": {"APIForService": {"Enable": True, "BasicAuth": {"ops": "pw"}}}})
    world.known("web01", "db01")
    return world


@pytest.fixture
def ops(served) -> WsgiClient:
    return served.agent.with_headers(Authorization="Basic b3BzOnB3")


def test_all_hosts(served, ops) -> None:
    served.bind(served.group("one"), "web01", tags=["k=v"])
    db01, web01 = dat(ops.get("/v1/svc/targets"))
    assert (web01["group_ids"], web01["tags"], web01["tags_maps"]) == ([2], ["k=v"], {"k": "v"})
    assert (web01["group_objs"], web01["beat_time"], web01["cpu_num"]) == (None, 0, 0)
    assert (db01["ident"], db01["group_ids"]) == ("db01", None)


def test_changes(served, ops) -> None:
    body = {"idents": ["web01", "nobody"], "tags": ["k=v"]}
    assert dat(ops.post("/v1/svc/targets/tags", body)) == {"nobody": "Ident not found"}
    assert dat(ops.get("/v1/svc/targets/tags")) == ["k=v"]
    assert dat(ops.delete("/v1/svc/targets/tags", body)) == {"nobody": "Ident not found"}
    assert dat(ops.put("/v1/svc/targets/note", {"idents": ["web01"], "note": "n"})) == {}
    one, two = served.group("one"), served.group("two")
    served.bind([one], "web01", tags=["k=v"])
    assert dat(ops.put("/v1/svc/targets/bgid", {"idents": ["web01"], "bgid": two})) == {}
    host = served.hosts()["web01"]
    assert (host["note"], host["group_ids"], host["tags"]) == ("n", [two], ["k=v"])
    assert err(ops.put("/v1/svc/targets/bgid", {"idents": ["web01"], "bgid": 77})) == "No such BusiGroup"
    assert dat(ops.put("/v1/svc/targets/bgid", {"idents": ["web01"], "bgid": 0})) == {}
    assert dat(ops.delete("/v1/svc/targets", {"idents": ["web01"]})) == {}
    assert list(served.hosts()) == ["db01"]


def test_queries(served, ops) -> None:
    query = [{"key": "hosts", "op": "=~", "values": ["web*"]}]
    assert dat(ops.post("/v1/svc/target/list", {"queries": query}))["total"] == 1
    (host,) = dat(ops.post("/v1/svc/targets-of-host-query", query))
    assert (host["ident"], host["group_ids"]) == ("web01", None)
    assert "json body invalid" in err(ops.post("/v1/svc/targets-of-host-query", {"queries": query}))
    assert dat(ops.get("/v1/svc/target/extra-meta", query={"ident": "web01"}))["extend_info"] == ""


def test_hosts_of_host_rules(served, ops, caplog: pytest.LogCaptureFixture) -> None:
    served.beat("web01")
    served.beat("edge01")
    served.beat("edge01", engine_name="edge")

    def rule(rule_id: int, *queries: Any, prod: str = "host", disabled: int = 0) -> dict[str, Any]:
        return {"id": rule_id, "prod": prod, "disabled": disabled, "rule_config": {"queries": list(queries)}}

    web = {"key": "hosts", "op": "=~", "values": ["web*", "edge*"]}
    rules = [
        rule(1, web),
        rule(2),
        rule(3, web, prod="metric"),
        rule(4, web, disabled=1),
        rule(5, "broken"),
        rule(6, {**web, "values": [1]}),
        rule(7, {**web, "values": ["nothing"]}),
        {**rule(8), "rule_config": None},
    ]
    assert hosts_of_rules(rules, "default") == {"1": ["web01"], "2": ["web01"], "8": ["web01"]}
    assert hosts_of_rules(rules, "edge")["1"] == ["edge01"]
    assert [record.args[0] for record in caplog.records[-2:] if isinstance(record.args, tuple)] == [5, 6]
    served.app.core.release()
    assert dat(ops.get("/v1/svc/targets-of-alert-rule", query={"engine_name": "default"})) == {}


def test_other_processes_notice_changes(served, ops) -> None:
    def statistic() -> dict[str, int]:
        return dat(ops.get("/v1/svc/statistic", query={"name": "target"}))

    assert statistic() == {"Total": 2, "LastUpdated": NOW}
    served.clock.now += 9
    dat(ops.put("/v1/svc/targets/note", {"idents": ["web01"], "note": "n"}))
    assert statistic() == {"Total": 2, "LastUpdated": NOW + 9}


def test_hosts_and_heartbeats_of_other_processes(served, ops) -> None:
    assert dat(ops.post("/v1/svc/target-update", {"lst": ["edge01"], "now": 1})) is None
    beat = {"hostname": "edge01", "offset": 5, "remote_addr": "192.0.2.1", "engine_name": "edge"}
    for _ in range(2):
        served.flush()
        assert ops.post("/v1/svc/center/heartbeat", beat).json()["err"] == ""
    served.flush()
    host = served.hosts()["edge01"]
    assert (host["beat_time"], host["offset"], host["remote_addr"], host["engine_name"]) == (
        NOW,
        5,
        "192.0.2.1",
        "edge",
    )
    assert ops.post("/v1/svc/center/heartbeat", {}).status == 400


def test_everything_asks_for_an_account(served) -> None:
    for method, path in (
        ("GET", "/targets"),
        ("DELETE", "/targets"),
        ("POST", "/target-update"),
        ("POST", "/center/heartbeat"),
        ("POST", "/targets-of-host-query"),
    ):
        assert served.agent.request(method, "/v1/svc" + path, json={}).status == 401


def test_without_the_service_api(make_world) -> None:
    world = make_world()
    assert world.agent.post("/v1/svc/target-update", {"lst": ["a"]}).status == 401
    assert world.agent.get("/v1/svc/targets").status == 404
