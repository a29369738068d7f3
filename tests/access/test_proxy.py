"""Logins made by a front proxy, which names the user in a header."""

import pytest

from tocsin.http.access import TOKEN_MODE
from tocsin.plugin import LOGIN, Feature, hookimpl, root
from tocsin.plugin.testkit import WsgiClient, dat, err

PROXY = {"HTTP": {"ProxyAuth": {"Enable": True, "DefaultRoles": ["Guest"]}}}


class Agent(Feature):
    name = "agent"

    def routes(self, core: object):
        yield root.get("/mcp", lambda context: context.user.via, LOGIN)
        yield root.get("/other", lambda context: context.user.via, LOGIN)


class AgentPlugin:
    @staticmethod
    @hookimpl
    def tocsin_features() -> list[Feature]:
        return [Agent()]


@pytest.fixture
def app(make_world):
    return make_world(settings=PROXY, plugins=[AgentPlugin()]).app


def named(app, name: str) -> WsgiClient:
    return app.client.with_headers(X_User_Name=name)


def test_the_header_is_the_caller(app) -> None:
    assert dat(named(app, "root").get("/api/svc/self/profile"))["id"] == 1
    assert dat(named(app, "root").get("/api/svc/users"))["admin"] is True
    assert err(app.client.get("/api/svc/self/profile")) == "unauthorized"
    assert err(named(app, " ").get("/api/svc/self/profile")) == "unauthorized"


def test_unknown_users_are_made(app) -> None:
    for _ in range(2):
        made = dat(named(app, "zoë".encode().decode("latin-1")).get("/api/svc/self/profile"))
    assert (made["username"], made["nickname"], made["roles"], made["create_by"]) == ("zoë", "zoë", ["Guest"], "system")
    assert made["update_by"] == "system"
    assert err(named(app, "ann").get("/api/svc/users")) == "forbidden"
    assert dat(named(app, "root").get("/api/svc/users"))["total"] == 3
    # Nobody can log in as them with a password.
    assert err(named(app, "<script>").get("/api/svc/self/profile")) == "unauthorized"
    assert dat(named(app, "root").get("/api/svc/users"))["total"] == 3


def test_login_and_logout(app) -> None:
    body = {"username": "someone else", "password": "x"}
    answer = dat(named(app, "root").post("/api/svc/auth/login", body))
    assert (answer["user"]["username"], answer["access_token"], answer["refresh_token"]) == ("root", "", "")
    assert err(app.client.post("/api/svc/auth/login", body)) == "unauthorized"
    assert dat(named(app, "root").post("/api/svc/auth/refresh", {"refresh_token": "x"}))["user"]["id"] == 1
    text = "logout is not supported when proxy auth is enabled"
    assert err(named(app, "root").post("/api/svc/auth/logout")) == text


def test_agents_and_calls_from_within_use_tokens(app) -> None:
    token = dat(named(app, "root").post("/api/svc/self/token", {"token_name": "ci"}))["token"]
    by_token = app.client.with_headers(X_User_Token=token)
    assert err(by_token.get("/api/svc/self/profile")) == "unauthorized"
    assert named(app, "root").get("/mcp").status == 401
    assert by_token.get("/mcp").json()["dat"] == "token"
    assert by_token.get("/other").status == 401
    within = WsgiClient(app.client.application, headers={"X-User-Token": token}, environ={TOKEN_MODE: True})
    assert dat(within.get("/api/svc/self/profile"))["id"] == 1
    # What a client sends never becomes that mark.
    outside = by_token.with_headers(**{TOKEN_MODE: "1", "tocsin": "1"})
    assert err(outside.get("/api/svc/self/profile")) == "unauthorized"


def test_without_the_setting_the_header_says_nothing(world) -> None:
    assert err(named(world.app, "root").get("/api/svc/self/profile")) == "unauthorized"


def test_the_header_can_be_renamed(make_world) -> None:
    settings = {"HTTP": {"ProxyAuth": {"Enable": True, "HeaderUserNameKey": "X-Remote"}}}
    app = make_world(settings=settings).app
    assert err(named(app, "root").get("/api/svc/self/profile")) == "unauthorized"
    assert dat(app.client.get("/api/svc/self/profile", headers={"X-Remote": "root"}))["id"] == 1
