"""Datasources as people create, see and change them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin.datasources.catalog import Catalog
from tocsin.plugin import DatasourceConfig, DatasourceError, DatasourceRegistry
from tocsin.plugin.testkit import AppFactory, TestApp, dat, err

SECRETS = ("s3cr3t-password", "s3cr3t-header", "s3cr3t-key", "s3cr3t-setting", "s3cr3t-in-url")
BODY: dict[str, Any] = {
    "name": "prod",
    "identifier": "prod-1",
    "description": "of production",
    "plugin_id": 7,
    "plugin_type": "store",
    "plugin_type_name": "A store",
    "category": "timeseries",
    "cluster_name": "default",
    "settings": {"token": "s3cr3t-setting", "flavour": "sweet"},
    "http": {
        "url": "http://u:s3cr3t-in-url@127.0.0.1:9/x",
        "timeout": 0,
        "headers": {"X-Key": "s3cr3t-header"},
        "tls": {"skip_tls_verify": True, "client_key": "s3cr3t-key"},
        "urls": None,
    },
    "auth": {"basic_auth": True, "basic_auth_user": "reader", "basic_auth_password": "s3cr3t-password"},
    "is_default": True,
    "weight": 3,
}


def upsert(app: TestApp, **changes: Any) -> Any:
    return app.root.post("/api/svc/datasource/upsert", {**BODY, **changes})


def desc(app: TestApp, datasource_id: int) -> Any:
    return dat(app.root.post("/api/svc/datasource/desc", {"id": datasource_id}))


def standard_user(app: TestApp) -> Any:
    body = {"username": "mary", "password": "a good password", "roles": ["Standard"]}
    dat(app.root.post("/api/svc/users", body))
    return app.login("mary", "a good password")


def test_what_was_saved_comes_back_to_an_administrator(app: TestApp) -> None:
    saved = dat(upsert(app))
    assert 0 <= saved["verification"].pop("latency_ms") < 5000
    assert saved["verification"] == {"state": "verified", "stage": "query", "message": ""}
    found = desc(app, saved["id"])
    assert {name: found[name] for name in ("name", "identifier", "weight", "is_default", "cluster_name")} == {
        "name": "prod", "identifier": "prod-1", "weight": 3, "is_default": True, "cluster_name": "default"
    }  # fmt: skip
    assert found["settings"] == BODY["settings"]
    assert found["auth"] == BODY["auth"]
    assert (found["http"]["timeout"], found["http"]["dial_timeout"], found["http"]["max_idle_conns_per_host"]) == (
        10000, 10000, 100
    )  # fmt: skip
    assert found["http"]["headers"] == {"X-Key": "s3cr3t-header"}
    assert (found["status"], found["created_by"], found["updated_by"]) == ("enabled", "root", "root")
    assert dat(app.root.post("/api/svc/datasource/list", {})) == [found]


def test_secrets_are_for_administrators_only(app: TestApp) -> None:
    dat(upsert(app))
    user = standard_user(app)
    for answer in (
        user.post("/api/svc/datasource/list", {}),
        user.get("/api/svc/datasource/brief"),
        app.root.get("/api/svc/datasource/brief"),
    ):
        [shown] = dat(answer)
        assert not [secret for secret in SECRETS if secret in answer.text]
        assert shown["http"]["url"] == "http://127.0.0.1:9/x"
        assert shown["http"]["headers"] is None
        assert shown["http"]["tls"]["skip_tls_verify"] is True
        assert shown["auth"] == {"basic_auth": False, "basic_auth_user": "", "basic_auth_password": ""}
    assert dat(user.post("/api/svc/datasource/list", {}))[0]["settings"] is None
    assert dat(user.get("/api/svc/datasource/brief"))[0]["settings"] == {"flavour": "sweet"}


def test_secrets_are_encrypted_at_rest(app: TestApp, tmp_path: Path) -> None:
    dat(upsert(app))
    stored = sqlite3.connect(tmp_path / "data" / "tocsin.db").execute("SELECT * FROM datasource").fetchone()
    assert "prod" in stored
    assert not [secret for secret in SECRETS if secret in str(stored)]
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert not [path for path in files for secret in SECRETS if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    "path", ["upsert", "desc", "status/update", "series", ""], ids=["upsert", "desc", "status", "series", "delete"]
)
def test_only_administrators_change_datasources(app: TestApp, path: str) -> None:
    user = standard_user(app)
    method = "DELETE" if path in ("series", "") else "POST"
    assert err(user.request(method, f"/api/svc/datasource/{path}", json=[])) == "forbidden"
    assert err(app.client.request(method, f"/api/svc/datasource/{path}", json=[])) == "unauthorized"


def test_a_datasource_that_does_not_answer_is_saved_only_by_force(app: TestApp, journal: Any) -> None:
    def fails(_: float) -> None:
        raise DatasourceError("127.0.0.1:9: cannot connect")

    journal.check = fails
    answer = upsert(app)
    assert err(answer) == "127.0.0.1:9: cannot connect"
    assert answer.headers["x-error-code"] == "unavailable"
    assert dat(app.root.post("/api/svc/datasource/list")) == []
    saved = dat(upsert(app, force_save=True))
    assert saved["verification"]["state"] == "saved_unverified"
    assert saved["verification"]["stage"] == "none"
    assert "without a connectivity check" in saved["verification"]["message"]
    assert len(dat(app.root.post("/api/svc/datasource/list"))) == 1


def test_settings_that_can_never_work_are_refused_even_by_force(app: TestApp) -> None:
    assert err(upsert(app, force_save=True, settings={"broken": 1})) == "settings.broken: this never works"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a<b"}, "Name has invalid characters"),
        ({"name": ""}, "name: got a length of 0, expected between 1 and 191"),
        ({"name": 7}, "name: got 7, expected a text"),
        ({"name": "x" * 192}, "name: got a length of 192, expected between 1 and 191"),
        ({"description": "\0"}, "U+0000"),
        ({"plugin_type": "nowhere"}, "plugin_type: got 'nowhere', expected one of store"),
        ({"http": {"url": "ftp://x"}}, "http.url must start with http or https"),
        ({"http": {"url": "http://"}}, "http.url: expected an address like http://host:port/path"),
        ({"http": {"url": "http://a b/"}}, "http.url: expected an address"),
        ({"http": {"url": "http://x:99999/"}}, "http.url: Port out of range"),
        ({"http": {"urls": ["http://ok", "gopher://x"]}}, "http.urls[1] must start with http or https"),
        (
            {"http": {"url": "http://169.254.169.254/latest"}},
            "http.url: connections to 169.254.169.254 are not allowed",
        ),
        ({"http": {"url": "http://[::ffff:169.254.169.254]/"}}, "http.url: connections to ::ffff:169.254.169.254"),
        ({"http": {"timeout": "10"}}, "http.timeout: got a text, expected an integer"),
        ({"http": {"headers": {"X": 5}}}, "http.headers.X.value: got 5, expected a text"),
        ({"http": {"url": "http://x", "headers": {"X-A": "b\r\nC: d"}}}, "headers: the value of X-A cannot be sent"),
        ({"http": {"url": "http://x", "tls": {"ca_cert": "no PEM"}}}, "tls.ca_cert: expected certificates in PEM"),
        ({"auth": []}, "auth"),
        ({"weight": 1 << 40}, "weight"),
        ({"id": 99}, "no such datasource id: 99"),
    ],
)
def test_input_that_cannot_be_used_is_refused_by_name(app: TestApp, change: dict[str, Any], message: str) -> None:
    text = err(upsert(app, **change))
    assert message in text
    assert dat(app.root.post("/api/svc/datasource/list")) == []


def test_names_are_unique(app: TestApp) -> None:
    first = dat(upsert(app))["id"]
    assert err(upsert(app)) == "name already exists"
    second = dat(upsert(app, name="other"))["id"]
    assert err(upsert(app, id=second, name="prod")) == "name already exists"
    assert dat(upsert(app, id=first))["id"] == first


def test_an_update_replaces_what_it_may_and_nothing_else(app: TestApp) -> None:
    saved = dat(upsert(app))["id"]
    dat(app.root.post("/api/svc/datasource/status/update", {"id": saved, "status": "disabled"}))
    before = desc(app, saved)
    change = {
        "id": saved,
        "name": "renamed",
        "plugin_type": "nowhere",
        "category": "x",
        "status": "enabled",
        "http": {"url": "http://127.0.0.1:10"},
        "force_save": True,
    }
    dat(app.root.post("/api/svc/datasource/upsert", change))
    after = desc(app, saved)
    assert after["name"] == "renamed"
    assert (after["plugin_type"], after["category"], after["status"]) == ("store", "timeseries", "disabled")
    assert (after["settings"], after["weight"], after["identifier"], after["http"]["headers"]) == ({}, 0, "", None)
    assert after["auth"]["basic_auth_password"] == ""
    assert (after["created_at"], after["created_by"]) == (before["created_at"], "root")


def test_the_engine_cluster_in_a_types_own_settings_wins(app: TestApp) -> None:
    saved = dat(upsert(app, settings={"store.cluster_name": "edge-1"}))["id"]
    assert desc(app, saved)["cluster_name"] == "edge-1"


def test_the_list_filters(app: TestApp, save: Callable[..., int]) -> None:
    first, second = save("prod east metrics", category="timeseries"), save("prod west metrics", category="logging")
    listed = lambda **body: [d["id"] for d in dat(app.root.post("/api/svc/datasource/list", body))]  # noqa: E731
    assert listed() == [second, first]
    assert listed(name="METRICS prod") == [second, first]
    assert listed(name="west prod") == [second]
    assert listed(category="timeseries") == [first]
    assert listed(plugin_type="other") == []


def test_status_takes_two_words_and_an_id_that_exists(app: TestApp, save: Callable[..., int]) -> None:
    saved = save()
    change = {"id": saved, "status": "disabled"}
    assert dat(app.root.post("/api/svc/datasource/status/update", change)) == change
    assert desc(app, saved)["status"] == "disabled"
    assert "status" in err(app.root.post("/api/svc/datasource/status/update", {"id": saved, "status": "off"}))
    assert "no such datasource" in err(app.root.post("/api/svc/datasource/status/update", {**change, "id": 77}))
    assert "id" in err(app.root.post("/api/svc/datasource/status/update", {"status": "enabled"}))


def test_delete_takes_ids_and_ignores_unknown_ones(app: TestApp, save: Callable[..., int]) -> None:
    first, second = save("a"), save("b")
    assert "[]int64" in err(app.root.delete("/api/svc/datasource", {"ids": [first]}))
    assert "type int64" in err(app.root.delete("/api/svc/datasource", ["1"]))
    assert dat(app.root.delete("/api/svc/datasource", [])) == {}
    assert dat(app.root.delete("/api/svc/datasource/", [first, 999])) == {}
    assert [d["id"] for d in dat(app.root.post("/api/svc/datasource/list"))] == [second]
    assert "no such datasource" in err(app.root.post("/api/svc/datasource/desc", {"id": first}))


def test_the_list_of_types_is_what_is_installed(app: TestApp, make_app: AppFactory) -> None:
    kind = {"id": 7, "category": "timeseries", "plugin_type": "store", "plugin_type_name": "A store"}
    assert dat(app.root.post("/api/svc/datasource/plugin/list", {})) == [kind | {"capabilities": ["metrics", "proxy"]}]
    bare = make_app()
    assert dat(bare.root.post("/api/svc/datasource/plugin/list", {})) == []
    assert "no datasource plugin is installed" in err(upsert(bare))


def test_selectors_are_resolved(app: TestApp, save: Callable[..., int]) -> None:
    first, second = save("prod-1"), save("test-1")
    body = {"datasource_cate": "store", "datasource_queries": [{"match_type": 1, "op": "in", "values": ["prod-*"]}]}
    assert dat(app.root.post("/api/svc/datasource/query", body)) == [{"id": first, "name": "prod-1"}]
    body["datasource_queries"] = [{"match_type": 0, "op": "not in", "values": [first]}]
    assert dat(app.root.post("/api/svc/datasource/query", body)) == [{"id": second, "name": "test-1"}]
    assert "op" in err(app.root.post("/api/svc/datasource/query", {"datasource_queries": [{"op": "like"}]}))


def test_queries_and_the_brief_list_need_a_login_unless_the_installation_says_otherwise(
    app: TestApp, make_app: AppFactory, plugin: Any
) -> None:
    paths = {"GET": ["datasource/brief", "proxy/1/x"], "POST": ["datasource/query", "query-range-batch"]}
    for method, tails in paths.items():
        for tail in tails:
            assert err(app.client.request(method, f"/api/svc/{tail}", json={})) == "unauthorized"
    opened = make_app(plugins=[plugin], settings={"Center": {"AnonymousAccess": {"PromQuerier": True}}})
    assert dat(opened.client.get("/api/svc/datasource/brief")) == []
    assert dat(opened.client.post("/api/svc/datasource/query", {})) == []
    assert err(opened.client.post("/api/svc/datasource/list", {})) == "unauthorized"


def test_the_service_api_lists_everything_to_those_who_have_its_password(make_app: AppFactory, plugin: Any) -> None:
    settings = {"HTTP": {"APIForService": {"Enable": True, "BasicAuth": {"edge": "pw"}}}}
    app = make_app(plugins=[plugin], settings=settings)
    saved = dat(upsert(app))["id"]
    assert app.client.get("/v1/svc/datasources").status == 401
    service = app.client.with_headers(Authorization="Basic ZWRnZTpwdw==")
    [found] = dat(service.get("/v1/svc/datasources", query={"typ": "store"}))
    assert found["auth"]["basic_auth_password"] == "s3cr3t-password"
    assert found["settings_encoded"] == ""
    assert dat(service.get("/v1/svc/datasources", query={"typ": "other"})) == []
    assert dat(service.get("/v1/svc/datasource-ids", query={"name": "default"})) == [saved]
    assert service.get("/v1/svc/datasource-ids", query={"name": "other"}).json().get("dat") is None
    assert dat(service.get("/v1/svc/datasource-rsa-config")) == {"open_rsa": False}


def test_without_the_service_api_its_rows_do_not_exist(app: TestApp) -> None:
    assert app.client.get("/v1/svc/datasources").status == 404


def test_clients_of_compatible_services_find_data_and_error(make_app: AppFactory, plugin: Any) -> None:
    app = make_app(plugins=[plugin], settings={"HTTP": {"PathAliases": {"/api/acme": "/api/svc"}}})
    plain = app.root.post("/api/svc/datasource/list", {}).json()
    assert not {"data", "error"} & set(plain)
    listed = app.root.post("/api/acme/datasource/list", {}).json()
    assert (listed["dat"], listed["data"], listed["err"], listed["error"]) == ([], [], "", "")
    deleted = app.root.delete("/api/acme/datasource", []).json()
    assert (deleted["data"], deleted["error"]) == ({}, "")
    failed = app.root.post("/api/acme/datasource/desc", {"id": 5})
    assert failed.status == 404
    assert failed.json()["err"] == "no such datasource id: 5"
    assert failed.json()["error"] == {"message": "no such datasource id: 5"}
    assert app.root.get("/api/acme/datasource/brief").json().keys() == {"dat", "err", "request_id"}


def test_a_change_is_seen_by_other_processes_at_their_next_request(
    app: TestApp, make_app: AppFactory, plugin: Any, save: Callable[..., int]
) -> None:
    saved = save("first")
    other = make_app(plugins=[plugin])
    assert other.core.get(Catalog).find(saved).name == "first"
    other.core.get(Catalog).update(saved, {**BODY, "name": "second"}, "someone")
    assert app.core.get(Catalog).find(saved).name == "second"


def test_a_row_that_cannot_be_decrypted_is_listed_and_harms_no_other(
    app: TestApp, save: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    broken, whole = save("broken"), save("whole")
    core = app.core
    with core.db.atomic():
        core.db.peewee.execute_sql("UPDATE datasource SET auth = 'enc:v1:AAAA' WHERE id = ?", (broken,))
        core.snapshots.bump("datasource")
    assert [d["name"] for d in dat(app.root.post("/api/svc/datasource/list"))] == ["whole", "broken"]
    query = {"queries": [{"query": "up", "time": 5}]}
    assert "cannot be decrypted" in err(
        app.root.post("/api/svc/query-instant-batch", {"datasource_id": broken, **query})
    )
    assert dat(app.root.post("/api/svc/query-instant-batch", {"datasource_id": whole, **query})) == [[]]
    assert "datasource broken (id" in caplog.text


class TestBroughtByTheInstallation:
    """Datasources that a component of the installation registers."""

    CONFIG = DatasourceConfig(
        0, "embedded", "store", {"flavour": "plain"}, {"url": "http://127.0.0.1:1/p"}, {"basic_auth": False}
    )

    def ensure(self, app: TestApp, config: DatasourceConfig = CONFIG) -> int:
        return app.core.get(DatasourceRegistry).ensure(config, identifier="svc-embedded")

    def test_it_is_created_once_as_enabled_default(self, app: TestApp) -> None:
        made = self.ensure(app)
        found = desc(app, made)
        assert (found["name"], found["identifier"], found["status"]) == ("embedded", "svc-embedded", "enabled")
        assert (found["is_default"], found["cluster_name"], found["created_by"]) == (True, "default", "system")
        assert (found["plugin_id"], found["plugin_type_name"], found["category"]) == (7, "A store", "timeseries")
        assert self.ensure(app) == made
        assert desc(app, made) == found

    def test_address_and_login_are_corrected_and_what_users_changed_stays(self, app: TestApp) -> None:
        made = self.ensure(app)
        change = {"id": made, "name": "mine", "settings": {"mine": 1}, "http": {"url": "http://old", "timeout": 77}}
        dat(app.root.post("/api/svc/datasource/upsert", {**change, "identifier": "svc-embedded"}))
        assert self.ensure(app) == made
        found = desc(app, made)
        assert (found["name"], found["http"]["url"], found["http"]["timeout"]) == ("mine", "http://127.0.0.1:1/p", 77)
        assert found["settings"] == {"mine": 1, "flavour": "plain"}
        assert found["updated_by"] == "system"

    def test_another_enabled_one_of_its_type_or_its_name_keeps_it_away(self, app: TestApp, save: Any) -> None:
        other = save("other")
        assert self.ensure(app) == 0
        dat(app.root.post("/api/svc/datasource/status/update", {"id": other, "status": "disabled"}))
        url = {"http": {"url": "http://127.0.0.1:9"}}
        dat(app.root.post("/api/svc/datasource/upsert", {"id": other, "name": "embedded", **url}))
        assert self.ensure(app) == 0
        dat(app.root.post("/api/svc/datasource/upsert", {"id": other, "name": "other", **url}))
        assert self.ensure(app) > 0

    def test_without_a_plugin_for_it_nothing_happens(self, make_app: AppFactory) -> None:
        assert self.ensure(make_app()) == 0
