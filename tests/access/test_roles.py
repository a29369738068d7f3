"""Roles: made, renamed, filled with points, removed."""

from typing import Any

import pytest

from tocsin.access.models import RoleOperation
from tocsin.plugin.testkit import dat, err


def test_a_role_from_birth_to_death(world) -> None:
    role = world.role("staff", "/users", "/users", "/made/up")
    ann = world.user("ann", "Guest", "staff")
    assert dat(world.root.get(f"/api/svc/role/{role}/ops")) == ["/made/up", "/users"]
    assert dat(ann.get("/api/svc/users"))["total"] == 2
    assert dat(world.root.put("/api/svc/roles", {"id": role, "name": "crew", "note": "renamed"})) is None
    assert dat(world.root.get("/api/svc/roles"))[-1] == {"id": role, "name": "crew", "note": "renamed"}
    assert dat(ann.get("/api/svc/self/profile"))["roles"] == ["Guest", "crew"]
    assert dat(ann.get("/api/svc/users"))["total"] == 2
    assert dat(world.root.put(f"/api/svc/role/{role}/ops", [])) is None
    assert err(ann.get("/api/svc/users")) == "forbidden"
    dat(world.root.put(f"/api/svc/role/{role}/ops", ["/users"]))
    assert dat(world.root.delete(f"/api/svc/role/{role}")) is None
    assert dat(ann.get("/api/svc/self/profile"))["roles"] == ["Guest"]
    assert not RoleOperation.select().where(RoleOperation.role_name == "crew").exists()
    assert err(ann.get("/api/svc/users")) == "forbidden"
    assert dat(world.root.delete(f"/api/svc/role/{role}")) is None
    # A new role of the old name starts with nothing and no one.
    world.role("crew")
    assert err(ann.get("/api/svc/users")) == "forbidden"


def test_admin_cannot_be_changed(world) -> None:
    for answer in (
        world.root.put("/api/svc/roles", {"id": 1, "name": "Boss"}),
        world.root.put("/api/svc/role/1/ops", []),
        world.root.delete("/api/svc/role/1"),
    ):
        assert (err(answer), answer.headers["x-error-code"]) == ("admin role can not be modified", "forbidden")
    assert err(world.root.put("/api/svc/roles", {"id": 3, "name": "Admin"})) == "role name already exists"


def test_built_in_roles_can_be_changed_and_stay_so(world, make_world) -> None:
    dat(world.root.delete("/api/svc/role/3"))
    dat(world.root.put("/api/svc/role/2/ops", ["/users"]))
    again = make_world()
    assert [role["name"] for role in dat(again.root.get("/api/svc/roles"))] == ["Admin", "Standard"]
    assert dat(again.root.get("/api/svc/role/2/ops")) == ["/users"]


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        ("POST", "roles", {"name": "Guest"}, "role name already exists"),
        ("POST", "roles", {"name": "two words"}, "Role name: got 'two words', expected a name without spaces"),
        ("POST", "roles", {"name": " "}, "Role name is blank"),
        ("POST", "roles", {}, "json body invalid: name: Missing data for required field."),
        ("POST", "roles", {"name": "x", "note": "y" * 256}, "Note: got 256 characters, expected at most 255"),
        ("PUT", "roles", {"name": "x"}, "json body invalid: id: Missing data for required field."),
        ("PUT", "roles", {"id": "2", "name": "x"}, "json body invalid: id: got a text, expected an integer"),
        ("PUT", "roles", {"id": 99, "name": "x"}, "role not found"),
        ("PUT", "role/99/ops", [], "role not found"),
        ("GET", "role/99/ops", None, "role not found"),
        ("GET", "role/x/ops", None, "cannot convert x to int64"),
        ("PUT", "role/2/ops", {}, "json body invalid: json: cannot unmarshal object into Go value of type []string"),
        (
            "PUT",
            "role/2/ops",
            ["/users", 1],
            "json body invalid: json: cannot unmarshal number into Go value of type string",
        ),
        ("PUT", "role/2/ops", ["x" * 192], "operation: got 192 characters, expected at most 191"),
    ],
)
def test_bad_roles(world, method: str, path: str, body: Any, text: str) -> None:
    before = dat(world.root.get("/api/svc/role/2/ops"))
    assert err(world.root.request(method, f"/api/svc/{path}", json=body)) == text
    assert dat(world.root.get("/api/svc/role/2/ops")) == before


def test_who_may_change_roles(world) -> None:
    ann = world.user("ann", "Standard")
    assert len(dat(ann.get("/api/svc/roles"))) == 3
    for answer in (
        ann.post("/api/svc/roles", {"name": "x"}),
        ann.put("/api/svc/roles", {"id": 2, "name": "x"}),
        ann.put("/api/svc/role/2/ops", ["/roles/put"]),
        ann.get("/api/svc/role/2/ops"),
        ann.delete("/api/svc/role/3"),
    ):
        assert err(answer) == "forbidden"
