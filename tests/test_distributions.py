"""Every distribution of the repository follows the same rules, and the rules notice a plugin that breaks them."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.distributions import (
    CONTRACTS,
    PARENTS,
    PYTHON,
    ROOT,
    RULES,
    Plugin,
    Rule,
    core_range,
    in_the_documentation,
    keeps_the_contract,
    listed_once,
    names_agree,
    papers_are_there,
    plugins,
    project_file_is_small,
    public_api_only,
    settings_are_described,
    versions_are_in_step,
)

import tocsin
from tocsin.plugin.testkit.components import PATIENCE

CHANGE_KINDS = ("breaking", "security", "feature", "fix", "docs")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_plugin_follows_the_rules(rule: Rule) -> None:
    complaints = [f"{plugin.parent}/{plugin.folder}: {text}" for plugin in plugins() for text in rule(plugin)]
    assert not complaints, "\n".join(complaints)


def test_every_folder_is_a_distribution() -> None:
    """A folder with sources but without a project file would be installed and tested by nobody."""
    folders = {path for parent in PARENTS for path in ROOT.glob(f"{parent}/*") if list(path.glob("tocsin_*/*.py"))}
    assert folders == {plugin.path for plugin in plugins()}


def test_the_documentation_lists_no_other_plugins() -> None:
    rows = re.findall(r"^\| \[`[\w-]+`\]\(\.\./([\w/-]+)/README\.md\) \|", (ROOT / "docs/plugins.md").read_text(), re.M)
    assert rows == [f"{plugin.parent}/{plugin.folder}" for plugin in plugins()]


def test_every_kind_has_its_contract() -> None:
    hooks = ast.parse((ROOT / "core/tocsin/plugin/hookspecs.py").read_bytes())
    assert {node.name for node in ast.walk(hooks) if isinstance(node, ast.FunctionDef)} == CONTRACTS.keys()


@pytest.mark.parametrize("name", ["standard.txt", "optional.txt"])
def test_requirements_name_what_exists(name: str) -> None:
    paths = [line.partition("#")[0].strip() for line in (ROOT / "requirements" / name).read_text().splitlines()]
    paths = [path for path in paths if path]
    assert len(set(paths)) == len(paths)
    known = {".", *(f"./{plugin.parent}/{plugin.folder}" for plugin in plugins())}
    assert set(paths) <= known
    assert paths == [*([] if name == "optional.txt" else ["."]), *sorted(set(paths) - {"."})], "sorted, core first"


def test_changes_are_named_by_issue_and_kind() -> None:
    pattern = re.compile(rf"\d+(\.\d+)?\.({'|'.join(CHANGE_KINDS)})\.md")
    names = {path.name for path in (ROOT / "changes").iterdir()} - {"README.md"}
    assert [name for name in sorted(names) if not pattern.fullmatch(name)] == []
    table = (ROOT / "changes/README.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == list(CHANGE_KINDS)
    for name in names:
        text = (ROOT / "changes" / name).read_text()
        assert re.match(r"[a-z][a-z0-9-]*: \S", text), f"{name} does not begin with the component it is about"


# --- the rules are tried on plugins that break them

GOOD = f"""[build-system]
requires = ["flit_core>=3.9"]
build-backend = "flit_core.buildapi"
[project]
name = "tocsin-channel-bell"
version = "{tocsin.__version__}"
description = "Rings a real bell"
readme = "README.md"
requires-python = "{PYTHON}"
dependencies = ["tocsin{core_range(tocsin.__version__)}", "bell>=1.0"]
[project.entry-points.tocsin]
bell = "tocsin_channel_bell"
"""
HOOK = """
@hookimpl
def tocsin_channels():
    return []
"""
SETTINGS = """
@section("")
class Rope:
    length: int = key("Length", 3, "metres")

@section("Bell")
class Bell:
    loud: bool = key("Loud", False, "how")
    tone: str = key("Tone", "", "which")
    rope: Rope = key("Rope", Rope, "")
"""
README = """# Bell

Rings.

