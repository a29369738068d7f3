"""Personal tokens: made, masked, revealed to their owner, revoked."""

import re

import pytest

from tocsin.access.models import UserToken
from tocsin.plugin.testkit import dat, err

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_life_of_a_token(world) -> None:
    made = dat(world.root.post("/api/svc/self/token", {"token_name": " ci ", "token": "chosen by me"}))
    assert UUID.fullmatch(made["token"])
    assert made.keys() == {"id", "username", "token_name", "token", "create_at", "last_used"}
    assert (made["username"], made["token_name"], made["last_used"]) == ("root", "ci", 0)
    listed = dat(world.root.get("/api/svc/self/token"))
    assert listed == [{**made, "token": f"{made['token'][:4]}****{made['token'][-4:]}"}]
    assert dat(world.root.get(f"/api/svc/self/token/{made['id']}")) == made
    client = world.app.client.with_headers(X_User_Token=made["token"])
    assert dat(client.get("/api/svc/self/profile"))["username"] == "root"
    assert dat(world.root.delete(f"/api/svc/self/token/{made['id']}")) is None
    assert err(client.get("/api/svc/self/profile")) == "unauthorized"
    assert dat(world.root.get("/api/svc/self/token")) == []


def test_tokens_are_not_stored_in_clear(world) -> None:
    made = dat(world.root.post("/api/svc/self/token", {"token_name": "ci"}))
    row = UserToken.get_by_id(made["id"]).as_dict()
    assert made["token"] not in str(row)
    assert row["token"].startswith("enc:v1:")
    assert re.fullmatch("[0-9a-f]{64}", row["token_hash"])
    # What the table holds opens nothing.
    for stolen in (row["token"], row["token_hash"], f"{made['token'][:4]}****{made['token'][-4:]}"):
        assert err(world.app.client.get("/api/svc/self/profile", headers={"X-User-Token": stolen})) == "unauthorized"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "json body invalid: token_name: Missing data for required field."),
        ({"token_name": ""}, "json body invalid: token_name: required"),
        ({"token_name": None}, "json body invalid: token_name: Field may not be null."),
        ({"token_name": ["ci"]}, "json body invalid: token_name: got an array, expected a text"),
        ({"token_name": "  "}, "token_name: got an empty text, expected a name"),
        ({"token_name": "x" * 256}, "token_name: got 256 characters, expected at most 255"),
    ],
)
def test_bad_names(world, body: object, text: str) -> None:
    assert err(world.root.post("/api/svc/self/token", body)) == text


def test_names_are_unique_per_owner(world) -> None:
    ann = world.user("ann")
    for client in (world.root, ann):
        dat(client.post("/api/svc/self/token", {"token_name": "ci"}))
    answer = ann.post("/api/svc/self/token", {"token_name": "ci"})
    assert (err(answer), answer.headers["x-error-code"]) == ("token name already exists", "conflict")


def test_only_the_owner_sees_and_deletes_a_token(world) -> None:
    ann = world.user("ann", "Admin")
    token_id, client = world.token(world.root)
    for answer in (ann.get(f"/api/svc/self/token/{token_id}"), ann.delete(f"/api/svc/self/token/{token_id}")):
        assert (err(answer), answer.headers["x-error-code"]) == ("No such token", "not_found")
    assert err(ann.delete("/api/svc/self/token/999")) == "No such token"
    assert err(ann.delete("/api/svc/self/token/x")) == "cannot convert x to int64"
    assert dat(ann.get("/api/svc/self/token")) == []
    assert dat(client.get("/api/svc/self/profile"))["username"] == "root"


def test_a_token_has_its_owners_rights_and_no_others(world) -> None:
    guest = world.user("guest", "Guest")
    _, by_token = world.token(guest)
    assert dat(by_token.get("/api/svc/self/perms")) == dat(guest.get("/api/svc/self/perms"))
    assert err(by_token.get("/api/svc/users")) == "forbidden"
    dat(world.root.put(f"/api/svc/user/{world.user_id('guest')}/profile", {"roles": ["Standard"]}))
    assert dat(by_token.get("/api/svc/users"))["total"] == 2


def test_a_valid_token_wins_and_an_invalid_one_leaves_it_to_the_bearer(world) -> None:
    ann = world.user("ann", "Guest")
    _, by_token = world.token(ann)
    bearer = world.root._headers["Authorization"]
    assert dat(by_token.get("/api/svc/self/profile", headers={"Authorization": bearer}))["username"] == "ann"
    assert dat(world.root.get("/api/svc/self/profile", headers={"X-User-Token": "no"}))["username"] == "root"


def test_the_last_token_can_go_and_the_others_stay(world) -> None:
    first, by_first = world.token(world.root, "one")
    second, by_second = world.token(world.root, "two")
    dat(world.root.delete(f"/api/svc/self/token/{first}"))
    assert err(by_first.get("/api/svc/self/profile")) == "unauthorized"
    assert dat(by_second.get("/api/svc/self/profile"))
    dat(by_second.delete(f"/api/svc/self/token/{second}"))
    assert err(by_second.get("/api/svc/self/profile")) == "unauthorized"


def test_last_use_is_written_once_a_minute(make_world) -> None:
    now = [1_700_000_000.0]
    world = make_world(clock=lambda: now[0])
    _, by_token = world.token(world.root)

    def used() -> tuple[int, int]:
        (token,) = UserToken.select()
        return token.last_used, dat(by_token.get("/api/svc/self/profile"))["last_active_time"]

    written = []
    for step in (0, 1, 58, 2, 30, 40):
        now[0] += step
        dat(by_token.get("/api/svc/self/perms"))
        written.append([at - 1_700_000_000 for at in used()])
    assert written == [[0, 0], [0, 0], [0, 0], [61, 61], [61, 61], [131, 131]]


def test_a_failed_write_of_the_time_costs_no_request(world, monkeypatch: pytest.MonkeyPatch) -> None:
    import peewee

    _, by_token = world.token(world.root)

    def refuse(*_: object, **__: object) -> None:
        raise peewee.OperationalError("disk full")

    monkeypatch.setattr(UserToken, "update", refuse)
    assert dat(by_token.get("/api/svc/self/profile"))["username"] == "root"
    value = world.app.core.metrics.registry.get_sample_value("svc_center_activity_write_errors_total")
    assert value == 1


@pytest.mark.parametrize(("enable", "header", "works"), [(False, "X-User-Token", False), (True, "X-Api-Key", True)])
def test_token_settings(make_world, enable: bool, header: str, works: bool) -> None:
    settings = {"HTTP": {"TokenAuth": {"Enable": enable, "HeaderUserTokenKey": header}}}
    world = make_world(settings=settings)
    token = dat(world.root.post("/api/svc/self/token", {"token_name": "ci"}))["token"]
    answer = world.app.client.get("/api/svc/self/profile", headers={header: token}).json()
    assert answer["err"] == ("" if works else "unauthorized")
