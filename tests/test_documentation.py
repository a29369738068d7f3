"""What the documents name exists: metrics, settings, files, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    + [path for folder in ("plugins", "datasources", "writers") for path in ROOT.glob(f"{folder}/*/README.md")]
)
SOURCES = [
    path
    for folder in ("core", "plugins", "datasources", "writers")
    for path in (ROOT / folder).rglob("*.py")
    if not {"tests", "build", ".tox"} & set(path.relative_to(ROOT).parts)
]
METRIC = re.compile(r"\b(?:svc|prometheus)_[a-z0-9_]*[a-z0-9]\b")
SUFFIXES = re.compile(r"_(?:bucket|count|sum|total)$")
EXAMPLES = ("svc_greeting_",)
"""Metrics of plugins that a document writes as an example."""
SETTING = re.compile(r"`((?:[A-Z][A-Za-z0-9]+\.)+[A-Z*][A-Za-z0-9]*)`")


def named(document: Path, pattern: re.Pattern[str]) -> set[str]:
    return set(pattern.findall(document.read_text()))


@pytest.fixture(scope="module")
def literals() -> frozenset[str]:
    """Return every quoted word of the sources."""
    return frozenset(word for path in SOURCES for word in re.findall(r"[\"'](\w+)[\"']", path.read_text()))


def declared(name: str, literals: frozenset[str]) -> bool:
    """Return whether the sources have a metric's name, in one piece or as a prefix and the rest."""
    prefixes = [word for word in literals if word.startswith("svc_") and word.endswith("_")]
    return any(
        spelled in literals or any(spelled.removeprefix(prefix) in literals for prefix in prefixes)
        for spelled in (name, SUFFIXES.sub("", name))
    )


def test_a_metric_that_nobody_declares_is_noticed(literals: frozenset[str]) -> None:
    assert declared("svc_db_pool_wait_count_total", literals)
    assert not declared("svc_db_pool_wait_cuont_total", literals)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_metrics_that_documents_name_are_declared(document: Path, literals: frozenset[str]) -> None:
    wanted = {name for name in named(document, METRIC) if not name.startswith(EXAMPLES)}
    assert {name for name in wanted if not declared(name, literals)} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_settings_that_documents_name_exist(document: Path) -> None:
    keys = set(re.findall(r"^\| `([\w.\[\]]+)` \|", (ROOT / "docs" / "configuration.md").read_text(), re.MULTILINE))
    keys = {key.replace("[]", "") for key in keys}
    sections = {key.partition(".")[0] for key in keys}
    assert "HTTP" in sections
    missing = set()
    for setting in named(document, SETTING):
        wanted = setting.removesuffix("*")
        known = any(key.startswith(wanted) for key in keys) if wanted != setting else setting in keys
        if setting.partition(".")[0] in sections and not known:
            missing.add(setting)
    assert missing == set()


def test_the_map_of_the_house_names_what_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    for path in re.findall(r"`((?:app|http|store|access|ingest|plugin)/[\w/]+\.py)`", text):
        assert (ROOT / "core" / "tocsin" / path).is_file(), path
    block = text.split("core/tocsin/\n")[1].split("```")[0]
    rooms = set(re.findall(r"\b([a-z]+)/", block)) - {"datasources", "writers", "plugins"}
    present = {path.name for path in (ROOT / "core" / "tocsin").iterdir() if (path / "__init__.py").is_file()}
    assert rooms | {"datasources"} == present


def test_every_document_links_to_what_exists() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_signals_that_operations_names_are_handled() -> None:
    handlers = "".join(path.read_text() for path in (ROOT / "core" / "tocsin" / "app").glob("*.py"))
    named_signals = set(re.findall(r"\bSIG[A-Z]+\b", (ROOT / "docs" / "operations.md").read_text()))
    assert {"SIGTERM", "SIGHUP"} <= named_signals
    assert {name for name in named_signals if f"signal.{name}" not in handlers} == set()
