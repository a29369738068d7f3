"""Business groups, the teams bound to them, and what other capabilities tell about them."""

from collections.abc import Iterable
from typing import Any

import pytest

from tocsin.access.directory import Directory
from tocsin.access.models import BusiGroup, BusiGroupMember
from tocsin.access.neighbours import ActiveEventCount, GroupHooks, HostLookup
from tocsin.plugin.testkit import dat, err


def test_a_group_from_birth_to_death(world) -> None:
    ann = world.user("ann")
    writers, readers = world.team("writers", "ann"), world.team("readers")
    members = [{"user_group_id": writers, "perm_flag": "rw"}, {"user_group_id": readers, "perm_flag": "ro"}]
    body = {"name": " prod-web ", "label_enable": 1, "label_value": " web ", "members": members}
    group = dat(ann.post("/api/svc/busi-groups", body))
    path = f"/api/svc/busi-group/{group}"
    found = dat(ann.get(path))
    assert (found["name"], found["label_enable"], found["label_value"]) == ("prod-web", 1, "web")
    assert (found["create_by"], found["update_by"], found["update_by_nickname"]) == ("ann", "ann", "")
    assert [(b["user_group"]["name"], b["perm_flag"]) for b in found["user_groups"]] == [
        ("readers", "ro"),
        ("writers", "rw"),
    ]
    assert dat(ann.put(path, {"name": "prod", "label_enable": 0, "label_value": "web"})) is None
    found = dat(ann.get(path))
    assert (found["name"], found["label_enable"], found["label_value"]) == ("prod", 0, "")
    binding = {"busi_group_id": group, "user_group_id": readers, "perm_flag": "rw"}
    assert dat(ann.post(f"{path}/members", [binding])) is None
    assert {b["perm_flag"] for b in dat(ann.get(path))["user_groups"]} == {"rw"}
    assert dat(ann.delete(f"{path}/members", [binding])) is None
    last = {"busi_group_id": group, "user_group_id": writers}
    assert err(ann.delete(f"{path}/members", [last])) == "the business group must retain at least one team"
    assert len(dat(ann.get(path))["user_groups"]) == 1
    assert dat(ann.delete(path)) is None
    assert err(ann.get(path)) == "No such BusiGroup"
    assert not BusiGroupMember.select().where(BusiGroupMember.busi_group_id == group).exists()


def test_removing_all_teams_removes_none(world) -> None:
    one, two = world.team("one"), world.team("two")
    group = world.group("prod", rw=one, ro=two)
    both = [{"busi_group_id": group, "user_group_id": team} for team in (one, two)]
    assert "at least one team" in err(world.root.delete(f"/api/svc/busi-group/{group}/members", both))
    assert len(dat(world.root.get(f"/api/svc/busi-group/{group}"))["user_groups"]) == 2


RW = [{"user_group_id": 1, "perm_flag": "rw"}]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": "Default Busi Group"}, "BusiGroup already exists"),
        ({"label_value": "web"}, "BusiGroup already exists"),
        ({"label_value": " "}, "label_value: got an empty text, expected a value while label_enable is 1"),
        ({"name": ""}, "json body invalid: name: required"),
        ({"name": "  "}, "Name is blank"),
        ({"name": "x" * 192}, "Name: got 192 characters, expected at most 191"),
        ({"label_enable": 2}, "json body invalid: label_enable: got 2, expected 0 or 1"),
        ({"label_enable": "1"}, "json body invalid: label_enable: got a text, expected an integer"),
        ({"members": []}, "members empty"),
        ({"members": None}, "members empty"),
        ({"members": [{"user_group_id": 1, "perm_flag": "ro"}]}, "At least one team have rw permission"),
        ({"members": [*RW, {"user_group_id": 99, "perm_flag": "ro"}]}, "Some UserGroup id not exists"),
        (
            {"members": [{"user_group_id": 1, "perm_flag": "rx"}]},
            "json body invalid: members.0.perm_flag: got 'rx', expected 'ro' or 'rw'",
        ),
        ({"members": [1]}, "json body invalid: members.0: got 1, expected an object"),
    ],
)
def test_bad_groups(world, changes: dict[str, Any], text: str) -> None:
    labelled = {"name": "web", "label_enable": 1, "label_value": "web", "members": RW}
    dat(world.root.post("/api/svc/busi-groups", labelled))
    body = {"name": "new", "label_enable": 1, "label_value": "new", "members": RW, **changes}
    assert err(world.root.post("/api/svc/busi-groups", body)) == text
    assert BusiGroup.select().count() == 2
    if "members" not in changes:
        third = world.group("third", rw=1)
        assert err(world.root.put(f"/api/svc/busi-group/{third}", body)) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "json body invalid: json: cannot unmarshal object into Go value of type []models.BusiGroupMember"),
        ([{"busi_group_id": 2, "user_group_id": 1, "perm_flag": "rw"}], "business group id invalid"),
        ([{"busi_group_id": 1, "user_group_id": 9, "perm_flag": "rw"}], "Some UserGroup id not exists"),
        (
            [{"busi_group_id": 1, "user_group_id": 1, "perm_flag": ""}],
            "json body invalid: 0.perm_flag: got '', expected 'ro' or 'rw'",
        ),
        (
            [{"busi_group_id": 1, "user_group_id": 1}],
            "json body invalid: 0.perm_flag: Missing data for required field.",
        ),
    ],
)
def test_bad_bindings(world, body: Any, text: str) -> None:
    assert err(world.root.post("/api/svc/busi-group/1/members", body)) == text


