"""Reading hosts: the list with its filters, host queries, numbers, tags, and who sees what."""

from typing import Any

import pytest

from tocsin.plugin.testkit import dat, err
from tocsin.targets.pulse import SEEN

NOW = 1_760_000_000
SHOP, DATA = 2, 3
"""Ids of the groups below; group 1 is there from the start."""


@pytest.fixture
def fleet(world):
    """Five hosts: web01 and web02 in "shop", db01 in "shop" and "data", cache_1 in "data", spare in no group."""
    world.beat("web01", host_ip="10.0.0.1", os="linux")
    world.beat("web01", host_ip="10.0.0.1", os="linux", global_labels={"env": "prod"}, cpu_num=4, cpu_util=19.9)
    world.known("web02", "db01", "cache_1", "spare")
    assert (world.group("shop"), world.group("data")) == (SHOP, DATA)
    world.bind(SHOP, "web01", "web02", "db01")
    world.bind(DATA, "db01", "cache_1")
    dat(world.root.post("/api/svc/targets/tags", {"idents": ["web01", "web02"], "tags": ["role=web"]}))
    dat(world.root.put("/api/svc/targets/note", {"idents": ["db01"], "note": "Main 100% database"}))
    return world


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, "cache_1 db01 spare web01 web02"),
        ({"query": "web"}, "web01 web02"),
        ({"query": "WEB01"}, "web01"),
        ({"query": "role=web -env=prod"}, "web02"),
        ({"query": "100%"}, "db01"),
        ({"query": "cache_"}, "cache_1"),
        ({"query": "b_1"}, ""),
        ({"query": '"'}, ""),
        ({"query": "10.0.0.1"}, "web01"),
        ({"query": "linux"}, "web01"),
        ({"query": "-"}, ""),
        ({"hosts": "web01, db01\n10.0.0.1"}, "db01 web01"),
        ({"hosts": "web01, "}, "web01"),
        ({"gids": "0"}, "spare"),
        ({"gids": f"0,{DATA}"}, "cache_1 db01 spare"),
        ({"gids": f"{SHOP},{DATA}"}, "cache_1 db01 web01 web02"),
        ({"gids": f"{SHOP}", "query": "db"}, "db01"),
        ({"datasource_ids": "1,x"}, "cache_1 db01 spare web01 web02"),
    ],
)
def test_filters(fleet, query: dict[str, str], found: str) -> None:
    assert " ".join(fleet.hosts(**query)) == found


def test_pages_and_order(fleet) -> None:
    def page(**query: Any) -> tuple[str, int]:
        answer = dat(fleet.root.get("/api/svc/targets", query=query))
        return " ".join(host["ident"] for host in answer["list"]), answer["total"]

    assert page(limit=2) == ("cache_1 db01", 5)
    assert page(limit=2, p=3) == ("web02", 5)
    assert page(order="id", limit=3) == ("web01 cache_1 db01", 5)
    assert page(order="ident", desc="true", limit=2) == ("web02 web01", 5)
    assert page(order="target.note", desc="1", limit=1) == ("db01", 5)
    assert page(order="id; drop table target", limit=1) == ("cache_1", 5)
    assert page(order="0x41", limit=1) == ("cache_1", 5)
    assert err(fleet.root.get("/api/svc/targets", query={"order": "secret"})).startswith("order: got 'secret'")
    assert "limit" in err(fleet.root.get("/api/svc/targets", query={"limit": -1}))


def test_by_when_they_were_last_seen(fleet) -> None:
    fleet.clock.now += 100
    fleet.beat("web02")
    assert list(fleet.hosts(downtime=60)) == ["cache_1", "db01", "spare", "web01"]
    assert list(fleet.hosts(downtime=100)) == []
    assert list(fleet.hosts(downtime=-60)) == ["web02"]
    assert list(fleet.hosts(downtime=-100)) == ["cache_1", "db01", "spare", "web01", "web02"]
    answer = dat(fleet.root.get("/api/svc/targets", query={"downtime": 60, "limit": 2, "p": 2, "desc": "on"}))
    assert ([host["ident"] for host in answer["list"]], answer["total"]) == (["db01", "cache_1"], 4)
    fleet.app.core.cache.delete(SEEN + "web02")
    assert "web02" not in fleet.hosts(downtime=-1000)
    assert fleet.hosts(downtime=10**9)["web02"]["target_up"] == 0


