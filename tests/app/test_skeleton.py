"""``tocsin plugin new``: what it writes installs, is found by the service, and passes its own tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.app.cli import main
from tocsin.app.commands.skeleton import KINDS, write_skeleton

Run = Callable[[list[str], Path, Path], str]
INSTALL = """
import os, sys, zipfile
from flit_core.buildapi import build_wheel
site, *folders = sys.argv[1:]
for folder in folders:
    os.chdir(folder)
    with zipfile.ZipFile(os.path.join(site, build_wheel(site))) as wheel:
        wheel.extractall(site)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_kind_installs_works_and_passes_its_own_tests(tmp_path: Path, run: Run) -> None:
    folders = [str(write_skeleton(kind, f"my-{kind}", tmp_path)) for kind in KINDS]
    site = tmp_path / "site"
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    run([*pip, "--target", str(site), folders[0]], tmp_path, site)
    run(["-c", INSTALL, str(site), *folders[1:]], tmp_path, site)  # the same without ten starts of pip's helpers
    configs = tmp_path / "etc"
    configs.mkdir()
    (configs / "config.toml").write_text(f'[Data]\nDir = "{tmp_path}/data"\n')
    listed = run(["-m", "tocsin", "plugins", "-c", str(configs)], tmp_path, site)
    for kind in KINDS:
        assert f"{kind}-my-{kind}  tocsin-{kind}-my-{kind} 0.1.0  ok" in listed
    # Their tests know nothing of each other; one run of all saves nine starts of pytest.
    tests = [f"{folder}/tests" for folder in folders]
    passed = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests], tmp_path, site)
    assert " passed" in passed


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("command", "My Command", "NAME: got 'My Command', expected lower-case"),
        ("command", "-x", "NAME"),
        ("command", "", "NAME"),
        ("teapot", "x", "KIND: got 'teapot', expected one of "),
    ],
)
def test_names_that_cannot_be_are_refused(tmp_path: Path, kind: str, name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        write_skeleton(kind, name, tmp_path)


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugin", "new", "command", "hello", "--into", str(tmp_path)]) == 0
    assert main(["plugin", "new", "command", "hello", "--into", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().out