def test_an_update_without_change_writes_nothing(make_world) -> None:
    now = [1_700_000_000.0]
    world = make_world(clock=lambda: now[0])
    now[0] += 100
    dat(world.root.put("/api/svc/busi-group/1", {"name": "Default Busi Group"}))
    assert dat(world.root.get("/api/svc/busi-group/1"))["update_at"] == 1_700_000_000
    dat(world.root.put("/api/svc/busi-group/1", {"name": "Renamed"}))
    assert dat(world.root.get("/api/svc/busi-group/1"))["update_at"] == 1_700_000_100


def test_who_sees_which_groups(world) -> None:
    ann = world.user("ann")
    team = world.team("sre", "ann")
    world.group("prod", rw=team)
    world.group("beta", rw=world.team("others"), ro=team)
    world.group("alien_1%", rw=world.team("aliens"))

    def names(client: Any, **query: Any) -> list[str]:
        return [group["name"] for group in dat(client.get("/api/svc/busi-groups", query=query))]

    assert names(ann) == ["beta", "prod"]
    assert names(ann, query="alien") == []
    assert names(ann, all="true") == ["Default Busi Group", "alien_1%", "beta", "prod"]
    assert names(world.root) == ["Default Busi Group", "alien_1%", "beta", "prod"]
    assert names(world.root, limit=2) == ["Default Busi Group", "alien_1%"]
    assert names(world.root, query="%") == ["alien_1%"]
    listed = dat(ann.get("/api/svc/busi-groups"))[0]
    assert (listed["user_groups"], listed["update_by_nickname"]) == (None, "Admin")
    directory = world.app.core.get(Directory)
    caller = directory.caller("ann")
    names_of = directory.group_names()
    assert {names_of[group] for group in directory.readable_group_ids(caller)} == {"beta", "prod"}
    assert {names_of[group] for group in directory.writable_group_ids(caller)} == {"prod"}
    assert len(directory.writable_group_ids(directory.caller("root"))) == 4
    assert [u.username for u in directory.members_of_teams([team, 1, 999])] == ["ann", "root"]
    assert directory.caller("nobody") is None


def test_permissions_on_one_group(world) -> None:
    clients = {name: world.user(name) for name in ("writer", "reader", "stranger")}
    clients["root"] = world.root
    group = world.group("prod", rw=world.team("writers", "writer"), ro=world.team("readers", "reader"))

    def asked(name: str, flag: str) -> bool:
        return bool(dat(clients[name].get(f"/api/svc/busi-group/{group}/perm/{flag}")))

    assert {(name, flag): asked(name, flag) for name in clients for flag in ("ro", "rw")} == {
        ("writer", "ro"): True,
        ("writer", "rw"): True,
        ("reader", "ro"): True,
        ("reader", "rw"): False,
        ("stranger", "ro"): False,
        ("stranger", "rw"): False,
        ("root", "ro"): True,
        ("root", "rw"): True,
    }
    assert err(world.root.get("/api/svc/busi-group/999/perm/ro")) == "No such BusiGroup"
    assert err(world.root.get(f"/api/svc/busi-group/{group}/perm/x")) == "perm: got 'x', expected 'ro' or 'rw'"


