"""The test kit's own short cuts: they are quick, and a test sees no difference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tocsin.access.passwords import Passwords
from tocsin.app.core import Core
from tocsin.plugin.testkit import AppFactory
from tocsin.plugin.testkit._imports import BareCore
from tocsin.plugin.testkit._installations import Installations

Factory = Callable[..., AppFactory]


@pytest.fixture
def factory(tmp_path: Path) -> Iterator[Factory]:
    """Return a function that makes factories, each with a directory of its own."""
    made: list[AppFactory] = []

    def make(installations: Installations | None = None) -> AppFactory:
        made.append(AppFactory(tmp_path / str(len(made)), installations))
        return made[-1]

    yield make
    for each in made:
        each.close()


def at(seconds: float) -> Callable[[], float]:
    """Return a clock that stands still."""
    return lambda: seconds


def rows(core: Core) -> dict[str, list[dict[str, Any]]]:
    """Return all rows by table, without what differs from one installation to the next."""
    found = {}
    for table in core.db.tables:
        name = table._meta.table_name
        stored = [row.as_dict() for row in table.select().order_by(table.id)]
        found[name] = [{key: "" if _random(key, row) else value for key, value in row.items()} for row in stored]
    return found


def _random(column: str, row: dict[str, Any]) -> bool:
    """Whether a column holds a salted hash, something encrypted, or the time at which the test ran."""
    return column in ("password", "applied_at") or bool(column == "cval" and row["encrypted"])


@pytest.mark.parametrize("process", ["center", "alert", "pushgw"])
@pytest.mark.parametrize("settings", [{}, {"HTTP": {"Host": "10.9.8.7"}}])
def test_a_copied_installation_is_like_one_set_up_from_nothing(
    factory: Factory, process: str, settings: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"process": process, "settings": settings, "clock": at(1_700_000_000.0)}
    known = Installations()
    factory(known)(**options)
    copied = rows(factory(known)(**options).core)
    assert copied == rows(factory()(**options).core)


def test_an_installation_is_copied_only_where_the_first_rows_are_the_same(factory: Factory) -> None:
    known = Installations()
    for section, host, now in (
        ("HTTP", "10.0.0.1", 1e9),
        ("http", "10.0.0.2", 1e9),
        ("HTTP", "10.0.0.1", 2e9),
        ("HTTP", "10.0.0.1", 1e9),
    ):
        core = factory(known)(settings={section: {"Host": host}}, clock=at(now)).core
        (site,) = (row for row in rows(core)["configs"] if row["ckey"] == "site_info")
        assert json.loads(site["cval"])["site_url"].startswith(f"http://{host}:")
        assert {row["create_at"] for row in rows(core)["users"]} == {int(now)}


def test_tests_do_not_see_each_others_rows(factory: Factory) -> None:
    known = Installations()
    for _ in range(2):  # tables belong to the application that was made last
        client = factory(known)().root
        assert client.get("/api/svc/config?key=theme").json()["dat"] == ""
        client.put("/api/svc/config", {"ckey": "theme", "cval": "dark"})
        assert client.get("/api/svc/config?key=theme").json()["dat"] == "dark"


def test_only_so_many_installations_are_kept(factory: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Installations, "KEPT", 2)
    known = Installations()
    for number in (1, 2, 3, 1, 2):
        factory(known)(process="pushgw", clock=at(number))
    assert len(known._kept) == 2


def test_what_is_there_already_stays(factory: Factory) -> None:
    known = Installations()
    make = factory(known)
    make().root.put("/api/svc/config", {"ckey": "theme", "cval": "dark"})
    assert make().root.get("/api/svc/config?key=theme").json()["dat"] == "dark"


def test_the_services_own_hashes_are_strong() -> None:
    assert Passwords(8).hash("a password").startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_an_import_is_asked_of_core_alone(bare_core: BareCore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "heavy_plugin.py").write_text("import heavy_helper, json, falcon\nprint('loaded')\n")
    (tmp_path / "heavy_helper.py").write_text("")
    (tmp_path / "light_plugin.py").write_text("import sys\nassert 'heavy_helper' not in sys.modules\n")
    assert bare_core.third_party_imports("heavy_plugin") == {"heavy_plugin", "heavy_helper"}
    assert bare_core.third_party_imports("light_plugin") == {"light_plugin"}


def test_an_import_that_fails_says_why(bare_core: BareCore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('out of order')\n")
    (tmp_path / "fatal_plugin.py").write_text("import os\nos._exit(0)\n")
    for module, complaint in (
        ("broken_plugin", "out of order"),
        ("fatal_plugin", "importing fatal_plugin ends the process"),
        ("no_such_plugin", "No module named"),
    ):
        with pytest.raises(AssertionError, match=complaint):
            bare_core.third_party_imports(module)
    assert bare_core.third_party_imports("json") == set()