| Key | Default | Meaning |
| --- | --- | --- |
| `Loud` | `false` | how |
| `Tone` | empty | which |
| `Rope.Length` | `3` | metres |
"""
TEST = """
import tocsin.plugin.testkit

class TestBell(ChannelContract):
    plugin = "tocsin_channel_bell"
"""


@pytest.fixture
def sample(tmp_path: Path) -> Plugin:
    """A plugin that follows the rules, in a repository of its own."""
    plugin = Plugin(tmp_path, "plugins", "channel-bell")
    files = {
        "plugins/channel-bell/pyproject.toml": GOOD,
        "plugins/channel-bell/README.md": README,
        "plugins/channel-bell/tocsin_channel_bell/__init__.py": "from tocsin.plugin import hookimpl\n" + HOOK,
        "plugins/channel-bell/tocsin_channel_bell/settings.py": SETTINGS,
        "plugins/channel-bell/tocsin_channel_bell/py.typed": "",
        "plugins/channel-bell/tests/test_contract.py": TEST,
        "docs/plugins.md": "| [`tocsin-channel-bell`](../plugins/channel-bell/README.md) | Rings a real bell |\n",
        "requirements/standard.txt": ".\n./plugins/channel-bell\n",
        "requirements/optional.txt": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return plugin


def test_a_good_plugin_gets_no_complaint(sample: Plugin) -> None:
    assert plugins(sample.root) == [sample]
    assert [text for rule in RULES for text in rule(sample)] == []


@pytest.mark.parametrize(
    ("rule", "name", "old", "new", "complaint"),
    [
        (names_agree, "pyproject.toml", "tocsin-channel-bell", "tocsin-bell", "the distribution is called tocsin-bell"),
        (names_agree, "pyproject.toml", "bell = ", "ring = ", "entry point 'ring', expected 'bell'"),
        (names_agree, "pyproject.toml", '= "tocsin_channel_bell"', '= "other"', "leads to other"),
        (names_agree, "pyproject.toml", "points.tocsin]", "points.other]", "0 entry points"),
        (project_file_is_small, "pyproject.toml", "[project]", "[tool.ruff]\nx = 1\n[project]", "tables ['tool']"),
        (project_file_is_small, "pyproject.toml", "flit_core>=3.9", "hatchling", "the build system is not"),
        (versions_are_in_step, "pyproject.toml", f'"{tocsin.__version__}"', '"9.9.9"', "version 9.9.9, core has"),
        (versions_are_in_step, "pyproject.toml", f'"{PYTHON}"', '">=3.8"', "requires-python '>=3.8'"),
        (versions_are_in_step, "pyproject.toml", "tocsin>=", "tocsin==", "demands ['tocsin=="),
        (versions_are_in_step, "pyproject.toml", "bell>=1.0", "bell", "'bell' has no tested lower bound"),
        (versions_are_in_step, "pyproject.toml", "bell>=1.0", "tocsin-writer-x>=0.1", "plugins meet only in core"),
        (papers_are_there, "pyproject.toml", "Rings a real bell", "", "the description is missing"),
        (papers_are_there, "pyproject.toml", 'readme = "README.md"', "", "README.md is missing"),
        (papers_are_there, "README.md", "# Bell", "Bell", "does not begin with a heading"),
        (
            public_api_only,
            "tests/test_contract.py",
            "tocsin.plugin.testkit",
            "tocsin.store",
            "only tocsin.plugin is public",
        ),
        (
            public_api_only,
            "tocsin_channel_bell/__init__.py",
            "from tocsin.plugin import hookimpl",
            "def f():\n    from tocsin import http",
            "__init__.py:2 imports tocsin.http",
        ),
        (
            public_api_only,
            "tocsin_channel_bell/__init__.py",
            "from tocsin.plugin import hookimpl",
            "from tocsin.plugin._errors import X",
            "a private module",
        ),
        (
            public_api_only,
            "tocsin_channel_bell/__init__.py",
            "from tocsin.plugin import hookimpl",
            "import importlib\nimportlib.import_module('tocsin.store.models')",
            "imports tocsin.store.models",
        ),
        (
            public_api_only,
            "tocsin_channel_bell/__init__.py",
            "from tocsin.plugin import hookimpl",
            "import tocsin_writer_x.client",
            "another plugin",
        ),
        (listed_once, "../../requirements/standard.txt", "./plugins/channel-bell", "", "exactly one of"),
        (
            listed_once,
            "../../requirements/optional.txt",
            "",
            "./plugins/channel-bell  # because it is loud",
            "exactly one of",
        ),
        (in_the_documentation, "../../docs/plugins.md", "a real bell", "something", "does not have the row"),
        (keeps_the_contract, "tests/test_contract.py", "ChannelContract", "Base", "no test is a subclass of Channel"),
        (settings_are_described, "README.md", "`Loud`", "Loud", "does not describe the setting Loud"),
        (settings_are_described, "README.md", "`Tone`", "`Tune`", "Tune, which settings.py does not have"),
        (settings_are_described, "README.md", "| `3`", "| `4`", "the default of Rope.Length is `4`, it is `3`"),
    ],
)
def test_a_broken_plugin_is_noticed(sample: Plugin, rule: Rule, name: str, old: str, new: str, complaint: str) -> None:
    path = sample.path / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else new)
    complaints = list(rule(sample))
    assert any(complaint in text for text in complaints), complaints


def test_missing_files_are_noticed(sample: Plugin) -> None:
    (sample.path / sample.package / "py.typed").unlink()
    (sample.path / "tests/test_contract.py").unlink()
    assert list(papers_are_there(sample)) == [f"{sample.package}/py.typed is missing", "there are no tests"]


def test_a_plugin_that_compiles_is_built_like_core(sample: Plugin) -> None:
    (sample.path / sample.package / "_fast.pyx").write_text("")
    assert list(project_file_is_small(sample)) == [
        "the build system is not that of core",
        "setup.py belongs to plugins that compile something, and only to them",
    ]
    (sample.path / "setup.py").write_text("")
    core = (ROOT / "pyproject.toml").read_text().partition("[tool.")[0]
    project = GOOD.partition("[project]")
    (sample.path / "pyproject.toml").write_text(f"{core}{project[1]}{project[2]}")
    assert list(project_file_is_small(sample)) == []


def test_an_optional_plugin_needs_a_reason(sample: Plugin) -> None:
    (sample.root / "requirements/standard.txt").write_text(".\n")
    (sample.root / "requirements/optional.txt").write_text("./plugins/channel-bell  # loud\n")
    assert list(listed_once(sample)) == ["./plugins/channel-bell is in requirements/optional.txt without a reason"]


# --- the tools


@pytest.fixture
def bump(sample: Plugin) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a copy of tools/bump in the sample repository."""
    tool = sample.root / "tools/bump"
    tool.parent.mkdir()
    tool.write_text((ROOT / "tools/bump").read_text())
    core = sample.root / "core/tocsin/__init__.py"
    core.parent.mkdir(parents=True)
    core.write_text('"""Core."""\n\n__version__ = "0.1.0"\n')

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, tool, *arguments], capture_output=True, text=True, timeout=PATIENCE)

    return run