def test_other_teams_groups_are_out_of_reach(world) -> None:
    ann = world.user("ann")
    group = world.group("theirs", rw=world.team("them"))
    path = f"/api/svc/busi-group/{group}"
    binding = [{"busi_group_id": group, "user_group_id": 1, "perm_flag": "rw"}]
    for answer in (
        ann.get(path),
        ann.put(path, {"name": "mine"}),
        ann.delete(path),
        ann.post(f"{path}/members", binding),
        ann.delete(f"{path}/members", binding),
    ):
        assert (err(answer), answer.headers["x-error-code"]) == ("forbidden", "forbidden")
    assert err(ann.delete("/api/svc/busi-group/999")) == "No such BusiGroup"


def test_a_group_that_owns_something_stays(world) -> None:
    hooks, owned = world.app.core.get(GroupHooks), {"targets": 1, "alert rules": 2}
    hooks.refuse_while("targets", 5, lambda group: owned["targets"])
    hooks.refuse_while("alert rules", 1, lambda group: owned["alert rules"])
    answer = world.root.delete("/api/svc/busi-group/1")
    assert (err(answer), answer.headers["x-error-code"]) == ("Some alert rules still in the BusiGroup", "conflict")
    owned["alert rules"] = 0
    assert err(world.root.delete("/api/svc/busi-group/1")) == "Some targets still in the BusiGroup"
    assert dat(world.root.get("/api/svc/busi-group/1"))["user_groups"]
    owned["targets"] = 0
    assert dat(world.root.delete("/api/svc/busi-group/1")) is None


class Hosts:
    """Two hosts: web-1 in group 1, db-1 in group 2."""

    def tags_of_groups(self, group_ids: Iterable[int]) -> set[str]:
        tags = {1: {"env=prod", "busigroup=web"}, 2: {"env=beta", "a=b"}}
        wanted = list(group_ids) or list(tags)
        return {tag for group in wanted for tag in tags.get(group, set())}

    def groups_of_host(self, ident: str) -> list[int]:
        return {"web-1": [1], "db-1": [2]}.get(ident, [])


def test_hosts_of_groups(world) -> None:
    ann = world.user("ann")
    world.group("theirs", rw=world.team("them"))
    assert dat(ann.get("/api/svc/busi-groups/tags")) == []
    assert dat(ann.get("/api/svc/busi-groups", query={"query": "web-1"})) == []
    world.app.core.provide(Hosts(), HostLookup)

    def tags(gids: str, client: Any = world.root) -> list[str]:
        return dat(client.get("/api/svc/busi-groups/tags", query={"gids": gids}))

    assert tags("1") == ["busigroup=web", "env=prod"]
    assert tags("") == tags("77") == ["busigroup=web", "a=b", "env=beta", "env=prod"]
    assert tags("1", ann) == tags("", ann) == []
    assert err(ann.get("/api/svc/busi-groups/tags", query={"gids": "1,x"})) == "cannot convert x to int64"

    def groups(client: Any, ident: str) -> list[int]:
        return [group["id"] for group in dat(client.get("/api/svc/busi-groups", query={"query": ident}))]

    assert groups(world.root, "db-1") == [2]
    assert groups(ann, "db-1") == []
    dat(world.root.post("/api/svc/user-group/2/members", {"ids": [world.user_id("ann")]}))
    assert groups(ann, "db-1") == [2]
    assert tags("", ann) == tags("1,2", ann) == ["a=b", "env=beta"]
    assert groups(world.root, "unknown") == []


def test_active_events_of_groups(world) -> None:
    assert dat(world.root.get("/api/svc/busi-groups/alertings", query={"ids": "1,2"})) == {}

    class Events:
        def active_by_group(self, group_ids: Iterable[int]) -> dict[int, int]:
            return {group: 3 for group in group_ids if group == 1}

    world.app.core.provide(Events(), ActiveEventCount)
    assert dat(world.root.get("/api/svc/busi-groups/alertings", query={"ids": "1,2"})) == {"1": 3}
    assert dat(world.root.get("/api/svc/busi-groups/alertings")) == {}
