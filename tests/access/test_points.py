"""The permission points against the table of the specification (``permission_points.tsv``), and the routes they guard."""

import csv
import re
from pathlib import Path

import pytest

from tocsin.app.bootstrap import route_table
from tocsin.plugin.testkit import AppFactory, dat, err

TABLE = Path(__file__).with_name("permission_points.tsv")
MENU_ONLY = "(menu only)"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with TABLE.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_the_table_itself(rows: list[dict[str, str]]) -> None:
    assert len(rows) == len({row["point"] for row in rows}) == 96
    assert sum("S" in row["roles"] for row in rows) == 53
    assert sum("G" in row["roles"] for row in rows) == 6


def test_the_catalogue_lists_every_point_once(world, rows: list[dict[str, str]]) -> None:
    groups = dat(world.root.get("/api/svc/operation"))
    listed = [op["name"] for group in groups for op in group["ops"]]
    assert sorted(listed) == sorted(row["point"] for row in rows)
    assert all(op["cname"] for group in groups for op in group["ops"])
    assert [group["cname"] for group in groups] == [
        *("Infrastructure", "Explorer", "Alerting", "Notification"),
        *("Integrations", "Organization", "System Settings"),
    ]


def test_the_built_in_roles_hold_what_the_table_says(world, rows: list[dict[str, str]]) -> None:
    roles = {role["name"]: role for role in dat(world.root.get("/api/svc/roles"))}
    assert [(r["name"], r["note"]) for r in roles.values()] == [
        ("Admin", "Administrator role"),
        ("Standard", "Ordinary user role"),
        ("Guest", "Readonly user role"),
    ]
    for name, mark in (("Standard", "S"), ("Guest", "G"), ("Admin", "")):
        held = dat(world.root.get(f"/api/svc/role/{roles[name]['id']}/ops"))
        assert sorted(held) == sorted(row["point"] for row in rows if mark in row["roles"]), name


def shape(endpoint: str) -> str:
    """Return an endpoint without the names of its parameters."""
    return re.sub(r":\w+", ":", endpoint)


def test_routes_ask_for_the_point_that_guards_them(make_app: AppFactory, rows: list[dict[str, str]]) -> None:
    """A route of core asks for the point that the table says, and only routes in the table ask for one."""
    table = {shape(e): row["point"] for row in rows if row["guards"] != MENU_ONLY for e in row["guards"].split("; ")}
    table[shape("POST /busi-group/:id/alert-rules/import-prom-rule")] = "/alert-rules/add"
    pages = [route for route in route_table(make_app().core) if route.full_path.startswith("/api/svc/")]
    asked = {shape(f"{route.method} {route.path}"): route.access.point for route in pages}
    wrong = {e: point for e, point in asked.items() if point != table.get(e, "")}
    assert wrong == {}
    ours = re.compile(r"\w+ /(users?|roles?|user-groups?|busi-groups?)(/:)?(/(members|profile|password|ops))?")
    expected = {endpoint for endpoint in table if ours.fullmatch(endpoint)}
    assert len(expected) == 20
    assert expected <= asked.keys()


def test_a_user_has_the_union_of_the_roles(world) -> None:
    world.role("one", "/users", "/roles")
    world.role("two", "/roles", "/job-tasks")
    client = world.user("ann", "one", "two")
    assert dat(client.get("/api/svc/self/perms")) == ["/job-tasks", "/roles", "/users"]
    assert dat(client.get("/api/svc/auth/perms")) == {"one": ["/roles", "/users"], "two": ["/job-tasks", "/roles"]}
    assert dat(client.get("/api/svc/users"))["total"] == 2
    assert dat(client.get("/api/svc/role/2/ops"))
    assert err(client.post("/api/svc/roles", {"name": "three"})) == "forbidden"


def test_admin_holds_everything(world, rows: list[dict[str, str]]) -> None:
    everything = sorted(row["point"] for row in rows)
    assert sorted(dat(world.root.get("/api/svc/self/perms"))) == everything
    assert sorted(dat(world.root.get("/api/svc/auth/perms"))["Admin"]) == everything


def test_display_texts_follow_the_language(world) -> None:
    groups = dat(world.root.get("/api/svc/operation", headers={"X-Language": "xx"}))
    assert groups[0]["name"] == "Infrastructure"
    assert err(world.user("ann", "Guest").get("/api/svc/users", headers={"X-Language": "zh_CN"})) == "没有权限"
