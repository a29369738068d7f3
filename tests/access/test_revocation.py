"""What is taken away is gone with the next request, in every process."""

from collections.abc import Callable

import pytest

from tocsin.plugin.testkit import Answer, TestApp, WsgiClient, dat, err

POINT, GROUP = "/api/svc/users", "/api/svc/busi-group/{group}"


@pytest.fixture
def two(make_world):
    """A world, and an application of another core on the same database, as another process has it.

    Tables belong to the newest core of a process, so the other one is made first and only asked.
    """
    other = make_world().app
    return make_world(), other


def elsewhere(client: WsgiClient, other: TestApp) -> WsgiClient:
    """Return a client with the same credentials that talks to the other process."""
    return WsgiClient(other.client.application, headers=client._headers)


def answers(client: WsgiClient, path: str) -> str:
    return str(client.get(path).json()["err"])


def test_every_withdrawal(two) -> None:
    world, other = two
    ann = world.user("ann", "Standard")
    token_id, token = world.token(ann)
    team = world.team("sre", "ann")
    group = world.group("prod", rw=team)
    ann_id, path = world.user_id("ann"), f"/api/svc/busi-group/{group}"
    far, far_token = elsewhere(ann, other), elsewhere(token, other)
    standard = dat(world.root.get("/api/svc/role/2/ops"))

    def seen() -> dict[str, str]:
        return {
            "token": answers(far_token, "/api/svc/self/perms"),
            "point": answers(far, POINT),
            "group": answers(far, path),
            "write": str(dat(far.get(f"{path}/perm/rw"))),
            "team": answers(far, f"/api/svc/user-group/{team}"),
        }

    fine = {"token": "", "point": "", "group": "", "write": "True", "team": ""}
    assert seen() == fine
    binding = [{"busi_group_id": group, "user_group_id": team, "perm_flag": "ro"}]
    profile = f"/api/svc/user/{ann_id}/profile"
    members = f"/api/svc/user-group/{team}/members"
    steps: list[tuple[Callable[[], Answer], dict[str, str], Callable[[], Answer] | None]] = [
        (
            lambda: world.root.put("/api/svc/role/2/ops", [p for p in standard if p != "/users"]),
            {"point": "forbidden"},
            lambda: world.root.put("/api/svc/role/2/ops", standard),
        ),
        (
            lambda: world.root.put(profile, {"roles": ["Guest"]}),
            {"point": "forbidden"},
            lambda: world.root.put(profile, {"roles": ["Standard"]}),
        ),
        (
            lambda: world.root.post(f"{path}/members", binding),
            {"write": "False"},
            lambda: world.root.post(f"{path}/members", [{**binding[0], "perm_flag": "rw"}]),
        ),
        (
            lambda: world.root.delete(members, {"ids": [ann_id]}),
            {"group": "forbidden", "write": "False", "team": "forbidden"},
            lambda: world.root.post(members, {"ids": [ann_id]}),
        ),
        (
            lambda: world.root.delete(f"/api/svc/user-group/{team}"),
            {"group": "forbidden", "write": "False", "team": "No such UserGroup"},
            None,
        ),
    ]
    for take, changed, give_back in steps:
        dat(take())
        assert seen() == {**fine, **changed}
        if give_back is not None:
            dat(give_back())
            assert seen() == fine
    dat(ann.delete(f"/api/svc/self/token/{token_id}"))
    assert answers(far_token, "/api/svc/self/perms") == "unauthorized"
    dat(world.root.delete(f"/api/svc/user/{ann_id}"))
    assert answers(far, "/api/svc/self/perms") == "unauthorized"


def test_sessions_end_everywhere(two) -> None:
    world, other = two
    ann = world.user("ann")
    far = elsewhere(ann, other)
    assert answers(far, "/api/svc/self/perms") == ""
    dat(far.post("/api/svc/auth/logout"))
    assert answers(ann, "/api/svc/self/perms") == "unauthorized"


def test_what_is_given_counts_at_once_too(two) -> None:
    world, other = two
    far = WsgiClient(other.client.application)
    _, token = world.token(world.user("ann", "Guest"))
    assert answers(elsewhere(token, other), "/api/svc/self/perms") == ""
    assert err(elsewhere(token, other).get(POINT)) == "forbidden"
    dat(world.root.put(f"/api/svc/user/{world.user_id('ann')}/profile", {"roles": ["Admin"]}))
    assert answers(elsewhere(token, other), POINT) == ""
    assert answers(far, POINT) == "unauthorized"


def test_a_change_that_is_rolled_back_is_never_served(world) -> None:
    """A picture taken inside a transaction must not outlive it under a version number that is given again."""
    from tocsin.access.directory import USERS, Directory
    from tocsin.access.models import User

    core, directory = world.app.core, world.app.core.get(Directory)

    def fail_halfway() -> None:
        with core.db.atomic():
            User.update(roles="Guest").where(User.id == 1).execute()
            core.snapshots.bump(USERS)
            assert directory.state().users[1].roles == ("Guest",)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert directory.state().users[1].roles == ("Admin",)
    with core.db.atomic():
        core.snapshots.bump(USERS)
    assert directory.state().users[1].roles == ("Admin",)


def test_one_small_query_per_request(world) -> None:
    """Identity, point, group and team of a request cost one look at the versions."""
    ann = world.user("ann")
    team = world.team("sre", "ann")
    group = world.group("prod", rw=team)
    _, token = world.token(ann)
    executed: list[str] = []
    database = world.app.core.db.peewee
    original = database.execute_sql

    def recorded(sql: str, params: object = None, *rest: object) -> object:
        executed.append(sql)
        return original(sql, params, *rest)

    database.execute_sql = recorded
    try:
        for client in (ann, token):
            dat(client.get(f"/api/svc/busi-group/{group}/perm/rw"))
            executed.clear()
            assert dat(client.get(f"/api/svc/busi-group/{group}/perm/rw")) is True
            assert len(executed) == 1
            assert "change_version" in executed[0]
    finally:
        del database.execute_sql
