"""Writes a new plugin: a complete distribution that installs, works and passes its own tests."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from tocsin import __version__

KINDS = (
    "channel",
    "command",
    "datasource",
    "feature",
    "ingest",
    "processor",
    "sidecar",
    "sso",
    "toolset",
    "writer",
)
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def write_skeleton(kind: str, name: str, into: Path) -> Path:
    """Write the distribution ``tocsin-<kind>-<name>`` below ``into`` and return its folder.

    Raises ``ValueError`` for an unknown kind, a name that cannot be one, and a folder that exists.
    """
    if kind not in KINDS:
        raise ValueError(f"KIND: got {kind!r}, expected one of {', '.join(KINDS)}")
    if not NAME.fullmatch(name):
        raise ValueError(f"NAME: got {name!r}, expected lower-case letters and digits, words joined by single hyphens")
    folder = into / f"tocsin-{kind}-{name}"
    if folder.exists():
        raise ValueError(f"{folder}: exists already")
    words = words_for(kind, name)
    package = folder / words["PACKAGE"]
    (folder / "tests").mkdir(parents=True)
    package.mkdir()
    (package / "py.typed").touch()
    for template, target in (
        ("pyproject", folder / "pyproject.toml"),
        ("readme", folder / "README.md"),
        (f"{kind}.py", package / "__init__.py"),
        (f"{kind}_test.py", folder / "tests" / f"test_{words['SNAKE']}.py"),
    ):
        target.write_text(filled(template, words), "utf-8")
    return folder


def words_for(kind: str, name: str) -> dict[str, str]:
    """Return what stands for each ``@WORD@`` of the templates."""
    title = name.replace("-", " ")
    major, minor, _ = __version__.split(".")
    upper = f"{major}.{int(minor) + 1}" if major == "0" else str(int(major) + 1)
    return {
        "KIND": kind,
        "NAME": name,
        "SNAKE": name.replace("-", "_"),
        "TITLE": title[0].upper() + title[1:],
        "CLASS": "".join(word.capitalize() for word in name.split("-")) + kind.capitalize(),
        "CONFIG": "".join(word.capitalize() for word in name.split("-")) + "Writers",
        "PACKAGE": f"tocsin_{kind}_{name.replace('-', '_')}",
        "DISTRIBUTION": f"tocsin-{kind}-{name}",
        "CORE": f"{major}.{minor},<{upper}",
    }


def filled(template: str, words: dict[str, str]) -> str:
    """Return a template with its words filled in."""
    text = files(__package__).joinpath("skeletons", f"{template}.tmpl").read_text("utf-8")
    return re.sub(r"@([A-Z]+)@", lambda match: words[match[1]], text)
