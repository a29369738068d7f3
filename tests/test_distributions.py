"""Every distribution of the repository follows the same rules: names, versions, files, imports.

The rules are functions from a plugin's folder to complaints, so that they can be tried on a broken plugin too.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tocsin

ROOT = Path(__file__).resolve().parent.parent
# Under datasources/ and writers/ the parent folder is the kind; below plugins/ a folder's name begins with it.
PARENTS = {"datasources": "datasource-", "writers": "writer-", "plugins": ""}
PLUGIN_KINDS = ("ingest-", "channel-", "processor-", "sso-", "toolset-", "feature-")
SINGLE_PLUGINS = ("tsdb", "webui")
PYTHON = ">=3.11"
PLAIN_BUILD = {"requires": ["flit_core>=3.9"], "build-backend": "flit_core.buildapi"}
COMPILED_BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
CHANGE_KINDS = ("breaking", "security", "feature", "fix", "docs")


@dataclass(frozen=True)
class Plugin:
    """A plugin's folder and what follows from its name."""

    root: Path
    parent: str
    folder: str

    @property
    def path(self) -> Path:
        return self.root / self.parent / self.folder

    @property
    def name(self) -> str:
        return f"{PARENTS[self.parent]}{self.folder}"

    @property
    def package(self) -> str:
        return "tocsin_" + self.name.replace("-", "_")

    @property
    def entry_point(self) -> str:
        """The name without the kind: what users write in the configuration."""
        if self.parent != "plugins" or self.folder in SINGLE_PLUGINS:
            return self.folder
        return self.folder.partition("-")[2]

    @property
    def metadata(self) -> dict[str, Any]:
        return tomllib.loads((self.path / "pyproject.toml").read_text())

    @property
    def sources(self) -> list[Path]:
        return sorted((self.path / self.package).rglob("*.py"))


def plugins(root: Path = ROOT) -> list[Plugin]:
    """Return the plugins on disk: folders with a project file."""
    return [
        Plugin(root, parent, project.parent.name)
        for parent in PARENTS
        for project in sorted(root.glob(f"{parent}/*/pyproject.toml"))
    ]


def core_range(version: str) -> str:
    """Return the demand for core that `tools/bump` writes, worked out independently of it."""
    major, minor = version.split(".")[:2]
    lower = version if re.search(r"[a-z]", version) else f"{major}.{minor}"
    return f">={lower},<0.{int(minor) + 1}" if major == "0" else f">={lower},<{int(major) + 1}"


# --- the rules


def names_agree(plugin: Plugin) -> Iterator[str]:
    """Folder, distribution, package and entry point share one name."""
    if (
        plugin.parent == "plugins"
        and not plugin.folder.startswith(PLUGIN_KINDS)
        and plugin.folder not in SINGLE_PLUGINS
    ):
        yield f"the folder's name must begin with one of {PLUGIN_KINDS} or be one of {SINGLE_PLUGINS}"
    project = plugin.metadata["project"]
    if project["name"] != f"tocsin-{plugin.name}":
        yield f"the distribution is called {project['name']}, expected tocsin-{plugin.name}"
    if not (plugin.path / plugin.package / "__init__.py").exists():
        yield f"package {plugin.package} is missing"
    entry_points = project.get("entry-points", {}).get("tocsin", {})
    for name, target in entry_points.items():
        if name != plugin.entry_point:
            yield f"entry point {name!r}, expected {plugin.entry_point!r}"
        if target.split(":")[0].split(".")[0] != plugin.package:
            yield f"entry point {name!r} leads to {target}, expected package {plugin.package}"
    if len(entry_points) != 1:
        yield f"{len(entry_points)} entry points in the group tocsin, expected 1"


def project_file_is_small(plugin: Plugin) -> Iterator[str]:
    """No tool is configured per plugin, and all are built the same way, those that compile something as core is."""
    if tables := plugin.metadata.keys() - {"build-system", "project"}:
        yield f"tables {sorted(tables)} do not belong in a plugin's project file: tools are configured at the root"
    compiles = bool(list((plugin.path / plugin.package).rglob("*.pyx")))
    if plugin.metadata.get("build-system") != (COMPILED_BUILD if compiles else PLAIN_BUILD):
        yield f"the build system is not {'that of core' if compiles else 'flit_core>=3.9'}"
    if compiles != (plugin.path / "setup.py").exists():
        yield "setup.py belongs to plugins that compile something, and only to them"


def versions_are_in_step(plugin: Plugin) -> Iterator[str]:
    """One version, one minimum Python, one range of core, never an exact sibling."""
    project = plugin.metadata["project"]
    if project.get("version") != tocsin.__version__:
        yield f"version {project.get('version')}, core has {tocsin.__version__}: use tools/bump"
    if project.get("requires-python") != PYTHON:
        yield f"requires-python {project.get('requires-python')!r}, expected {PYTHON!r}"
    dependencies = project.get("dependencies", [])
    demands = [line for line in dependencies if re.match(r"tocsin(\[|[<>=! ]|$)", line)]
    expected = f"tocsin{core_range(tocsin.__version__)}"
    if [re.sub(r"\[[a-z,]+\]", "", line) for line in demands] != [expected]:
        yield f"demands {demands} of core, expected {expected!r}"
    for line in dependencies:
        if line.startswith("tocsin-"):
            yield f"depends on the plugin {line!r}: plugins meet only in core"
        elif line not in demands and not re.search(r">=\s*\d", line):
            yield f"dependency {line!r} has no tested lower bound"


