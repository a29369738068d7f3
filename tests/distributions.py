"""The rules that every distribution of the repository follows: names, versions, files, imports, papers.

They are functions from a plugin's folder to complaints, so that they can be tried on a broken plugin too. Sources are read,
not imported: core's tests run without plugins.
"""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tocsin

ROOT = Path(__file__).resolve().parent.parent
# Under datasources/ and writers/ the parent folder is the kind; below plugins/ a folder's name begins with it.
PARENTS = {"datasources": "datasource-", "writers": "writer-", "plugins": ""}
PLUGIN_KINDS = ("ingest-", "channel-", "processor-", "sso-", "toolset-", "feature-")
SINGLE_PLUGINS = ("tsdb", "webui")
PYTHON = ">=3.11"
PLAIN_BUILD = {"requires": ["flit_core>=3.9"], "build-backend": "flit_core.buildapi"}
COMPILED_BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
CONTRACTS = {
    "tocsin_datasource_types": ("DatasourceContract",),
    "tocsin_ingest_protocols": ("IngestContract",),
    # That of writers is about backends that speak HTTP; what all plugins promise holds for the others too.
    "tocsin_writers": ("WriterContract", "PluginContract", "FeatureContract"),
    "tocsin_channels": ("ChannelContract",),
    "tocsin_toolsets": ("ToolsetContract",),
    "tocsin_event_processors": ("ProcessorContract",),
    "tocsin_sso_providers": ("SsoContract",),
    "tocsin_features": ("FeatureContract",),
    "tocsin_commands": ("CommandContract",),
    "tocsin_sidecars": ("SidecarContract",),
}


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


def in_the_documentation(plugin: Plugin) -> Iterator[str]:
    """The list of the repository's plugins says of each what its project file says."""
    project = plugin.metadata["project"]
    row = f"| [`{project['name']}`](../{plugin.parent}/{plugin.folder}/README.md) | {project['description']} |"
    if row not in (plugin.root / "docs/plugins.md").read_text().splitlines():
        yield f"docs/plugins.md does not have the row {row}"


def keeps_the_contract(plugin: Plugin) -> Iterator[str]:
    """The tests subclass the contract of each kind that the plugin supplies."""
    hooks = {name for path in plugin.sources for name in defined(path, ast.FunctionDef)} & CONTRACTS.keys()
    tests = (plugin.path / "tests").rglob("test_*.py")
    bases = {base for path in tests for bases in defined(path, ast.ClassDef).values() for base in bases}
    for hook in sorted(hooks):
        if not bases & set(CONTRACTS[hook]):
            yield f"supplies {hook}, but no test is a subclass of {CONTRACTS[hook][0]}"


def settings_are_described(plugin: Plugin) -> Iterator[str]:
    """The README has every key of settings.py with its default, under the heading Key, Default, Meaning."""
    module = plugin.path / plugin.package / "settings.py"
    if not module.exists():
        return
    keys = declared_settings(module)
    described = described_settings((plugin.path / "README.md").read_text())
    for name in keys | described:
        if name not in described:
            yield f"README.md does not describe the setting {name}"
        elif name not in keys:
            yield f"README.md describes the setting {name}, which settings.py does not have"
        elif keys[name] != described[name]:
            yield f"README.md says that the default of {name} is {described[name]}, it is {keys[name]}"


def defined(path: Path, kind: type[ast.FunctionDef | ast.ClassDef]) -> dict[str, list[str]]:
    """Return the functions or classes that a module defines at its top level, classes with the names of their bases."""
    nodes = [node for node in ast.parse(path.read_bytes()).body if isinstance(node, kind)]
    return {node.name: [ast.unparse(base).split(".")[-1] for base in getattr(node, "bases", [])] for node in nodes}


def declared_settings(path: Path) -> dict[str, str]:
    """Return the keys of a module's sections with their defaults as a README writes them; nested keys have dots."""
    classes = {node.name: node for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.ClassDef)}
    nested: set[str] = set()

    def keys_of(section: ast.ClassDef) -> Iterator[tuple[str, str]]:
        for node in section.body:
            if not (isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call)):
                continue
            name, default = (ast.unparse(argument) for argument in node.value.args[:2])
            if default in classes:
                nested.add(default)
                yield from ((f"{ast.literal_eval(name)}.{key}", shown) for key, shown in keys_of(classes[default]))
            else:
                value = ast.literal_eval(default)
                shown = str(value).lower() if isinstance(value, bool) else str(value)
                yield ast.literal_eval(name), f"`{shown}`" if value or value in (False, 0) else "empty"

    found = {name: dict(keys_of(node)) for name, node in classes.items()}
    return {key: default for name, keys in found.items() if name not in nested for key, default in keys.items()}


def described_settings(readme: str) -> dict[str, str]:
    """Return the keys in a README's tables of settings with their defaults; a row may have several keys."""
    found: dict[str, str] = {}
    inside = False
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        inside = line.startswith("|") and (inside or cells[0] == "Key")
        if inside and cells[0].startswith("`"):
            found |= dict.fromkeys(re.findall(r"`([\w.]+)`", cells[0]), cells[1])
    return found


Rule = Callable[[Plugin], Iterator[str]]
RULES: list[Rule] = [
    names_agree,
    project_file_is_small,
    versions_are_in_step,
    papers_are_there,
    public_api_only,
    listed_once,
    in_the_documentation,
    keeps_the_contract,
    settings_are_described,
]
