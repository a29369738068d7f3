"""Logging in, renewing, logging out; forged and outdated tokens."""

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.access.keys import Keys
from tocsin.access.login import Login
from tocsin.access.passwords import Passwords
from tocsin.plugin.testkit import ROOT_PASSWORD, WsgiClient, dat, err

LOGIN = "/api/svc/auth/login"


def log_in(world, password: str = ROOT_PASSWORD, username: str = "root") -> dict[str, Any]:
    return dat(world.app.client.post(LOGIN, {"username": username, "password": password}))


def bearer(world, token: str) -> WsgiClient:
    return world.app.client.with_headers(Authorization=f"Bearer {token}")


def works(client: WsgiClient) -> bool:
    return client.get("/api/svc/self/profile").json()["err"] == ""


def test_login_gives_the_user_and_two_tokens(world) -> None:
    session = log_in(world)
    assert session.keys() == {"user", "access_token", "refresh_token"}
    user = session["user"]
    assert "password" not in user
    assert (user["id"], user["username"], user["nickname"], user["roles"], user["admin"]) == (
        *(1, "root", "Admin"),
        *(["Admin"], True),
    )
    assert (user["contacts"], user["user_groups"], user["busi_groups"], user["belong"]) == ({}, None, None, "")
    header = jwt.get_unverified_header(session["access_token"])
    access = jwt.decode(session["access_token"], options={"verify_signature": False})
    refresh = jwt.decode(session["refresh_token"], options={"verify_signature": False})
    assert header["alg"] == "HS256"
    assert access.keys() == {"authorized", "access_uuid", "user_identity", "exp"}
    assert (access["authorized"], access["user_identity"]) == (True, "1-root")
    assert refresh["refresh_uuid"] == f"{access['access_uuid']}++1-root"
    assert 1499 * 60 < access["exp"] - time.time() <= 1500 * 60
    assert 10079 * 60 < refresh["exp"] - time.time() <= 10080 * 60


def test_public_endpoints_of_the_login_page(world) -> None:
    client = world.app.client
    assert dat(client.get("/api/svc/auth/ifshowcaptcha")) == {"show": False}
    assert dat(client.get("/api/svc/auth/rsa-config")) == {"OpenRSA": False, "RSAPublicKey": ""}
    assert set(dat(client.get("/api/svc/auth/sso-config")).values()) == {""}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "json body invalid: EOF"),
        (b"{", "json body invalid: unexpected end of data"),
        (b"[]", "json body invalid: json: cannot unmarshal array into Go value of type loginForm"),
        (b'"root"', "json body invalid: json: cannot unmarshal string into Go value of type loginForm"),
        (b"{}", "json body invalid: username: Missing data for required field."),
        (b'{"username": "root", "password": ""}', "json body invalid: password: required"),
        (b'{"username": 1, "password": "x"}', "json body invalid: username: got 1, expected a text"),
        (b'{"username": "root", "password": null}', "json body invalid: password: Field may not be null."),
    ],
)
def test_bad_login_bodies(world, body: bytes, text: str) -> None:
    answer = world.app.client.post(LOGIN, body=body)
    assert err(answer).startswith(text)
    assert answer.headers["x-error-code"] == "invalid"


def test_wrong_password_and_unknown_user_look_the_same(world, monkeypatch: pytest.MonkeyPatch) -> None:
    hasher = world.app.core.get(Passwords).hasher
    work: list[str] = []
    verify = type(hasher).verify

    def counted(self: Any, stored: str, password: str) -> Any:
        work.append(stored.rsplit("$", 2)[0])
        return verify(self, stored, password)

    monkeypatch.setattr(type(hasher), "verify", counted)
    answers = []
    for body in (
        {"username": "root", "password": "wrong"},
        {"username": "nobody", "password": "wrong"},
        {"username": "root", "password": "x" * 5000},
    ):
        answer = world.app.client.post(LOGIN, body)
        answers.append((err(answer), answer.headers["x-error-code"]))
    assert set(answers) == {("Username or password invalid", "unauthorized")}
    assert len(work) == 2  # the endless password is refused without hashing
    assert work[0] == work[1]  # an unknown user costs the same: one verification with the same parameters


