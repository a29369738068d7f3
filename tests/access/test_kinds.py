"""Every kind of access a route row can ask for, held against every kind of caller."""

from collections.abc import Iterable

import pytest

from tocsin.app.core import Core
from tocsin.plugin import (
    ADMIN,
    AGENT,
    ANONYMOUS,
    LOCAL,
    LOGIN,
    SERVICE,
    Context,
    Feature,
    Route,
    group_read,
    group_write,
    hookimpl,
    page,
    perm,
    root,
    service,
    team_write,
)
from tocsin.plugin.testkit import WsgiClient, err


def served(context: Context) -> str:
    return context.operator or "served"


def check_named_group(context: Context) -> str:
    context.require_group(context.query_int("group", 0), write=context.query_bool("write"))
    return "served"


class Doors(Feature):
    name = "doors"

    def routes(self, core: Core) -> Iterable[Route]:
        yield page.get("/door/anonymous", served, ANONYMOUS)
        yield page.get("/door/login", served, LOGIN)
        yield page.get("/door/point", served, perm("/alert-rules/put"))
        yield page.get("/door/admin", served, ADMIN)
        yield page.get("/door/read/:gid", served, group_read("gid"))
        yield page.get("/door/write/:gid", served, group_write("gid"))
        yield page.get("/door/both/:gid", served, perm("/alert-rules/put") & group_write("gid"))
        yield page.get("/door/team/:id", served, team_write())
        yield page.get("/door/in-object", check_named_group, LOGIN)
        yield service.get("/door/service", served, SERVICE)
        yield root.get("/door/agent", served, AGENT)
        yield root.get("/door/local", served, LOCAL)


class DoorsPlugin:
    @staticmethod
    @hookimpl
    def tocsin_features() -> list[Feature]:
        return [Doors()]


OK, LOGIN_FIRST, NO = "", "unauthorized", "forbidden"

# door -> what each caller gets.  "writer" and "reader" are in a team bound rw and ro to the group and hold the point by
# the role Standard; "pointless" is in the writing team with the role Guest; "outsider" holds the point, is in no team;
# "nobody" sends no credential.
EXPECTED = {
    "anonymous": {"nobody": OK, "outsider": OK, "root": OK},
    "login": {"nobody": LOGIN_FIRST, "outsider": OK, "pointless": OK, "root": OK},
    "point": {"nobody": LOGIN_FIRST, "pointless": NO, "outsider": OK, "writer": OK, "root": OK},
    "admin": {"nobody": LOGIN_FIRST, "writer": NO, "pointless": NO, "root": OK},
    "read/{group}": {
        "nobody": LOGIN_FIRST,
        "outsider": NO,
        "reader": OK,
        "writer": OK,
        "pointless": OK,
        "root": OK,
    },
    "write/{group}": {"nobody": LOGIN_FIRST, "outsider": NO, "reader": NO, "writer": OK, "pointless": OK, "root": OK},
    "both/{group}": {"nobody": LOGIN_FIRST, "outsider": NO, "reader": NO, "pointless": NO, "writer": OK, "root": OK},
    "read/999": {"nobody": LOGIN_FIRST, "outsider": "No such BusiGroup", "root": "No such BusiGroup"},
    "both/999": {"pointless": NO, "writer": "No such BusiGroup", "root": "No such BusiGroup"},
    "team/{team}": {"nobody": LOGIN_FIRST, "outsider": NO, "reader": NO, "writer": OK, "pointless": OK, "root": OK},
    "team/999": {"writer": "No such UserGroup", "root": "No such UserGroup"},
    "read/abc": {"root": "cannot convert abc to int64"},
    "in-object?group={group}": {"outsider": NO, "reader": OK, "writer": OK, "root": OK},
    "in-object?group={group}&write=true": {"outsider": NO, "reader": NO, "writer": OK, "root": OK},
    "in-object?group=999": {"outsider": "No such BusiGroup", "root": "No such BusiGroup"},
}


