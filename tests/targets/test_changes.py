"""Changing hosts: tags, notes, groups, removal, and who may."""

from collections.abc import Mapping
from typing import Any

import pytest

from tocsin.plugin.testkit import WsgiClient, dat, err

NOW = 1_760_000_000


@pytest.fixture
def hosts(world):
    world.known("a", "b", "c")
    return world


def tag(client: WsgiClient, idents: list[str], *tags: str) -> Any:
    return client.post("/api/svc/targets/tags", {"idents": idents, "tags": list(tags)})


def test_tags_are_added_sorted_and_removed_whole(hosts) -> None:
    hosts.clock.now += 5
    assert dat(tag(hosts.root, ["a", "nobody"], "xa=b", " role = web ")) == {"nobody": "Ident not found"}
    host = hosts.hosts()["a"]
    assert (host["tags"], host["update_at"]) == (["role=web", "xa=b"], NOW + 5)
    assert dat(tag(hosts.root, ["a", "b"], "role=db", "z=1")) == {"a": "duplicate tagkey(role)"}
    assert [hosts.hosts()[ident]["tags"] for ident in "abc"] == [["role=web", "xa=b"], ["role=db", "z=1"], []]
    body = {"idents": ["a", "b"], "tags": ["a=b", "role=db"]}
    assert dat(hosts.root.delete("/api/svc/targets/tags", body)) == {}
    assert [hosts.hosts()[ident]["tags"] for ident in "ab"] == [["role=web", "xa=b"], ["z=1"]]


def test_a_key_of_the_collector_counts_too(hosts) -> None:
    hosts.beat("a", global_labels={"env": "prod"})
    assert dat(tag(hosts.root, ["a"], "env=test")) == {"a": "duplicate tagkey(env)"}
    dat(hosts.root.delete("/api/svc/targets/tags", {"idents": ["a"], "tags": ["env=prod"]}))
    assert hosts.hosts()["a"]["host_tags"] == ["env=prod"]


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        (["ab"], "invalid tag format: ab (expected format: key=value)"),
        (["a=b=c"], "invalid tag format: a=b=c"),
        (["=b"], "invalid tag: key is empty in tag =b"),
        (["a= "], "invalid tag: value is empty in tag a= "),
        (["a-b=c"], "invalid tag key: a-b ("),
        (["1a=c"], "invalid tag key: 1a ("),
        (["é=c"], "invalid tag key: é ("),
        (["a=1", "a=2"], "one key twice"),
        (["a=" + "x" * 512], "expected at most 512"),
        ([], "tags: got a length of 0, expected at least 1"),
        (None, "tags"),
        ([1], "tags"),
    ],
)
def test_what_is_no_tag(hosts, tags: Any, text: str) -> None:
    answer = hosts.root.post("/api/svc/targets/tags", {"idents": ["a"], "tags": tags})
    assert text in err(answer)
    assert hosts.hosts()["a"]["tags"] == []


def test_tags_with_blanks_and_quotes(hosts) -> None:
    dat(tag(hosts.root, ["a"], 'room=B "2" ünï'))
    assert hosts.hosts()["a"]["tags_maps"] == {"room": 'B "2" ünï'}
    assert list(hosts.hosts(query='"2"')) == ["a"]


def test_hosts_by_address(hosts) -> None:
    for ident in "ab":
        hosts.beat(ident, host_ip="10.0.0.1")
    body = {"idents": ["c"], "host_ips": ["10.0.0.1", "10.9.9.9", ""], "note": "n"}
    answer = dat(hosts.root.put("/api/svc/targets/note", body))
    assert answer == {"10.9.9.9": "HostIp not found", "": "HostIp not found"}
    assert {host["note"] for host in hosts.hosts().values()} == {"n"}
    nobody: Mapping[str, list[str] | None]
    for nobody in ({}, {"idents": [], "host_ips": None}):
        answer = hosts.root.put("/api/svc/targets/note", {**nobody, "note": "n"})
        assert err(answer) == "idents or host_ips must be provided"
    assert "note: got a length of 256, expected at most 255" in err(
        hosts.root.put("/api/svc/targets/note", {**body, "note": "x" * 256})
    )


def test_groups(hosts) -> None:
    one, two = hosts.group("one"), hosts.group("two")

    def groups(ident: str) -> list[int]:
        return hosts.hosts()[ident]["group_ids"]

    assert hosts.bind(one, "a", "nobody", tags=["busigroup=one"]) == {"nobody": "Ident not found"}
    assert hosts.bind([one, two], "a", "b", tags=["busigroup=one"]) == {}
    assert (groups("a"), groups("b"), groups("c")) == ([one, two], [one, two], [])
    assert hosts.hosts()["a"]["tags"] == ["busigroup=one"]
    hosts.bind(one, "a", action="del", tags=["x=y"])
    assert (groups("a"), hosts.hosts()["a"]["tags"]) == ([two], ["busigroup=one"])
    hosts.bind(one, "a", "b", action="reset", tags=["x=y", "busigroup=two"])
    assert (groups("a"), groups("b"), hosts.hosts()["a"]["tags"]) == ([one], [one], ["busigroup=two", "x=y"])
    hosts.clock.now += 7
    hosts.bind([], "a", action="reset", tags=["gone=1"])
    host = hosts.hosts()["a"]
    assert (host["group_ids"], host["tags"], host["update_at"]) == ([], ["busigroup=two", "x=y"], NOW + 7)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"action": "add", "bgids": []}, "empty slice found"),
        ({"action": "add", "bgids": [77]}, "No such BusiGroup"),
        ({"action": "add", "bgids": ["1"]}, "bgids"),
        ({"action": "add", "bgids": [1 << 40]}, "bgids"),
        ({"action": "move", "bgids": [1]}, "invalid action"),
        ({"bgids": [1]}, "invalid action"),
        ({"action": "add", "bgids": [1], "idents": []}, "idents or host_ips must be provided"),
    ],
)
def test_bad_bindings(hosts, change: dict[str, Any], text: str) -> None:
    hosts.group("one")
    assert text in err(hosts.root.put("/api/svc/targets/bgids", {"idents": ["a"], **change}))
    assert hosts.hosts()["a"]["group_ids"] == []


