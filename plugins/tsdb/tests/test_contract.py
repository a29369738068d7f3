"""The plugin as the service sees it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tocsin.plugin.testkit.feature import CommandContract, FeatureContract, SidecarContract
from tocsin_tsdb.address import BASE
from tocsin_tsdb.api.metrics import ApiMetrics, CacheMetrics
from tocsin_tsdb.promql.expressions import Expressions
from tocsin_tsdb.settings import EmbeddedTsdbSettings
from tocsin_tsdb.storage.metrics import StoreMetrics

README = Path(__file__).parents[1] / "README.md"
ON = {"EmbeddedTSDB": {"Enable": True}}


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path: Path, monkeypatch: Any) -> None:
    """The data directory's default is relative to the working directory."""
    monkeypatch.chdir(tmp_path)


class TestFeature(FeatureContract):
    plugin = "tocsin_tsdb"
    settings = ON
    # The rows check for themselves who is local and who knows the password: both depend on the section.
    open_routes = frozenset(
        f"{BASE}/{path}"
        for path in (
            "*rest",
            "query",
            "query_range",
            "query_exemplars",
            "format_query",
            "parse_query",
            "series",
            "labels",
            "label/:name/values",
            "metadata",
            "status/buildinfo",
            "status/config",
            "status/flags",
            "status/runtimeinfo",
            "status/tsdb",
            "write",
        )
    )


class TestCommand(CommandContract):
    plugin = "tocsin_tsdb"


class TestSidecar(SidecarContract):
    plugin = "tocsin_tsdb"
    settings = ON


def test_the_readme_lists_our_own_metrics() -> None:
    registry = CollectorRegistry()
    StoreMetrics(registry)
    ApiMetrics(registry)
    registry.register(CacheMetrics(Expressions()))
    real = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in registry.collect()
        if family.name.startswith("svc_")
    }
    assert set(re.findall(r"^\| `(svc_\w+)` \|", README.read_text(), re.M)) == real


def test_the_readme_lists_the_settings_as_they_are() -> None:
    listed = dict(re.findall(r"^\| `([A-Z]\w+)` \| (.+?) \|", README.read_text(), re.M))
    defaults = {}
    for field in EmbeddedTsdbSettings.__dataclass_fields__.values():
        default = field.default
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        defaults[field.metadata["key"].name] = f"`{shown}`" if shown else "empty"
    assert listed == defaults