def papers_are_there(plugin: Plugin) -> Iterator[str]:
    """A README with a heading, a description, tests, and the mark of typed packages."""
    project = plugin.metadata["project"]
    if len(project.get("description", "")) < 10 or project["description"].endswith("."):
        yield "the description is missing or not a phrase without full stop"
    readme = plugin.path / "README.md"
    if project.get("readme") != "README.md" or not readme.exists():
        yield "README.md is missing or not named in the project file"
    elif not readme.read_text().startswith("# ") or len(readme.read_text().splitlines()) < 5:
        yield "README.md does not begin with a heading or says nothing"
    if not (plugin.path / plugin.package / "py.typed").exists():
        yield f"{plugin.package}/py.typed is missing"
    if not list((plugin.path / "tests").rglob("test_*.py")):
        yield "there are no tests"


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and absolute module name of every import of a file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func)
            if called in ("importlib.import_module", "import_module", "__import__"):
                yield node.lineno, str(node.args[0].value)


def public_api_only(plugin: Plugin) -> Iterator[str]:
    """A plugin, its tests included, imports of core what a third party may import, and no other plugin."""
    for path in [*plugin.sources, *sorted((plugin.path / "tests").rglob("*.py"))]:
        for line, module in imported_modules(path):
            top = module.split(".")[0]
            where = f"{path.relative_to(plugin.path)}:{line} imports {module}"
            if top == "tocsin" and not f"{module}.".startswith("tocsin.plugin."):
                yield f"{where}: of core only tocsin.plugin is public"
            elif top == "tocsin" and any(part.startswith("_") for part in module.split(".")[:-1]):
                yield f"{where}: a private module"
            elif top.startswith("tocsin_") and top != plugin.package:
                yield f"{where}: another plugin"


def listed_once(plugin: Plugin) -> Iterator[str]:
    """A plugin is in the default set, or left out of it for a reason that is written down."""
    line = f"./{plugin.parent}/{plugin.folder}"
    standard = (plugin.root / "requirements/standard.txt").read_text().splitlines()
    optional = (plugin.root / "requirements/optional.txt").read_text().splitlines()
    reasons = {path.strip(): reason.strip() for path, _, reason in (text.partition("#") for text in optional)}
    if (line in standard) == (line in reasons):
        yield f"{line} must be in exactly one of requirements/standard.txt and requirements/optional.txt"
    if line in reasons and len(reasons[line]) < 10:
        yield f"{line} is in requirements/optional.txt without a reason"


Rule = Callable[[Plugin], Iterator[str]]
RULES: list[Rule] = [
    names_agree,
    project_file_is_small,
    versions_are_in_step,
    papers_are_there,
    public_api_only,
    listed_once,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_plugin_follows_the_rules(rule: Rule) -> None:
    complaints = [f"{plugin.parent}/{plugin.folder}: {text}" for plugin in plugins() for text in rule(plugin)]
    assert not complaints, "\n".join(complaints)


def test_every_folder_is_a_distribution() -> None:
    """A folder with sources but without a project file would be installed and tested by nobody."""
    folders = {path for parent in PARENTS for path in ROOT.glob(f"{parent}/*") if list(path.glob("tocsin_*/*.py"))}
    assert folders == {plugin.path for plugin in plugins()}


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


@pytest.fixture
def sample(tmp_path: Path) -> Plugin:
    """A plugin that follows the rules, in a repository of its own."""
    plugin = Plugin(tmp_path, "plugins", "channel-bell")
    files = {
        "plugins/channel-bell/pyproject.toml": GOOD,
        "plugins/channel-bell/README.md": "# Bell\n\nRings.\n\n## Settings\n\nNone.\n",
        "plugins/channel-bell/tocsin_channel_bell/__init__.py": "from tocsin.plugin import hookimpl\n",
        "plugins/channel-bell/tocsin_channel_bell/py.typed": "",
        "plugins/channel-bell/tests/test_contract.py": "import tocsin.plugin.testkit\n",
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
        return subprocess.run([sys.executable, tool, *arguments], capture_output=True, text=True, timeout=30)

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
    done = subprocess.run([sys.executable, tool, *options], capture_output=True, text=True, check=True, timeout=30)
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
    """A program that the test kit knows but CI does not install would fail there only."""
    script = (ROOT / ".ci/run").read_text()
    block = re.search(r"^packages=\(\n(.*?)^\)", script, re.M | re.S)
    assert block is not None
    installed = set(block[1].split())
    needed = set()
    for path in (ROOT / "core/tocsin/plugin/testkit/components").glob("*.py"):
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
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert (done.returncode == 0) == succeeds, done.stderr
    assert "/bin/false" in done.stdout + done.stderr, "the compiler was asked"
    assert not list(tmp_path.rglob("*.so"))


def test_shell_scripts_parse() -> None:
    subprocess.run(["bash", "-n", ROOT / ".ci/run"], check=True, timeout=30)
    assert (ROOT / ".ci/run").stat().st_mode & 0o111, ".ci/run must be executable"
