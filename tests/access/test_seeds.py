"""The first start of an installation."""

import multiprocessing
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tocsin.access.configs import Configs, Site
from tocsin.access.models import BusiGroupMember, Config, Role, RoleOperation, Team, TeamMember, User
from tocsin.access.seeds import FirstLogin
from tocsin.app import capabilities
from tocsin.app.bootstrap import make_application, make_core, prepare
from tocsin.app.registry import Plugins
from tocsin.app.settings import SettingsError
from tocsin.plugin.testkit import ROOT_PASSWORD, WsgiClient, dat, err
from tocsin.plugin.testkit.components import PATIENCE


@pytest.fixture(autouse=True)
def _access_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "CAPABILITIES", ("tocsin.access", "tocsin.web"))


def start(directory: Path, process: str = "center", **environ: str) -> Any:
    document = {"Data": {"Dir": str(directory)}}
    core = make_core(process, document, environ=environ, plugins=Plugins())
    prepare(core)
    return core


def log_in(core: Any, password: str) -> dict[str, Any]:
    client = WsgiClient(make_application(core))
    return client.post("/api/svc/auth/login", {"username": "root", "password": password}).json()


def greetings(core: Any) -> list[str]:
    return [line for feature in core.features for line in feature.greeting(core)]


def test_a_random_password_is_shown_once(tmp_path: Path) -> None:
    core = start(tmp_path)
    (line,) = greetings(core)
    found = re.fullmatch(r"First login: user root, password (\S{16}) \(shown only now\)", line)
    assert found is not None
    assert greetings(core) == []
    assert log_in(core, found[1])["err"] == ""
    core.close()
    again = start(tmp_path)
    assert greetings(again) == []
    assert log_in(again, found[1])["err"] == ""
    again.close()


def test_a_given_password_is_used_and_never_shown(tmp_path: Path) -> None:
    core = start(tmp_path, TOCSIN_ROOT_PASSWORD="chosen by the operator")
    assert core.get(FirstLogin).take() is None
    assert log_in(core, "chosen by the operator")["err"] == ""
    core.close()
    # Later starts do not change it.
    again = start(tmp_path, TOCSIN_ROOT_PASSWORD="another password")
    assert log_in(again, "another password")["err"] == "Username or password invalid"
    assert log_in(again, "chosen by the operator")["err"] == ""
    again.close()