def test_a_host_as_it_is_shown(fleet) -> None:
    host = fleet.hosts()["db01"]
    shop, data = host.pop("group_objs")
    assert (shop["name"], data["name"], shop["user_groups"]) == ("shop", "data", None)
    assert {"label_enable", "label_value", "create_at", "create_by", "update_at", "update_by"} <= shop.keys()
    assert host == {
        "id": 3,
        "group_id": 0,
        "group_ids": [SHOP, DATA],
        "group_names": None,
        "ident": "db01",
        "note": "Main 100% database",
        "tags": [],
        "host_tags": None,
        "tags_maps": {},
        "update_at": NOW,
        "host_ip": "",
        "agent_version": "",
        "engine_name": "",
        "os": "",
        "beat_time": NOW,
        "target_up": 2,
        "unixtime": 0,
        "offset": 0,
        "cpu_num": -1,
        "cpu_util": 0,
        "mem_util": 0,
        "arch": "",
        "remote_addr": "",
    }
    spare = fleet.hosts()["spare"]
    assert (spare["group_ids"], spare["group_objs"]) == ([], None)


def queried(client: Any, *queries: dict[str, Any], **more: Any) -> str:
    answer = dat(client.post("/api/svc/target/list", {"queries": list(queries), **more}))
    return " ".join(host["ident"] for host in answer["list"])


def clause(key: str, op: str, *values: Any) -> dict[str, Any]:
    return {"key": key, "op": op, "values": list(values)}


@pytest.mark.parametrize(
    ("queries", "found"),
    [
        ([], "cache_1 db01 spare web01 web02"),
        ([clause("all_hosts", "==")], "cache_1 db01 spare web01 web02"),
        ([clause("moon", "==", "full")], "cache_1 db01 spare web01 web02"),
        ([clause("group_ids", "==", DATA, 0)], "cache_1 db01 spare"),
        ([clause("group_ids", "!=", DATA)], "spare web01 web02"),
        ([clause("group_ids", "!=", 0)], "cache_1 db01 web01 web02"),
        ([clause("group_ids", "!=", 0, DATA)], "web01 web02"),
        ([clause("group_ids", "==")], "cache_1 db01 spare web01 web02"),
        ([clause("tags", "==", "role=web")], "web01 web02"),
        ([clause("tags", "==", "env=prod", None)], "web01"),
        ([clause("tags", "!=", "env=prod")], "cache_1 db01 spare web02"),
        ([clause("tags", "!=", "env=prod", "role=web")], "cache_1 db01 spare"),
        ([clause("hosts", "==", "web01", "nobody")], "web01"),
        ([clause("hosts", "==")], ""),
        ([clause("hosts", "!=", "web01", None)], "cache_1 db01 spare web02"),
        ([clause("hosts", "=~", "web*", "*_1")], "cache_1 web01 web02"),
        ([clause("hosts", "=~", "eb*")], ""),
        ([clause("hosts", "=~", "web_1", "%")], ""),
        ([clause("hosts", "!~", "*0*")], "cache_1 spare"),
        ([clause("hosts", "~", "web01")], "cache_1 db01 spare web01 web02"),
        ([clause("group_ids", "==", SHOP), clause("hosts", "=~", "web*"), clause("tags", "!=", "env=prod")], "web02"),
    ],
)
def test_host_queries(fleet, queries: list[dict[str, Any]], found: str) -> None:
    assert queried(fleet.root, *queries) == found


