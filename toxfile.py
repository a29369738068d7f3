"""One tox environment per plugin, found on disk: named like the distribution, with core and that plugin alone."""

from collections.abc import Iterable
from pathlib import Path

from tox.config.loader.memory import MemoryLoader
from tox.config.sets import ConfigSet
from tox.config.types import Command
from tox.plugin import impl
from tox.session.state import State

ROOT = Path(__file__).parent
# Under datasources/ and writers/ the parent folder is the kind; a plugin's folder carries it in its name.
PREFIXES = {"datasources": "datasource-", "writers": "writer-", "plugins": ""}


def plugin_folders() -> dict[str, str]:
    """Return the path of each plugin's folder by the name of its distribution without `tocsin-`."""
    found = {}
    for parent, prefix in PREFIXES.items():
        for project in sorted(ROOT.glob(f"{parent}/*/pyproject.toml")):
            found[f"{prefix}{project.parent.name}"] = f"{parent}/{project.parent.name}"
    return found


@impl
def tox_extend_envs() -> Iterable[str]:
    """Name the environments."""
    return tuple(plugin_folders())


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Say what each of them installs and runs; everything else comes from `[testenv]`."""
    for name, folder in plugin_folders().items():
        state.conf.memory_seed_loaders[name].append(
            MemoryLoader(
                description=f"{folder} with core alone",
                labels={"plugins"},
                commands_pre=[Command(["python", "tools/requirements", "--tests", "--install", folder])],
                commands=[Command(["python", "-m", "pytest", f"{folder}/tests", *(state.conf.pos_args(None) or ())])],
            )
        )
