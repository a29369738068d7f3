"""Users and profiles."""

from typing import Any

import pytest

from tocsin.access.models import TeamMember, User, UserToken
from tocsin.plugin.testkit import ROOT_PASSWORD, dat, err

PROFILE = {"nickname": "Ann", "phone": "13800000000", "email": "ann@example.com", "portrait": "/a.png"}


def test_a_user_from_birth_to_death(world) -> None:
    body = {**PROFILE, "username": " ann ", "password": "correct horse", "roles": ["Standard", "Guest", "Standard"]}
    assert dat(world.root.post("/api/svc/users", {**body, "contacts": {"key\u200b": "va\u200blue"}})) is None
    ann = world.app.login("ann", "correct horse")
    mine = dat(ann.get("/api/svc/self/profile"))
    assert {name: mine[name] for name in PROFILE} == PROFILE
    assert (mine["roles"], mine["contacts"], mine["admin"]) == (["Standard", "Guest"], {"key\u200b": "value"}, False)
    assert (mine["create_by"], mine["update_by"], mine["belong"], mine["maintainer"]) == ("root", "root", "", 0)
    user_id = mine["id"]
    assert dat(ann.get(f"/api/svc/user/{user_id}/profile"))["username"] == "ann"
    change = {"nickname": "Anne", "roles": ["Guest"], "username": "eve", "portrait": "x", "password": "y"}
    assert dat(world.root.put(f"/api/svc/user/{user_id}/profile", change)) is None
    changed = dat(ann.get("/api/svc/self/profile"))
    assert (changed["username"], changed["nickname"], changed["roles"]) == ("ann", "Anne", ["Guest"])
    assert (changed["phone"], changed["email"], changed["contacts"]) == ("", "", {})
    assert changed["portrait"] == "/a.png"
    team = world.team("sre", "ann")
    world.token(ann)
    assert dat(world.root.delete(f"/api/svc/user/{user_id}")) is None
    assert err(ann.get("/api/svc/self/profile")) == "unauthorized"
    assert not UserToken.select().where(UserToken.username == "ann").exists()
    assert not TeamMember.select().where((TeamMember.group_id == team) & (TeamMember.user_id == user_id)).exists()
    assert dat(world.root.delete(f"/api/svc/user/{user_id}")) is None
    assert err(world.root.get(f"/api/svc/user/{user_id}/profile")) == "No such user"


def test_passwords_are_hashed(world) -> None:
    world.user("ann")
    stored = User.get(User.username == "ann").password
    assert stored.startswith("$argon2id$")
    assert "password" not in dat(world.root.get("/api/svc/users"))["list"][0]


@pytest.mark.parametrize(
    ("changes", "text", "code"),
    [
        ({"username": "root"}, "Username already exists", "conflict"),
        ({"username": "   "}, "Username is blank", "invalid"),
        ({"username": "a<b"}, "Username has invalid characters", "invalid"),
        ({"username": "../a"}, "Username has invalid characters", "invalid"),
        ({"username": "x" * 65}, "Username: got 65 characters, expected at most 64", "invalid"),
        ({"username": None}, "json body invalid: username: Field may not be null.", "invalid"),
        ({"nickname": "a'b"}, "Nickname has invalid characters", "invalid"),
        ({"nickname": "x" * 65}, "Nickname: got 65 characters, expected at most 64", "invalid"),
        ({"phone": "123"}, "Phone invalid", "invalid"),
        ({"phone": "١٢٣٤٥٦٧٨٩٠١"}, "Phone invalid", "invalid"),
        ({"email": "ann"}, "Email invalid", "invalid"),
        ({"password": "seven77"}, "password: got 7 characters, expected at least 8", "invalid"),
        ({"password": "é" * 513}, "password: got 1026 bytes, expected at most 1024", "invalid"),
        ({"roles": []}, "roles empty", "invalid"),
        ({"roles": "Standard"}, "json body invalid: roles: got a text, expected an array", "invalid"),
        ({"roles": [1]}, "json body invalid: roles.0: got 1, expected a text", "invalid"),
        ({"roles": ["two words"]}, "Role name: got 'two words', expected a name without spaces", "invalid"),
        ({"roles": [f"role{i:03}" for i in range(40)]}, "Roles: got 319 characters, expected at most 255", "invalid"),
        ({"contacts": ["x"]}, "json body invalid: contacts: got an array, expected an object", "invalid"),
        ({"contacts": {"k": 1}}, "json body invalid: contacts.k.value: got 1, expected a text", "invalid"),
    ],
)
def test_bad_users(world, changes: dict[str, Any], text: str, code: str) -> None:
    body = {"username": "ann", "password": "correct horse", "roles": ["Standard"], **changes}
    answer = world.root.post("/api/svc/users", body)
    assert (err(answer), answer.headers["x-error-code"]) == (text, code)
    assert dat(world.root.get("/api/svc/users"))["total"] == 1