def test_a_flood_of_logins_waits_only_so_long(world, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Passwords, "WAIT_SECONDS", 0.01)
    passwords = world.app.core.get(Passwords)
    for _ in range(Passwords.PARALLEL):
        assert passwords._slots.acquire(blocking=False)
    body = {"username": "root", "password": ROOT_PASSWORD}
    answer = world.app.client.post(LOGIN, body)
    assert (err(answer), answer.headers["x-error-code"]) == (
        "too many password checks at once, try again later",
        "limit",
    )
    passwords._slots.release()
    assert dat(world.app.client.post(LOGIN, body))["user"]["id"] == 1


def test_refresh_rotates(world) -> None:
    old = log_in(world)
    new = dat(world.app.client.post("/api/svc/auth/refresh", {"refresh_token": old["refresh_token"]}))
    assert new.keys() == {"access_token", "refresh_token"}
    assert works(bearer(world, new["access_token"]))
    assert not works(bearer(world, old["access_token"]))
    for token in (old["refresh_token"], new["access_token"], "garbage"):
        answer = world.app.client.post("/api/svc/auth/refresh", {"refresh_token": token})
        assert (err(answer), answer.headers["x-error-code"]) == ("refresh token expired", "unauthorized")
    assert not works(bearer(world, new["refresh_token"]))


def test_a_refresh_token_works_once_even_at_the_same_time(world) -> None:
    token = log_in(world)["refresh_token"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda _: world.app.client.post("/api/svc/auth/refresh", {"refresh_token": token}).json(), range(8)
            )
        )
    assert sum(answer["err"] == "" for answer in answers) == 1


def test_refresh_of_a_deleted_user(world) -> None:
    world.user("ann")
    session = log_in(world, "correct horse battery", "ann")
    dat(world.root.delete(f"/api/svc/user/{world.user_id('ann')}"))
    answer = world.app.client.post("/api/svc/auth/refresh", {"refresh_token": session["refresh_token"]})
    assert err(answer) == "user already deleted"
    assert not works(bearer(world, session["access_token"]))


def test_logout_ends_this_session_only(world) -> None:
    one, two = log_in(world), log_in(world)
    assert dat(bearer(world, one["access_token"]).post("/api/svc/auth/logout")) == ""
    assert not works(bearer(world, one["access_token"]))
    assert works(bearer(world, two["access_token"]))
    answer = world.app.client.post("/api/svc/auth/refresh", {"refresh_token": one["refresh_token"]})
    assert err(answer) == "refresh token expired"
    _, by_token = world.token(world.root)
    assert err(by_token.post("/api/svc/auth/logout")) == "failed to parse jwt token"


def test_single_login(make_world) -> None:
    world = make_world(settings={"HTTP": {"JWTAuth": {"SingleLogin": True}}})
    first = log_in(world)
    assert works(bearer(world, first["access_token"]))
    second = log_in(world)
    assert not works(bearer(world, first["access_token"]))
    assert works(bearer(world, second["access_token"]))
    old = world.app.client.post("/api/svc/auth/refresh", {"refresh_token": first["refresh_token"]})
    assert err(old) == "refresh token expired"
    third = dat(world.app.client.post("/api/svc/auth/refresh", {"refresh_token": second["refresh_token"]}))
    assert works(bearer(world, third["access_token"]))
    assert not works(bearer(world, second["access_token"]))


def forged(token: str, key: str, **changes: Any) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode({**claims, **changes}, key, algorithm="HS256")


def test_forged_tokens(world) -> None:
    token = log_in(world)["access_token"]
    key = world.app.core.get(Keys).jwt
    claims = jwt.decode(token, options={"verify_signature": False})
    head, body, signature = token.split(".")
    none = base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": "JWT"}).encode()).rstrip(b"=").decode()
    tokens = {
        "another key": forged(token, "k" * 64),
        "no algorithm": f"{none}.{body}.",
        "no algorithm, old signature": f"{none}.{body}.{signature}",
        "another algorithm": jwt.encode(claims, key * 2, algorithm="HS512"),
        "expired": forged(token, key, exp=int(time.time()) - 1),
        "no session": forged(token, key, access_uuid="6f1c7d4e-0000-4000-8000-000000000000"),
        "a record of another kind": forged(token, key, access_uuid=f"{claims['access_uuid']}++1-root"),
        "uuid of a wrong type": forged(token, key, access_uuid=["x"]),
        "cut": f"{head}.{body}",
        "changed": f"{head}.{body[:-2]}xx.{signature}",
        "empty": "",
        "not text": "\xff\xfe",
        "control": "a\x00b",
    }
    assert works(bearer(world, token))
    assert works(world.app.client.with_headers(Authorization=f"bearer {token}"))
    assert works(bearer(world, forged(token, key, note="signed by us")))
    assert [name for name, value in tokens.items() if works(bearer(world, value)) and "record" not in name] == []
    assert not works(world.app.client.with_headers(Authorization=f"Basic {token}"))
    assert not works(world.app.client.with_headers(Authorization=token))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=st.text(st.characters(max_codepoint=255), max_size=80))