def test_a_group_with_hosts_stays(hosts) -> None:
    one = hosts.group("one")
    hosts.bind(one, "a")
    assert err(hosts.root.delete(f"/api/svc/busi-group/{one}")) == "Some targets still in the BusiGroup"
    dat(hosts.root.delete("/api/svc/targets", {"idents": ["a"]}))
    dat(hosts.root.delete(f"/api/svc/busi-group/{one}"))


def test_removed_hosts_come_back_without_what_they_had(hosts) -> None:
    hosts.bind(hosts.group("one"), "a", tags=["x=y"])
    assert dat(hosts.root.delete("/api/svc/targets", {"idents": ["a", "nobody"]})) == {"nobody": "Ident not found"}
    assert list(hosts.hosts()) == ["b", "c"]
    assert err(hosts.root.delete("/api/svc/targets", {"idents": ["a"]})) == "idents cannot be empty"
    hosts.beat("a")
    host = hosts.hosts()["a"]
    assert (host["group_ids"], host["tags"]) == ([], [])


def test_seen_by_hand(hosts) -> None:
    when = {"lst": ["a", "new"], "now": NOW - 500}
    dat(hosts.root.post("/api/svc/target-update", when))
    assert {ident: host["beat_time"] for ident, host in hosts.hosts().items()} == {
        "a": NOW - 500,
        "b": NOW,
        "c": NOW,
        "new": NOW - 500,
    }
    for bad in (NOW + 61, -1):
        assert "now: got" in err(hosts.root.post("/api/svc/target-update", {"lst": ["a"], "now": bad}))
    for names in ([""], ["x" * 192], [1], "a"):
        assert "lst" in err(hosts.root.post("/api/svc/target-update", {"lst": names, "now": NOW}))


# --- rights ---


@pytest.fixture
def shared(hosts):
    """Host a is in a group that ann changes and bob reads, b in one of nobody's, c in none."""
    ann, bob = hosts.user("ann"), hosts.user("bob")
    mine, other = hosts.group("mine", ann="rw", bob="ro"), hosts.group("other")
    hosts.bind(mine, "a")
    hosts.bind(other, "b")
    return hosts, ann, bob, mine, other


def test_writing_asks_for_a_group_of_the_host(shared) -> None:
    _, ann, bob, _, _ = shared
    for client, idents, allowed in (
        (ann, ["a"], True),
        (bob, ["a"], False),
        (ann, ["a", "b"], False),
        (ann, ["a", "c"], False),
        (ann, ["c"], False),
    ):
        calls = (
            ("POST", "/targets/tags", {"tags": ["k=v"]}),
            ("DELETE", "/targets/tags", {"tags": ["k=v"]}),
            ("PUT", "/targets/note", {"note": "x"}),
        )
        for method, path, body in calls:
            answer = client.request(method, "/api/svc" + path, json={"idents": idents, **body})
            assert (answer.json()["err"] == "") is allowed, (method, path, idents)
            assert allowed or answer.headers["x-error-code"] == "forbidden"
    assert err(ann.delete("/api/svc/targets", {"idents": ["a", "b"]})) == "forbidden"
    assert dat(ann.delete("/api/svc/targets", {"idents": ["a"]})) == {}


def test_points(shared) -> None:
    world, *_ = shared
    guest = world.user("guest", "Guest")
    for method, path in (
        ("POST", "/targets/tags"),
        ("DELETE", "/targets/tags"),
        ("PUT", "/targets/note"),
        ("PUT", "/targets/bgids"),
        ("DELETE", "/targets"),
    ):
        assert err(guest.request(method, "/api/svc" + path, json={"idents": ["c"]})) == "forbidden"


def test_binding_rights(shared) -> None:
    world, ann, bob, mine, other = shared

    def change(client: WsgiClient, ident: str, action: str, *groups: int) -> str:
        body = {"idents": [ident], "bgids": list(groups), "action": action}
        return client.put("/api/svc/targets/bgids", body).json()["err"]

    assert change(bob, "c", "add", mine) == "forbidden"
    assert change(ann, "c", "add", other) == "forbidden"
    assert change(ann, "c", "add", mine, other) == "forbidden"
    assert change(ann, "c", "add", mine) == ""
    assert change(ann, "b", "add", mine) == "forbidden"
    assert change(ann, "b", "reset", mine) == "forbidden"
    world.bind(other, "a")
    assert change(ann, "a", "reset", mine) == "forbidden"
    assert change(ann, "a", "reset") == "forbidden"
    assert change(ann, "a", "del", other) == "forbidden"
    assert change(ann, "a", "del", mine) == ""
    assert change(ann, "a", "add", mine) == "forbidden"
    assert change(ann, "c", "reset") == ""


def test_nobody_vouches_for_hosts_of_others(shared) -> None:
    _, ann, bob, _, _ = shared
    assert err(bob.post("/api/svc/target-update", {"lst": ["a"], "now": NOW})) == "forbidden"
    assert err(ann.post("/api/svc/target-update", {"lst": ["b"], "now": NOW})) == "forbidden"
    assert dat(ann.post("/api/svc/target-update", {"lst": ["a", "c", "fresh"], "now": NOW})) is None