@pytest.mark.parametrize(
    ("version", "demand"),
    [
        ("0.2.0", "tocsin>=0.2,<0.3"),
        ("0.9.13", "tocsin>=0.9,<0.10"),
        ("1.0.0rc1", "tocsin>=1.0.0rc1,<2"),
        ("1.4.2", "tocsin>=1.4,<2"),
    ],
)
def test_bump_sets_every_version_and_the_demand_for_core(
    sample: Plugin, bump: Callable[..., subprocess.CompletedProcess[str]], version: str, demand: str
) -> None:
    done = bump(version)
    assert (done.returncode, done.stderr) == (0, "")
    assert f'__version__ = "{version}"\n' in (sample.root / "core/tocsin/__init__.py").read_text()
    project = sample.metadata["project"]
    assert (project["version"], project["dependencies"]) == (version, [demand, "bell>=1.0"])
    assert demand == f"tocsin{core_range(version)}"


@pytest.mark.parametrize("version", ["1", "1.2", "v1.2.3", "1.2.3-dirty", "01.2.3", ""])
def test_bump_refuses_what_is_no_version(
    sample: Plugin, bump: Callable[..., subprocess.CompletedProcess[str]], version: str
) -> None:
    done = bump(version)
    assert done.returncode == 1
    assert f"version: expected numbers like 0.2.0 or 1.0.0rc1, got {version!r}" in done.stderr