def test_a_given_password_must_satisfy_the_policy(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^Root.Password: got \*\*\*, expected at least 8 characters$"):
        start(tmp_path, TOCSIN_ROOT_PASSWORD="short")
    core = start(tmp_path)
    assert len(greetings(core)) == 1
    core.close()


def test_the_rows_of_an_installation(tmp_path: Path) -> None:
    core = start(tmp_path, TOCSIN_ROOT_PASSWORD=ROOT_PASSWORD)
    (root,) = User.select()
    assert (root.id, root.username, root.nickname, root.roles, root.create_by) == (
        1,
        "root",
        "Admin",
        "Admin",
        "system",
    )
    (team,) = Team.select()
    assert (team.id, team.name, team.create_by) == (1, "demo-root-group", "root")
    assert [(m.group_id, m.user_id) for m in TeamMember.select()] == [(1, 1)]
    assert [(b.busi_group_id, b.user_group_id, b.perm_flag) for b in BusiGroupMember.select()] == [(1, 1, "rw")]
    assert (Role.select().count(), RoleOperation.select().count()) == (3, 59)
    secrets = {row.ckey: row for row in Config.select().where(Config.encrypted == 1)}
    assert secrets.keys() == {"jwt_signing_key", "token_hash_key"}
    assert all(row.cval.startswith("enc:v1:") for row in secrets.values())
    core.close()


def test_other_processes_seed_nothing(tmp_path: Path) -> None:
    core = start(tmp_path, "alert")
    assert User.select().count() == 0
    assert greetings(core) == []
    core.close()


def first_start(directory: Path, ready: Any, results: Any) -> None:
    """Start a center at the same moment as others; runs in a process of its own."""
    ready.wait(PATIENCE)
    core = start(directory)
    results.put(
        (core.get(FirstLogin).take(), User.select().count(), RoleOperation.select().count(), Config.select().count())
    )
    core.close()


def test_processes_that_start_at_once_seed_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready, results = context.Barrier(3), context.Queue()
    children = [context.Process(target=first_start, args=(tmp_path, ready, results)) for _ in range(3)]
    for child in children:
        child.start()
    found = [results.get(timeout=PATIENCE) for _ in children]
    for child in children:
        child.join(PATIENCE)
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert sum(login is not None for login, *_ in found) == 1
    assert {tuple(counts) for _, *counts in found} == {(1, 59, found[0][3])}


def test_site_info_gets_an_address_and_keeps_the_rest(make_world) -> None:
    world = make_world(settings={"HTTP": {"Host": "10.1.2.3", "Port": 17001}})
    assert dat(world.app.client.get("/api/svc/site-info")) == '{"site_url":"http://10.1.2.3:17001"}'
    write = {"ckey": "site_info", "cval": '{"page_title":"Bells","site_url":""}'}
    dat(world.root.put("/api/svc/config", write))
    again = make_world(settings={"HTTP": {"Host": "10.1.2.3", "Port": 17001}})
    stored = dat(again.app.client.get("/api/svc/site-info"))
    assert stored == '{"page_title":"Bells","site_url":"http://10.1.2.3:17001"}'
    again.app.core.get(Configs).set("site_info", "no json", "root")
    broken = make_world()
    assert dat(broken.app.client.get("/api/svc/site-info")) == "no json"


def test_the_access_log_follows_site_info(make_world, caplog: pytest.LogCaptureFixture, monkeypatch) -> None:
    monkeypatch.setattr(Site, "REFRESH_SECONDS", -1.0)
    world = make_world()
    caplog.set_level("INFO", "tocsin.access")

    def logged() -> bool:
        caplog.clear()
        world.app.client.get("/api/svc/site-info")
        return "/api/svc/site-info" in caplog.text

    assert not logged()
    dat(world.root.put("/api/svc/config", {"ckey": "site_info", "cval": '{"print_access_log":true}'}))
    assert logged()
    world.app.core.get(Configs).set("site_info", "[]", "root")
    assert logged()  # what cannot be read changes nothing
    dat(world.root.put("/api/svc/config", {"ckey": "site_info", "cval": "{}"}))
    assert not logged()


def test_one_request_at_most_waits_for_the_site_information(monkeypatch) -> None:
    monkeypatch.setattr(Site, "REFRESH_SECONDS", -1.0)
    inside, answered = threading.Event(), threading.Event()

    class Hanging:
        def get(self, key: str) -> str:
            inside.set()
            assert answered.wait(PATIENCE)
            return '{"print_access_log":true}'

    site: Any = Site(Hanging())  # type: ignore[arg-type]
    with ThreadPoolExecutor() as threads:
        first = threads.submit(site.info)
        assert inside.wait(PATIENCE)
        assert not site.info().print_access_log
        answered.set()
        assert first.result().print_access_log


def test_secrets_of_the_service_stay_its_own(world) -> None:
    for key in ("jwt_signing_key", "token_hash_key"):
        assert err(world.root.get("/api/svc/config", query={"key": key})) == f"config {key} is secret"
        assert err(world.root.put("/api/svc/config", {"ckey": key, "cval": "x"})) == f"config {key} is secret"
    assert dat(world.root.get("/api/svc/config", query={"key": "unknown"})) == ""
    assert err(world.root.get("/api/svc/config")) == "query param[key] is necessary"
    bad = {"ckey": "site_info", "cval": "{"}
    assert err(world.root.put("/api/svc/config", bad)).startswith("cval: site_info: expected a JSON object: ")
    assert (
        err(world.root.put("/api/svc/config", {**bad, "cval": "[]"}))
        == "cval: site_info: expected a JSON object, got list"
    )
    assert err(world.root.put("/api/svc/config", {"ckey": " "})).startswith("ckey: got an empty text")
    ann = world.user("ann", "Standard")
    assert err(ann.get("/api/svc/config", query={"key": "x"})) == "forbidden"
    assert err(ann.put("/api/svc/config", {"ckey": "x", "cval": "y"})) == "forbidden"
