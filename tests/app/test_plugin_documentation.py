"""docs/plugins.md: every hook and base class it names exists, and its example works as it stands there."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin import plugin
from tocsin.app.commands.skeleton import KINDS
from tocsin.app.registry import KINDS as REGISTERED
from tocsin.plugin import hookspecs

Run = Callable[[list[str], Path, Path], str]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/plugins.md").read_text()


def table() -> list[list[str]]:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \|", PAGE, re.M)
    return [list(row) for row in rows]


def test_the_table_names_every_kind_hook_and_base_class() -> None:
    assert sorted(row[0] for row in table()) == sorted(KINDS)
    assert {row[1] for row in table()} == {name for name in vars(hookspecs) if name.startswith("tocsin_")}
    assert {(row[1], row[2]) for row in table()} == {(kind.hook, kind.base.__name__) for kind in REGISTERED}


def test_every_hook_says_what_it_is_for() -> None:
    for row in table():
        assert (getattr(hookspecs, row[1]).__doc__ or "").startswith("Return ")


def test_errors_and_contracts_it_names_exist() -> None:
    for name in set(re.findall(r"`(\w+Error)`", PAGE)):
        assert hasattr(plugin, name), name
    modules = ("datasource", "ingest", "writer", "channel", "toolset", "processor", "feature")
    found = {
        name
        for module in modules
        for name in vars(importlib.import_module(f"tocsin.plugin.testkit.{module}"))
        if name.endswith("Contract") and name not in ("PluginContract", "BackendContract")
    }
    assert set(re.findall(r"`(\w+Contract)`", PAGE)) == found


def test_everything_public_is_documented() -> None:
    for name in plugin.__all__:
        thing = getattr(plugin, name)
        if isinstance(thing, type) or callable(thing):
            text = (thing.__doc__ or "").strip()
            # A dataclass without words of its own gets its signature as docstring.
            assert text, name
            assert not text.startswith(f"{name}("), name


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_installs_and_passes_its_tests(tmp_path: Path, run: Run) -> None:
    files = re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(files) == 4
    folder = tmp_path / "tocsin-feature-greeting"
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    site = tmp_path / "site"
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    run([*pip, "--target", str(site), str(folder)], tmp_path, site)
    run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "tests"], folder, site)
