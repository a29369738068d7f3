"""Saved views through the front door."""

from typing import Any

import pytest

import tocsin_feature_saved_views
from tocsin.plugin.testkit import AppFactory, TestApp, WsgiClient, dat, err
from tocsin.plugin.testkit.feature import FeatureContract

VIEWS, VIEW = "/api/svc/saved-views", "/api/svc/saved-view"


class TestContract(FeatureContract):
    plugin = "tocsin_feature_saved_views"


@pytest.fixture
def app(make_app: AppFactory) -> TestApp:
    return make_app(plugins=[tocsin_feature_saved_views])


def user(app: TestApp, name: str) -> WsgiClient:
    dat(app.root.post("/api/svc/users", {"username": name, "password": "Pass-word-1", "roles": ["Standard"]}))
    return app.login(name, "Pass-word-1")


def body(name: str = "mine", **more: Any) -> dict[str, Any]:
    return {"name": name, "page": "hosts", "filter": '{"a":1}', "public_cate": 0, "gids": None, **more}


def names(client: WsgiClient) -> list[str]:
    return [view["name"] for view in dat(client.get(f"{VIEWS}?page=hosts"))]


def test_a_view_is_kept_changed_and_removed(app: TestApp) -> None:
    ann = user(app, "ann")
    view_id = dat(ann.post(VIEWS, body(" p1 only ")))
    (view,) = dat(ann.get(f"{VIEWS}?page=hosts"))
    assert view["id"] == view_id
    assert (view["name"], view["filter"], view["gids"]) == ("p1 only", '{"a":1}', None)
    assert (view["create_by"], view["is_favorite"], view["update_by_nickname"]) == ("ann", False, "")
    assert dat(ann.get(f"{VIEWS}?page=other")) == []
    assert dat(ann.put(f"{VIEW}/{view_id}", body("renamed", page="elsewhere", gids=[1]))) is None
    (view,) = dat(ann.get(f"{VIEWS}?page=hosts"))
    assert (view["name"], view["page"], view["gids"]) == ("renamed", "hosts", [1])
    dat(ann.delete(f"{VIEW}/{view_id}"))
    assert names(ann) == []
    assert err(ann.delete(f"{VIEW}/{view_id}")) == "record not found"


def test_who_sees_what(app: TestApp) -> None:
    ann, bob = user(app, "ann"), user(app, "bob")
    bob_id = next(u["id"] for u in dat(app.root.get("/api/svc/users?query=bob"))["list"])
    team = dat(app.root.post("/api/svc/user-groups", {"name": "on call", "note": ""}))
    for name, cate, gids in (("private", 0, None), ("team", 1, [team]), ("all", 2, None)):
        dat(ann.post(VIEWS, body(name, public_cate=cate, gids=gids)))
    assert sorted(names(ann)) == ["all", "private", "team"]
    assert names(bob) == ["all"]
    dat(app.root.post(f"/api/svc/user-group/{team}/members", {"ids": [bob_id]}))
    assert sorted(names(bob)) == ["all", "team"]


def test_only_the_creator_or_an_administrator_changes_it(app: TestApp) -> None:
    ann, bob = user(app, "ann"), user(app, "bob")
    view_id = dat(ann.post(VIEWS, body(public_cate=2)))
    refused = bob.put(f"{VIEW}/{view_id}", body("stolen"))
    assert err(refused) == "forbidden"
    assert refused.headers["x-error-code"] == "forbidden"
    assert err(bob.delete(f"{VIEW}/{view_id}")) == "forbidden"
    dat(app.root.put(f"{VIEW}/{view_id}", body("tidied", public_cate=2)))
    assert names(bob) == ["tidied"]


def test_favourites_come_first_and_belong_to_one_user(app: TestApp) -> None:
    ann, bob = user(app, "ann"), user(app, "bob")
    ids = [dat(ann.post(VIEWS, body(f"v{i}", public_cate=2))) for i in range(3)]
    assert names(bob) == ["v2", "v1", "v0"]
    for _ in range(2):
        dat(bob.post(f"{VIEW}/{ids[0]}/favorite", {}))
    assert names(bob) == ["v0", "v2", "v1"]
    assert names(ann) == ["v2", "v1", "v0"]
    dat(bob.delete(f"{VIEW}/{ids[0]}/favorite"))
    dat(bob.delete(f"{VIEW}/{ids[0]}/favorite"))
    assert names(bob) == ["v2", "v1", "v0"]
    private = dat(ann.post(VIEWS, body("private")))
    assert err(bob.post(f"{VIEW}/{private}/favorite", {})) == "saved view not found"
    assert err(bob.post(f"{VIEW}/999/favorite", {})) == "saved view not found"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (body(" "), "saved view name is blank"),
        (body(page=" "), "saved view page is blank"),
        (body(public_cate=3), "public_cate: got 3, expected one of 0, 1, 2"),
        (body(gids=["a"]), "gids.0: got a text, expected an integer"),
        (body("x" * 256), "name: got a length of 256, expected at most 255"),
        ([], "cannot unmarshal array"),
    ],
)
def test_bad_views_are_refused_by_field(app: TestApp, given: Any, text: str) -> None:
    assert text in err(app.root.post(VIEWS, given))


def test_a_public_name_is_unique_on_its_page(app: TestApp) -> None:
    ann = user(app, "ann")
    first = dat(ann.post(VIEWS, body("same", public_cate=2)))
    assert err(ann.post(VIEWS, body("same", public_cate=2))) == "saved view name already exists in this page"
    dat(ann.post(VIEWS, body("same", public_cate=2, page="other")))
    dat(ann.post(VIEWS, body("same")))
    dat(ann.put(f"{VIEW}/{first}", body("same", public_cate=2)))


def test_it_asks_for_a_login_and_a_page(app: TestApp) -> None:
    assert err(app.client.get(f"{VIEWS}?page=hosts")) == "unauthorized"
    assert err(app.root.get(VIEWS)) == "query param[page] is necessary"


def test_it_can_be_installed_later_and_removed_again(make_app: AppFactory) -> None:
    bare = make_app()
    assert bare.root.get(f"{VIEWS}?page=hosts").headers["content-type"].startswith("text/html")
    installed = make_app(plugins=[tocsin_feature_saved_views])
    dat(installed.root.post(VIEWS, body()))
    removed = make_app()
    assert removed.root.get(f"{VIEWS}?page=hosts").headers["content-type"].startswith("text/html")
    assert dat(removed.root.get("/api/svc/self/profile"))["username"] == "root"
    again = make_app(plugins=[tocsin_feature_saved_views])
    assert names(again.root) == ["mine"]
