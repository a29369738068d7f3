"""The service API of users, teams, business groups and settings."""

from typing import Any

import pytest

from tocsin.plugin.testkit import WsgiClient, dat, err

ACCOUNT = {"HTTP": {"APIForService": {"Enable": True, "BasicAuth": {"ops": "pw"}}}}


@pytest.fixture
def world(make_world):
    return make_world(settings=ACCOUNT)


@pytest.fixture
def service(world) -> WsgiClient:
    return world.app.client.with_headers(Authorization="Basic b3BzOnB3")


def test_it_is_off_by_default(make_world) -> None:
    answer = make_world().app.client.get("/v1/svc/users", headers={"Authorization": "Basic b3BzOnB3"})
    assert not answer.headers["content-type"].startswith("application/json")


def test_every_row_asks_for_the_account(world) -> None:
    from tocsin.app.bootstrap import route_table

    rows = [row for row in route_table(world.app.core) if row.full_path.startswith("/v1/svc/")]
    assert len(rows) == 16
    for row in rows:
        answer = world.app.client.request(row.method, row.full_path.replace(":id", "1"))
        assert answer.status == 401, row
        assert world.root.request(row.method, row.full_path.replace(":id", "1")).status == 401, row


def test_users(world, service: WsgiClient) -> None:
    body = {
        "username": "ann",
        "password": "correct horse",
        "roles": ["Guest"],
        "nickname": "Ann",
        "phone": "13800000000",
    }
    assert dat(service.post("/v1/svc/users", body)) is None
    ann = next(user for user in dat(service.get("/v1/svc/users")) if user["username"] == "ann")
    assert (ann["create_by"], ann["phone"], "password" in ann) == ("ops", "13800000000", False)
    # Only what the body carries changes; the password in particular stays.
    assert (
        dat(service.put(f"/v1/svc/user/{ann['id']}", {"nickname": "Anne", "roles": ["Standard"], "contacts": None}))
        is None
    )
    changed = dat(world.app.login("ann", "correct horse").get("/api/svc/self/profile"))
    assert (changed["nickname"], changed["roles"], changed["phone"]) == ("Anne", ["Standard"], "13800000000")
    assert changed["update_by"] == "ops"
    assert err(service.put(f"/v1/svc/user/{ann['id']}", {"roles": []})) == "roles empty"
    assert err(service.put("/v1/svc/user/999", {"nickname": "x"})) == "No such user"
    assert dat(service.delete(f"/v1/svc/user/{ann['id']}")) is None
    assert [user["username"] for user in dat(service.get("/v1/svc/users"))] == ["root"]
    assert err(service.delete("/v1/svc/user/1")) == "Cannot delete the last admin user"


def test_tokens_for_services(world, service: WsgiClient) -> None:
    made = dat(service.post("/v1/svc/user-token", {"username": "root"}))
    assert made["token_name"] == "user-token"
    client = world.app.client.with_headers(X_User_Token=made["token"])
    assert dat(client.get("/api/svc/self/profile"))["username"] == "root"
    again = dat(service.post("/v1/svc/user-token", {"username": "root"}))
    assert (again["id"], again["token"]) == (made["id"], made["token"])
    assert err(service.post("/v1/svc/user-token", {"username": "nobody"})) == "user not found"
    assert err(service.post("/v1/svc/user-token", {})) == "raw_token or username required"
    answer = service.post("/v1/svc/user-token", {"raw_token": "x", "username": "root"})
    assert (err(answer), answer.headers["x-error-code"]) == ("oauth is not enabled", "unavailable")


def test_teams_and_groups(world, service: WsgiClient) -> None:
    world.user("ann")
    team = world.team("sre", "ann")
    group = world.group("prod", rw=team)
    teams = dat(service.get("/v1/svc/user-groups"))
    assert {t["name"]: [u["username"] for u in t["users"]] for t in teams} == {
        "demo-root-group": ["root"],
        "sre": ["ann", "root"],
    }
    assert [t["id"] for t in dat(service.get("/v1/svc/user-groups", query={"ids": f"{team},{team}"}))] == [team]
    assert err(service.get("/v1/svc/user-groups", query={"ids": f"{team},999"})) == "No such UserGroup"
    assert {"GroupId": team, "UserId": world.user_id("ann")} in dat(service.get("/v1/svc/user-group-members"))
    groups = dat(service.get("/v1/svc/busi-groups"))
    assert [(g["name"], g["user_groups"]) for g in groups] == [("Default Busi Group", None), ("prod", None)]
    assert group in [g["id"] for g in groups]