def test_bump_writes_nothing_when_one_file_is_not_as_expected(
    sample: Plugin, bump: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (sample.path / "pyproject.toml").write_text(GOOD.replace("version = ", "version="))
    done = bump("0.2.0")
    assert done.returncode == 1
    assert "plugins/channel-bell/pyproject.toml: expected one line like" in done.stderr
    assert '"0.1.0"' in (sample.root / "core/tocsin/__init__.py").read_text()


def requirements(*options: str) -> list[str]:
    tool = ROOT / "tools/requirements"
    done = subprocess.run(
        [sys.executable, tool, *options], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return done.stdout.splitlines()


def test_editable_requirements_come_from_the_same_file() -> None:
    plain = requirements()
    assert plain[0] == "."
    assert requirements("--editable") == [f"-e {line}" for line in plain]
    assert requirements("--no-core") == plain[1:]


def test_requirements_of_the_tests_cover_every_distribution() -> None:
    lines = {line.partition("[")[0] for line in requirements("--tests")}
    assert lines == {".", *(f"./{plugin.parent}/{plugin.folder}" for plugin in plugins())}
    assert requirements("--tests")[0] == ".[redis,mysql,postgres]"


def test_ci_installs_the_package_of_every_program_that_tests_start() -> None:
    """A program that a test asks for but CI does not install would fail there only."""
    script = (ROOT / ".ci/run").read_text()
    block = re.search(r"^packages=\(\n(.*?)^\)", script, re.M | re.S)
    assert block is not None
    installed = set(block[1].split())
    needed = set()
    places = ("core/tocsin/plugin/testkit/components/*.py", "tests/**/*.py", "*/*/tests/**/*.py")
    for path in (path for place in places for path in ROOT.glob(place)):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "require_program":
                needed.add(ast.literal_eval(node.args[1]))
    # The servers' packages depend on their clients'.
    clients = {"postgresql-client": "postgresql", "mariadb-client": "mariadb-server"}
    assert needed
    assert {clients.get(package, package) for package in needed} <= installed


@pytest.mark.slow
@pytest.mark.parametrize(("required", "succeeds"), [("0", True), ("1", False)])
@pytest.mark.parametrize(
    "folder", [".", *(f"{p.parent}/{p.folder}" for p in plugins() if (p.path / "setup.py").exists())]
)
def test_without_a_compiler_the_compiled_module_is_left_out_unless_required(
    folder: str, required: str, succeeds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out = shutil.ignore_patterns("__pycache__", "*.so", "build", "*.egg-info")
    names = ["setup.py", "core"] if folder == "." else [path.name for path in (ROOT / folder).iterdir()]
    for name in names:
        source = ROOT / folder / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=leave_out)
        else:
            shutil.copy2(source, tmp_path)
    monkeypatch.setenv("CC", "/bin/false")
    monkeypatch.setenv("TOCSIN_REQUIRE_COMPILED", required)
    command = [sys.executable, "setup.py", "build_ext", "--build-lib", "lib", "--build-temp", "temp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode == 0) == succeeds, done.stderr
    assert "/bin/false" in done.stdout + done.stderr, "the compiler was asked"
    assert not list(tmp_path.rglob("*.so"))


def test_shell_scripts_parse() -> None:
    subprocess.run(["bash", "-n", ROOT / ".ci/run"], check=True, timeout=PATIENCE)
    assert (ROOT / ".ci/run").stat().st_mode & 0o111, ".ci/run must be executable"
