"""Teams and their members."""

from typing import Any

import pytest

from tocsin.access.models import BusiGroupMember, TeamMember
from tocsin.plugin.testkit import dat, err


def test_a_team_from_birth_to_death(world) -> None:
    ann, bob = world.user("ann"), world.user("bob")
    team = dat(ann.post("/api/svc/user-groups", {"name": " sre ", "note": "on call"}))
    path = f"/api/svc/user-group/{team}"
    found = dat(ann.get(path))
    assert [user["username"] for user in found["users"]] == ["ann"]
    assert found["users"][0]["user_groups"] is None
    about = found["user_group"]
    assert (about["name"], about["note"], about["create_by"], about["users"], about["busi_groups"]) == (
        *("sre", "on call", "ann"),
        *(None, []),
    )
    group = world.group("prod", rw=team)
    assert [g["id"] for g in dat(ann.get(path))["user_group"]["busi_groups"]] == [group]
    ids = [world.user_id("bob"), world.user_id("bob"), 999]
    assert dat(ann.post(f"{path}/members", {"ids": ids})) is None
    assert dat(ann.post(f"{path}/members", {"ids": ids})) is None
    assert [user["username"] for user in dat(bob.get(path))["users"]] == ["ann", "bob"]
    assert dat(bob.put(path, {"name": "ops"})) is None
    listed = next(t for t in dat(world.root.get("/api/svc/user-groups")) if t["id"] == team)
    assert (listed["name"], listed["note"], listed["update_by"], listed["users"]) == ("ops", "", "bob", None)
    assert dat(ann.delete(f"{path}/members", {"ids": [world.user_id("bob"), 999]})) is None
    assert err(bob.get(path)) == "forbidden"
    assert dat(ann.delete(path)) is None
    assert err(ann.get(path)) == "No such UserGroup"
    assert not TeamMember.select().where(TeamMember.group_id == team).exists()
    assert not BusiGroupMember.select().where(BusiGroupMember.user_group_id == team).exists()
    assert dat(world.root.get(f"/api/svc/busi-group/{group}"))["user_groups"] is None


def test_who_sees_which_teams(world) -> None:
    ann = world.user("ann")
    world.user("bob")
    dat(ann.post("/api/svc/user-groups", {"name": "made-by-ann"}))
    joined, other = world.team("joined", "ann"), world.team("other", "bob")

    def names(client: Any, **query: Any) -> list[str]:
        return [team["name"] for team in dat(client.get("/api/svc/user-groups", query=query))]

    assert names(ann) == ["joined", "made-by-ann"]
    assert names(ann, query="oth") == []
    assert names(world.root) == ["demo-root-group", "joined", "made-by-ann", "other"]
    assert names(world.root, limit=2) == ["demo-root-group", "joined"]
    assert names(world.root, query="o") == ["demo-root-group", "joined", "other"]
    assert names(world.root, query="bob") == ["other"]  # no team is called so: the teams of that user
    assert names(ann, query="bob") == []
    me = world.user_id("ann")
    dat(ann.delete(f"/api/svc/user-group/{joined}/members", {"ids": [me]}))
    assert names(ann) == ["made-by-ann"]
    assert err(ann.get(f"/api/svc/user-group/{other}")) == "forbidden"


def test_the_maker_keeps_access_after_leaving(world) -> None:
    ann = world.user("ann")
    team = dat(ann.post("/api/svc/user-groups", {"name": "mine"}))
    dat(ann.delete(f"/api/svc/user-group/{team}/members", {"ids": [world.user_id("ann")]}))
    assert dat(ann.get(f"/api/svc/user-group/{team}"))["users"] == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"name": "demo-root-group"}, "UserGroup already exists"),
        ({"name": "a&b"}, "Name has invalid characters"),
        ({"name": "a", "note": "<b>"}, "Note has invalid characters"),
        ({"name": " "}, "Name is blank"),
        ({"name": "x" * 129}, "Name: got 129 characters, expected at most 128"),
        ({"note": "x"}, "json body invalid: name: Missing data for required field."),
        ({"name": {}}, "json body invalid: name: got an object, expected a text"),
    ],
)
def test_bad_teams(world, body: dict[str, Any], text: str) -> None:
    mine = world.team("mine")
    assert err(world.root.post("/api/svc/user-groups", body)) == text
    assert err(world.root.put(f"/api/svc/user-group/{mine}", body)) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"ids": []}, "ids empty"),
        ({}, "ids empty"),
        ({"ids": ["1"]}, "json body invalid: ids.0: got a text, expected an integer"),
        ({"ids": 1}, "json body invalid: ids: got 1, expected an array"),
        ([1], "json body invalid: json: cannot unmarshal array into Go value of type idsForm"),
    ],
)
def test_bad_members(world, body: Any, text: str) -> None:
    for send in (world.root.post, world.root.delete):
        assert err(send("/api/svc/user-group/1/members", body)) == text


def test_changing_needs_the_point_and_the_team(world) -> None:
    guest = world.user("guest", "Guest")
    world.user("standard")
    team = world.team("sre", "guest")
    path = f"/api/svc/user-group/{team}"
    for client, expected in ((guest, "forbidden"), (world.app.login("standard", ""), "forbidden")):
        assert err(client.put(path, {"name": "x"})) == expected
        assert err(client.post(f"{path}/members", {"ids": [1]})) == expected
        assert err(client.delete(f"{path}/members", {"ids": [1]})) == expected
        assert err(client.delete(path)) == expected
    assert err(guest.post("/api/svc/user-groups", {"name": "x"})) == "forbidden"
    assert dat(guest.get(path))["user_group"]["name"] == "sre"