def test_no_header_crashes_the_door(world, header: str) -> None:
    for name in ("Authorization", "X-User-Token"):
        value = f"Bearer {header}" if name == "Authorization" else header
        answer = world.app.client.get("/api/svc/self/profile", headers={name: value})
        assert answer.json()["err"] == "unauthorized"


def test_identity_with_hyphens(world) -> None:
    client = world.user("a-b-c", "Guest")
    assert dat(client.get("/api/svc/self/profile"))["username"] == "a-b-c"


def test_a_new_user_with_an_old_name_does_not_inherit_sessions(world) -> None:
    old = world.user("ann")
    _, token = world.token(old)
    dat(world.root.delete(f"/api/svc/user/{world.user_id('ann')}"))
    body = {"username": "ann", "password": "another password", "roles": ["Guest"]}
    dat(world.root.post("/api/svc/users", body))
    assert not works(old)
    assert not works(token)


def test_login_failures_are_limited(world) -> None:
    world.user("ann")
    dat(world.root.put("/api/svc/config", {"ckey": "login_fail_count", "cval": "300 2"}))
    bad, good = {"username": "ann", "password": "wrong"}, {"username": "ann", "password": "correct horse battery"}
    texts = [err(world.app.client.post(LOGIN, bad)) for _ in range(3)]
    assert texts == ["Username or password invalid"] * 2 + ["reach login fail count"]
    answer = world.app.client.post(LOGIN, good)
    assert (err(answer), answer.headers["x-error-code"]) == ("reach login fail count", "limit")
    log_in(world)  # others are not touched
    nobody = {"username": "nobody", "password": "wrong"}
    texts = [err(world.app.client.post(LOGIN, nobody)) for _ in range(3)]
    assert texts[-1] == "reach login fail count"
    counted = world.app.core.metrics.registry.get_sample_value
    assert counted("svc_center_login_total", {"result": "limited"}) == 3
    assert counted("svc_center_login_total", {"result": "failure"}) == 4


@pytest.mark.parametrize("value", ["", "300", "300 5 1", "a b", "-300 -5", "300 0"])
def test_a_limit_that_says_nothing_limits_nothing(world, value: str) -> None:
    dat(world.root.put("/api/svc/config", {"ckey": "login_fail_count", "cval": value}))
    bad = {"username": "root", "password": "wrong"}
    assert {err(world.app.client.post(LOGIN, bad)) for _ in range(4)} == {"Username or password invalid"}


def test_an_old_hash_is_renewed_at_login(world) -> None:
    from argon2 import PasswordHasher

    from tocsin.access.models import User

    weak = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(ROOT_PASSWORD)
    User.update(password=weak).where(User.username == "root").execute()
    world.app.core.get(Passwords).hasher = Passwords(8).hasher  # that of the service, not that of tests
    world.app.core.get(Login).check("root", ROOT_PASSWORD)
    renewed = User.get(User.username == "root").password
    assert "m=19456,t=2,p=1" in renewed
    world.app.core.get(Login).check("root", ROOT_PASSWORD)


def test_refusals_are_counted(world) -> None:
    def counted(reason: str) -> float:
        name = "svc_center_auth_refused_total"
        return world.app.core.metrics.registry.get_sample_value(name, {"reason": reason}) or 0

    world.app.client.get("/api/svc/self/profile")
    bearer(world, "x").get("/api/svc/self/profile")
    world.app.client.get("/api/svc/self/profile", headers={"X-User-Token": "x"})
    assert [counted(reason) for reason in ("missing", "session", "token", "proxy")] == [1, 1, 1, 0]