@pytest.mark.parametrize("body", [b"{", b"[1]", b"null", b"7"])
def test_bodies_that_are_no_user(world, body: bytes) -> None:
    assert err(world.root.post("/api/svc/users", body=body)).startswith("json body invalid: ")


def test_texts_that_no_database_stores(world) -> None:
    text = "got a text with the character U+0000, expected one without it"
    for body in ({"nickname": "a\x00"}, {"contacts": {"\x00": "x"}}, {"unknown": [[{"x": "\x00"}]]}):
        assert err(world.root.put("/api/svc/self/profile", body)) == f"json body invalid: {text}"
    assert err(world.root.get("/api/svc/users", query={"query": "\x00"})) == f"query param[query]: {text}"
    assert dat(world.root.put("/api/svc/self/profile", {"nickname": "back\\u0000slash"})) is None
    page = {"p": 1 << 60, "limit": 1 << 10}
    assert err(world.root.get("/api/svc/users", query=page)) == f"p: got {1 << 60}, expected a page that can exist"


@pytest.mark.parametrize("phone", ["", "13800000000", "+8613800000000"])
def test_good_phones(world, phone: str) -> None:
    assert dat(world.root.put("/api/svc/self/profile", {"phone": phone})) is None
    assert dat(world.root.get("/api/svc/self/profile"))["phone"] == phone


def test_own_profile(world) -> None:
    ann = world.user("ann", "Guest")
    whole = {**dat(ann.get("/api/svc/self/profile")), **PROFILE, "roles": ["Admin"], "contacts": None}
    assert dat(ann.put("/api/svc/self/profile", whole)) is None
    mine = dat(ann.get("/api/svc/self/profile"))
    assert {name: mine[name] for name in PROFILE} == PROFILE
    assert (mine["roles"], mine["update_by"], mine["contacts"]) == (["Guest"], "ann", {})
    assert dat(ann.put("/api/svc/self/profile", {"nickname": None})) is None
    assert dat(ann.get("/api/svc/self/profile"))["email"] == ""


def test_own_password(world) -> None:
    ann, path = world.user("ann"), "/api/svc/self/password"
    good = {"oldpass": "correct horse battery", "newpass": "staple staple"}
    for changes, text in (
        ({"oldpass": "wrong"}, "Incorrect old password"),
        ({"newpass": "short"}, "newpass: got 5 characters, expected at least 8"),
        ({"newpass": ""}, "json body invalid: newpass: required"),
    ):
        assert err(ann.put(path, {**good, **changes})) == text
    assert dat(ann.put(path, good)) is None
    assert dat(ann.get("/api/svc/self/profile"))["username"] == "ann"  # sessions go on
    log_in = "/api/svc/auth/login"
    assert err(world.app.client.post(log_in, {"username": "ann", "password": good["oldpass"]}))
    assert dat(world.app.client.post(log_in, {"username": "ann", "password": good["newpass"]}))


def test_a_user_without_local_password(world) -> None:
    _, by_token = world.token(world.user("ann"))
    User.update(password="").where(User.username == "ann").execute()
    for password in ("", "x", "correct horse battery"):
        answer = world.app.client.post("/api/svc/auth/login", {"username": "ann", "password": password})
        assert answer.json()["err"] in ("Username or password invalid", "json body invalid: password: required")
    assert "SSO user(ann)" in err(by_token.put("/api/svc/self/password", {"oldpass": "x", "newpass": "y" * 9}))
    path = f"/api/svc/user/{world.user_id('ann')}/password"
    assert dat(world.root.put(path, {"password": "a new password"})) is None
    assert dat(world.app.client.post("/api/svc/auth/login", {"username": "ann", "password": "a new password"}))


