"""The access capability on every database: what differs between them is transactions, uniqueness and types."""

import threading

import pytest

from tocsin.access.models import BusiGroup, Role, RoleOperation, Team, User, UserToken
from tocsin.access.users import Users
from tocsin.plugin import ApiError
from tocsin.plugin.testkit import ROOT_PASSWORD, WsgiClient, dat, err
from tocsin.plugin.testkit.components import PATIENCE, Database


@pytest.fixture
def world(make_world, database: Database):
    return make_world(settings={"DB": {"DBType": database.kind, "DSN": database.dsn}})


def test_a_whole_life(world, make_world, database: Database) -> None:
    assert (User.select().count(), Role.select().count(), RoleOperation.select().count()) == (1, 3, 59)
    ann = world.user("ann", "Guest")
    token_id, token = world.token(ann)
    team = world.team("sre ünï 😀", "ann")
    group = world.group("prod", rw=team)
    role = world.role("staff", "/users")
    profile = f"/api/svc/user/{world.user_id('ann')}/profile"
    dat(world.root.put(profile, {"nickname": "Änn 😀", "roles": ["staff"], "contacts": {"k": "v" * 100_000}}))
    me = dat(token.get("/api/svc/self/profile"))
    assert (me["nickname"], len(me["contacts"]["k"])) == ("Änn 😀", 100_000)
    found = dat(token.get("/api/svc/users", query={"query": "NN", "limit": 1, "desc": "true"}))
    assert (found["total"], found["list"][0]["user_groups"][0]["name"]) == (1, "sre ünï 😀")
    assert dat(token.get(f"/api/svc/busi-group/{group}/perm/rw")) is True
    for answer in (
        world.root.post("/api/svc/users", {"username": "ann", "password": ROOT_PASSWORD, "roles": ["Guest"]}),
        world.root.post("/api/svc/user-groups", {"name": "sre ünï 😀"}),
        world.root.put("/api/svc/user-group/1", {"name": "sre ünï 😀"}),
        world.root.put("/api/svc/busi-group/1", {"name": "prod"}),
        world.root.put("/api/svc/roles", {"id": role, "name": "Guest"}),
        ann.post("/api/svc/self/token", {"token_name": "ci"}),
    ):
        assert answer.headers["x-error-code"] == "conflict"
        assert "exists" in err(answer)
    assert (Team.select().count(), BusiGroup.select().count(), UserToken.select().count()) == (2, 2, 1)
    # Another process, started later, finds everything and seeds nothing.
    other = make_world(settings={"DB": {"DBType": database.kind, "DSN": database.dsn}}).app
    far = WsgiClient(other.client.application, headers=token._headers)
    assert dat(far.get("/api/svc/self/perms")) == ["/users"]
    dat(far.delete(f"/api/svc/self/token/{token_id}"))
    assert err(token.get("/api/svc/self/perms")) == "unauthorized"
    dat(other.client.post("/api/svc/auth/login", {"username": "root", "password": ROOT_PASSWORD}))


def test_ids_are_never_given_twice(world) -> None:
    first = world.team("one")
    dat(world.root.delete(f"/api/svc/user-group/{first}"))
    assert world.team("two") > first


def test_two_administrators_cannot_remove_each_other(world) -> None:
    world.user("ann", "Admin")
    core, users = world.app.core, world.app.core.get(Users)
    ids, barrier, texts = [1, world.user_id("ann")], threading.Barrier(2), []
    core.release()

    def remove(user_id: int) -> None:
        barrier.wait(PATIENCE)
        try:
            users.delete(user_id)
            texts.append("removed")
        except ApiError as error:
            texts.append(error.message)
        finally:
            core.release()

    threads = [threading.Thread(target=remove, args=(user_id,)) for user_id in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(texts) == ["Cannot delete the last admin user", "removed"]
    assert User.select().count() == 1


def test_a_name_taken_at_the_same_time(world) -> None:
    core, users = world.app.core, world.app.core.get(Users)
    barrier, found = threading.Barrier(4), []

    def provide() -> None:
        barrier.wait(PATIENCE)
        try:
            found.append(users.provide("zoë", ["Guest"], "system").id)
        finally:
            core.release()

    threads = [threading.Thread(target=provide) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(found) == 4
    assert len(set(found)) == 1