@pytest.mark.parametrize("credential", ["session", "token"])
def test_doors(make_world, credential: str) -> None:
    world = make_world(plugins=[DoorsPlugin()])
    callers: dict[str, WsgiClient] = {"nobody": world.app.client, "root": world.root}
    for name, role in (
        ("writer", "Standard"),
        ("reader", "Standard"),
        ("pointless", "Guest"),
        ("outsider", "Standard"),
    ):
        callers[name] = world.user(name, role)
    if credential == "token":
        callers |= {name: world.token(client)[1] for name, client in callers.items() if name != "nobody"}
    writers, readers = world.team("writers", "writer", "pointless"), world.team("readers", "reader")
    places = {"group": world.group("prod", rw=writers, ro=readers), "team": writers}
    wrong = []
    for door, expected in EXPECTED.items():
        for name, text in expected.items():
            body = callers[name].get("/api/svc/door/" + door.format(**places)).json()
            if body["err"] != text or ("dat" in body) != (text == OK):
                wrong.append((door, name, body, text))
    assert wrong == []


def test_reasons_travel_in_a_header_and_statuses_only_through_an_alias(make_world) -> None:
    settings = {"HTTP": {"PathAliases": {"/api/acme": "/api/svc"}}}
    world = make_world(plugins=[DoorsPlugin()], settings=settings)
    guest = world.user("guest", "Guest")
    for client, path, reason, status, text in (
        (world.app.client, "login", "unauthorized", 401, "unauthorized"),
        (guest, "admin", "forbidden", 403, "forbidden"),
        (guest, "read/999", "not_found", 404, "No such BusiGroup"),
        (guest, "read/x", "invalid", 400, "cannot convert x to int64"),
    ):
        ours = client.get(f"/api/svc/door/{path}")
        assert (ours.status, ours.json()["err"], ours.headers["x-error-code"]) == (200, text, reason)
        theirs = client.get(f"/api/acme/door/{path}")
        assert (theirs.status, theirs.text, theirs.headers["x-error-code"]) == (status, text, reason)
    wrong = {"username": "guest", "password": "wrong"}
    through_alias = world.app.client.post("/api/acme/auth/login", wrong)
    assert err(through_alias) == "Username or password invalid"


def test_service_basic_auth(make_world) -> None:
    accounts = {"APIForService": {"Enable": True, "BasicAuth": {"ann": "pw", "bob": "secret"}}}
    client = make_world(plugins=[DoorsPlugin()], settings={"HTTP": accounts}).app.client

    def ask(header: str) -> tuple[int, str, str]:
        answer = client.get("/v1/svc/door/service", headers={"Authorization": header} if header else {})
        return answer.status, answer.headers.get("www-authenticate", ""), answer.json()["dat"] if answer.body else ""

    refused = (401, 'Basic realm="Authorization Required"', "")
    assert ask("Basic YW5uOnB3") == (200, "", "ann")
    assert ask("basic Ym9iOnNlY3JldA==") == (200, "", "bob")
    for header in ("", "Basic", "Basic !!!", "Basic YW5uOnNlY3JldA==", "Basic YW5uOg==", "Bearer YW5uOnB3"):
        assert ask(header) == refused, header


def test_agent_basic_auth_is_open_until_accounts_are_configured(make_world) -> None:
    door = "/door/agent"
    assert make_world(plugins=[DoorsPlugin()]).app.client.get(door).status == 200
    accounts = {"APIForAgent": {"BasicAuth": {"cat": "pw"}}}
    closed = make_world(plugins=[DoorsPlugin()], settings={"HTTP": accounts}).app.client
    assert closed.get(door).status == 401
    assert closed.get(door, headers={"Authorization": "Basic Y2F0OnB3"}).status == 200


def test_local_only(make_world) -> None:
    application = make_world(plugins=[DoorsPlugin()]).app.client.application
    for address, status in (("127.0.0.1", 200), ("::1", 200), ("10.0.0.7", 403)):
        assert WsgiClient(application, remote=address).get("/door/local").status == status, address


def test_the_service_api_without_accounts_refuses_everybody(make_world, caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(plugins=[DoorsPlugin()], settings={"HTTP": {"APIForService": {"Enable": True}}}, start="http")
    for header in ("", "Basic Og==", "Basic YW5uOnB3"):
        assert world.app.client.get("/v1/svc/door/service", headers={"Authorization": header}).status == 401
    assert "HTTP.APIForService.BasicAuth has no account" in caplog.text