def test_host_query_pages_and_faults(fleet) -> None:
    assert queried(fleet.root, limit=2, p=2) == "spare web01"
    answer = dat(fleet.root.post("/api/svc/target/list", {"queries": [], "p": 1, "limit": 1}))
    (host,) = answer["list"]
    assert (answer["total"], host["ident"], host["target_up"], host["cpu_num"]) == (5, "cache_1", 2, 0)
    for bad in (clause("group_ids", "==", "SHOP"), clause("tags", "==", 5), clause("hosts", "=~", {})):
        assert "queries.values" in err(fleet.root.post("/api/svc/target/list", {"queries": [bad]}))
    assert "queries" in err(fleet.root.post("/api/svc/target/list", {"queries": [1]}))
    assert "p: got" in err(fleet.root.post("/api/svc/target/list", {"p": 1 << 53, "limit": 1 << 53}))


def test_statistics(fleet) -> None:
    fleet.clock.now += 200
    fleet.beat("db01", cpu_num=2, cpu_util=80, mem_util=100, agent_version="v1")
    fleet.beat("db01", cpu_num=2, cpu_util=80, mem_util=100, agent_version="v1")
    assert dat(fleet.root.get("/api/svc/targets/stats")) == {
        "count": 5,
        "alive_count": 1,
        "dead_count": 4,
        "cpu_usage": {"-1": 3, "20": 1, "40": 0, "60": 0, "80": 0, "100": 1},
        "mem_usage": {"-1": 3, "20": 1, "40": 0, "60": 0, "80": 0, "100": 1},
        "versions": {"unknown": 4, "v1": 1},
    }
    assert dat(fleet.root.get("/api/svc/targets/stats", query={"gids": DATA}))["count"] == 2


def test_tags(fleet) -> None:
    def tags(**query: Any) -> list[str]:
        return dat(fleet.root.get("/api/svc/targets/tags", query=query))

    assert tags() == ["env=prod", "role=web"]
    assert tags(ignore_host_tag="true") == ["role=web"]
    assert tags(idents="db01 web02,spare") == ["role=web"]
    assert tags(idents="nobody") == []
    assert dat(fleet.root.get("/api/svc/busi-groups/tags", query={"gids": f"{SHOP}"})) == ["role=web"]


def test_people_see_the_hosts_of_their_groups_and_of_none(fleet) -> None:
    ann = fleet.user("ann")
    assert list(fleet.hosts(ann)) == ["spare"]
    assert err(ann.get("/api/svc/targets", query={"gids": DATA})) == "forbidden"
    assert err(ann.get("/api/svc/targets/stats", query={"gids": f"0,{DATA}"})) == "forbidden"
    assert err(ann.get("/api/svc/targets", query={"gids": "77"})) == "No such BusiGroup"
    assert err(ann.get("/api/svc/target/extra-meta", query={"ident": "web01"})) == "forbidden"
    assert dat(ann.get("/api/svc/targets/tags")) == []
    assert queried(ann) == "spare"
    data = [{"user_group_id": fleet.teams["ann"], "perm_flag": "ro", "busi_group_id": DATA}]
    dat(fleet.root.post(f"/api/svc/busi-group/{DATA}/members", data))
    assert list(fleet.hosts(ann)) == ["cache_1", "db01", "spare"]
    assert list(fleet.hosts(ann, gids=DATA)) == ["cache_1", "db01"]
    assert queried(ann, clause("hosts", "=~", "*01")) == "db01"
    assert dat(ann.get("/api/svc/targets/stats"))["count"] == 3
    assert dat(ann.get("/api/svc/target/extra-meta", query={"ident": "db01"})) == {"ident": "db01", "extend_info": ""}
    dat(fleet.root.delete(f"/api/svc/busi-group/{DATA}/members", data))
    assert list(fleet.hosts(ann)) == ["spare"]


def test_nothing_without_login(fleet) -> None:
    for path in ("/targets", "/targets/stats", "/targets/tags", "/target/extra-meta"):
        assert err(fleet.app.client.get("/api/svc" + path)) == "unauthorized"


def test_groups_of_a_host_name(fleet) -> None:
    found = dat(fleet.root.get("/api/svc/busi-groups", query={"query": "db01"}))
    assert [group["name"] for group in found] == ["data", "shop"]