def test_settings(service: WsgiClient) -> None:
    rows = [
        {"ckey": "one", "cval": "1", "note": "n"},
        {"ckey": "two", "cval": "2"},
        {"ckey": "one", "cval": "x", "external": 1},
    ]
    assert dat(service.post("/v1/svc/configs", rows)) is None
    assert err(service.post("/v1/svc/configs", [{"ckey": "three"}, {"ckey": "one"}])) == "key is exists"
    assert dat(service.get("/v1/svc/config", query={"key": "three"})) == ""  # all or none
    assert dat(service.get("/v1/svc/config", query={"key": "one"})) == "1"
    listed = dat(service.get("/v1/svc/configs", query={"prefix": "o"}))
    assert [(row["ckey"], row["cval"], row["external"], row["create_by"]) for row in listed] == [
        ("one", "x", 1, "ops"),
        ("one", "1", 0, "ops"),
    ]
    variable, one = listed
    assert one["note"] == "n"
    assert len(dat(service.get("/v1/svc/configs", query={"limit": 2, "p": 2}))) == 2
    assert dat(service.get(f"/v1/svc/config/{variable['id']}"))["cval"] == "x"
    assert service.get("/v1/svc/config/999").json().get("dat") is None
    change = [{"id": one["id"], "cval": "1.1", "note": ""}]
    assert dat(service.put("/v1/svc/configs", change)) is None
    changed = dat(service.get(f"/v1/svc/config/{one['id']}"))
    assert (changed["cval"], changed["note"], changed["ckey"]) == ("1.1", "n", "one")
    assert err(service.put("/v1/svc/configs", [{"id": one["id"], "ckey": "two"}])) == "key is exists"
    built_in = dat(service.get("/v1/svc/all-configs"))
    assert {"one", "two", "site_info", "jwt_signing_key"} <= {row["ckey"] for row in built_in}
    assert dat(service.delete("/v1/svc/configs", {"ids": [one["id"], variable["id"], 999]})) is None
    assert dat(service.get("/v1/svc/configs", query={"prefix": "one"})) == []


def test_secrets_do_not_leave(service: WsgiClient) -> None:
    secrets = [row for row in dat(service.get("/v1/svc/all-configs")) if row["encrypted"]]
    assert len(secrets) == 2
    for row in secrets:
        text = f"config {row['ckey']} is secret"
        assert row["cval"] == ""
        assert dat(service.get(f"/v1/svc/config/{row['id']}"))["cval"] == ""
        assert err(service.get("/v1/svc/config", query={"key": row["ckey"]})) == text
        assert err(service.put("/v1/svc/configs", [{"id": row["id"], "cval": "known"}])) == text
        assert err(service.delete("/v1/svc/configs", {"ids": [row["id"]]})) == text


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        ("POST", "users", [], "json body invalid: json: cannot unmarshal array into Go value of type userAddForm"),
        (
            "POST",
            "configs",
            {},
            "json body invalid: json: cannot unmarshal object into Go value of type []models.Configs",
        ),
        ("PUT", "configs", [{"cval": "x"}], "json body invalid: 0.id: Missing data for required field."),
        ("POST", "configs", [{"ckey": "x", "external": 3}], "json body invalid: 0.external: got 3, expected 0 or 1"),
        ("GET", "config/x", None, "cannot convert x to int64"),
        ("GET", "statistic", None, "invalid name"),
        ("GET", "user-groups?ids=1,b", None, "cannot convert b to int64"),
    ],
)
def test_bad_input(service: WsgiClient, method: str, path: str, body: Any, text: str) -> None:
    assert err(service.request(method, f"/v1/svc/{path}", json=body)) == text


def test_statistics(make_world) -> None:
    now = [1_700_000_000.0]
    world = make_world(settings=ACCOUNT, clock=lambda: now[0])
    service = world.app.client.with_headers(Authorization="Basic b3BzOnB3")

    def asked(name: str) -> dict[str, int]:
        return dat(service.get("/v1/svc/statistic", query={"name": name}))

    assert asked("user") == {"Total": 1, "LastUpdated": 1_700_000_000}
    assert asked("user_variable") == {"Total": 0, "LastUpdated": 0}
    now[0] += 50
    world.user("ann")
    world.team("sre", "ann")
    assert asked("user") == {"Total": 2, "LastUpdated": 1_700_000_050}
    assert asked("user_group") == {"Total": 2, "LastUpdated": 1_700_000_050}
    assert asked("busi_group") == {"Total": 1, "LastUpdated": 1_700_000_000}