def test_password_reset(world) -> None:
    ann = world.user("ann")
    path = f"/api/svc/user/{world.user_id('ann')}/password"
    assert err(ann.put(path, {"password": "my own choice"})) == "forbidden"
    assert err(world.root.put(path, {"password": "short"})).startswith("password: got 5")
    assert err(world.root.put("/api/svc/user/999/password", {"password": "long enough"})) == "No such user"
    assert dat(world.root.put(path, {"password": "a new password"})) is None
    assert dat(world.app.client.post("/api/svc/auth/login", {"username": "ann", "password": "a new password"}))


def test_the_policy_is_configurable(make_world) -> None:
    world = make_world(settings={"Access": {"PasswordMinLength": 15}})
    body = {"username": "ann", "password": "fourteen chars", "roles": ["Guest"]}
    assert err(world.root.post("/api/svc/users", body)) == "password: got 14 characters, expected at least 15"


def test_the_last_administrator_stays(world) -> None:
    assert err(world.root.delete("/api/svc/user/1")) == "Cannot delete the last admin user"
    demoted = {"nickname": "Admin", "roles": ["Standard"]}
    assert "last admin user" in err(world.root.put("/api/svc/user/1/profile", demoted))
    second = world.user("ann", "Standard", "Admin")
    assert dat(second.put("/api/svc/user/1/profile", demoted)) is None
    assert err(world.root.get("/api/svc/config", query={"key": "x"})) == "forbidden"
    assert dat(second.delete("/api/svc/user/1")) is None
    assert dat(second.get("/api/svc/install-date")) == 0
    # A role whose name merely contains Admin is no administrator.
    world.app._logged_in["root"] = second
    world.user("bob", "Administrator")
    assert err(second.delete(f"/api/svc/user/{world.user_id('ann')}")) == "Cannot delete the last admin user"


def test_lists(world) -> None:
    for name, roles in (("ann", ["Guest"]), ("bob_50%", ["Standard"]), ("carl", ["Admin"])):
        body = {"username": name, "password": "correct horse", "roles": roles, "email": f"{name[:3]}@example.com"}
        dat(world.root.post("/api/svc/users", body))
    team = world.team("sre", "ann")
    world.group("prod", ro=team, rw=world.team("others"))

    def names(**query: Any) -> list[str]:
        return [user["username"] for user in dat(world.root.get("/api/svc/users", query=query))["list"]]

    assert names() == ["ann", "bob_50%", "carl", "root"]
    assert names(desc="true", limit=2) == ["root", "carl"]
    assert names(limit=2, p=2) == ["carl", "root"]
    assert names(order="id", desc=1) == ["carl", "bob_50%", "ann", "root"]
    assert names(order="password") == ["ann", "bob_50%", "carl", "root"]
    assert names(order="1; DROP TABLE users") == ["ann", "bob_50%", "carl", "root"]
    assert names(query="example.com") == ["ann", "bob_50%", "carl"]
    assert names(query="%") == ["bob_50%"]
    assert names(query="_") == ["bob_50%"]
    assert names(usernames="ann,root,nobody") == ["ann", "root"]
    assert names(emails="ann@example.com") == ["ann"]
    assert names(phones="1") == []
    answer = dat(world.root.get("/api/svc/users", query={"usernames": "ann", "limit": 1}))
    assert (answer["total"], answer["admin"]) == (4, True)
    ann = answer["list"][0]
    assert ann["user_groups"] == [{"id": team, "name": "sre"}]
    assert [group["name"] for group in ann["busi_groups"]] == ["prod"]
    assert dat(world.app.login("bob_50%", "correct horse").get("/api/svc/users"))["admin"] is False


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"limit": "x"}, "cannot convert [x] to int64"),
        ({"limit": 0}, "limit: got 0, expected at least 1"),
        ({"desc": "maybe"}, "unknown arg[desc] value: maybe"),
        ({"p": 1 << 70}, f"cannot convert [{1 << 70}] to int64"),
    ],
)
def test_bad_list_parameters(world, query: dict[str, Any], text: str) -> None:
    assert err(world.root.get("/api/svc/users", query=query)) == text


def test_lists_by_activity(make_world) -> None:
    now = [1_700_000_000.0]
    world = make_world(clock=lambda: now[0])
    world.user("ann")
    dat(world.app.login("ann", "correct horse battery").get("/api/svc/self/perms"))
    now[0] += 7200

    def names(**query: int) -> list[str]:
        return [user["username"] for user in dat(world.root.get("/api/svc/users", query=query))["list"]]

    assert names(hours=1) == ["root"]
    assert names(hours=3) == names(hours=1 << 62) == ["ann", "root"]
    assert names(hours=-(1 << 62)) == []
    assert names(stime=1_700_000_100) == ["root"]
    assert names(stime=1, etime=1_700_000_100) == ["ann"]
    assert names(etime=1_700_000_100) == ["ann", "root"]


def test_groups_of_another_user(world) -> None:
    ann = world.user("ann", "Guest")
    group = world.group("prod", rw=world.team("sre", "ann"))
    path = "/api/svc/user/busi-groups"
    for query in ({"userid": world.user_id("ann")}, {"username": "ann"}):
        assert [found["id"] for found in dat(world.root.get(path, query=query))] == [group]
    assert len(dat(world.root.get(path, query={"username": "root"}))) == 2
    assert err(world.root.get(path)) == "userid or username required"
    assert err(world.root.get(path, query={"username": "nobody"})) == "No such user"
    assert err(ann.get(path, query={"username": "ann"})) == "forbidden"


def test_who_may_change_users(world) -> None:
    standard = world.user("standard", "Standard")
    body = {"username": "x", "password": ROOT_PASSWORD, "roles": ["Admin"]}
    assert err(standard.post("/api/svc/users", body)) == "forbidden"
    assert err(standard.put("/api/svc/user/1/profile", {"roles": ["Guest"]})) == "forbidden"
    assert err(standard.delete("/api/svc/user/1")) == "forbidden"
    world.role("staff", "/users", "/users/add", "/users/put", "/users/del")
    staff = world.user("staff", "staff")
    assert dat(staff.post("/api/svc/users", {**body, "roles": ["Guest"]})) is None
    made = dat(staff.get("/api/svc/users", query={"usernames": "x"}))["list"][0]
    assert made["create_by"] == "staff"
    assert dat(staff.delete(f"/api/svc/user/{made['id']}")) is None
    assert dat(standard.get("/api/svc/install-date")) > 0


def test_who_manages_users_does_not_become_an_administrator(world) -> None:
    world.role("staff", "/users", "/users/add", "/users/put", "/users/del")
    staff, other = world.user("staff", "staff"), world.user("other", "Guest")
    own, root = world.user_id("staff"), 1
    body = {"username": "x", "password": ROOT_PASSWORD, "roles": [" Admin "]}
    assert err(staff.post("/api/svc/users", body)) == "forbidden"
    assert err(staff.put(f"/api/svc/user/{own}/profile", {"roles": ["staff", "Admin"]})) == "forbidden"
    assert err(staff.put(f"/api/svc/user/{root}/profile", {"roles": ["Guest"]})) == "forbidden"
    assert err(staff.put(f"/api/svc/user/{root}/password", {"password": "mine from now on"})) == "forbidden"
    assert err(staff.delete(f"/api/svc/user/{root}")) == "forbidden"
    assert dat(staff.put(f"/api/svc/user/{world.user_id('other')}/profile", {"roles": ["Standard"]})) is None
    assert dat(other.get("/api/svc/self/profile"))["roles"] == ["Standard"]
    assert dat(world.root.put(f"/api/svc/user/{own}/profile", {"roles": [" Admin "]})) is None
    assert dat(staff.get("/api/svc/self/profile"))["admin"]
