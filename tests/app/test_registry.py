"""Faulty plugins are left out by name, clashing ones stop the start."""

from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from tocsin.app.registry import PluginClash, PluginInfo, Plugins, load_plugins
from tocsin.plugin import Feature, Toolset, hookimpl
from tocsin.plugin.testkit import AppFactory


class Saved(Feature):
    name = "saved"


def plugin(**hooks: Any) -> Any:
    """Return a stand-in for a plugin module."""
    marked = {name: hookimpl(value) if callable(value) else value for name, value in hooks.items()}
    return SimpleNamespace(**marked)


def loaded(*modules: Any) -> Plugins:
    plugins = Plugins()
    for number, module in enumerate(modules):
        plugins.add(PluginInfo(f"plugin{number}"), module)
    return plugins


def test_a_healthy_plugin_is_indexed_by_kind_and_name() -> None:
    plugins = loaded(plugin(tocsin_features=lambda: [Saved()]))
    assert list(plugins.of(Feature)) == ["saved"]
    assert plugins.infos[0].healthy
    assert plugins.infos[0].provides == ["features: saved"]


def boom() -> Any:
    raise RuntimeError("no database")


class Nameless(Feature):
    name = ""


@pytest.mark.parametrize(
    ("module", "stage", "text"),
    [
        (plugin(tocsin_features=boom), "hook", "RuntimeError: no database"),
        (plugin(tocsin_features=lambda: Saved()), "describe", "expected a list"),
        (plugin(tocsin_features=lambda: [Toolset()]), "describe", "expected an instance of Feature"),
        (plugin(tocsin_features=lambda: [Nameless()]), "describe", "expected a text that is not empty"),
        (plugin(tocsin_featurez=lambda: [Saved()]), "register", "tocsin_featurez"),
        (plugin(TOCSIN_API=99), "register", "needs plugin API 99"),
    ],
)
def test_a_faulty_plugin_is_left_out_and_the_next_one_works(module: Any, stage: str, text: str) -> None:
    plugins = loaded(module, plugin(tocsin_features=lambda: [Saved()]))
    faulty, healthy = plugins.infos
    assert (faulty.healthy, faulty.stage) == (False, stage)
    assert text in faulty.error
    assert healthy.healthy
    assert list(plugins.of(Feature)) == ["saved"]


def test_a_plugin_that_cannot_be_imported_is_left_out() -> None:
    points = [EntryPoint("bad", "no.such.module", "tocsin"), EntryPoint("good", "good.module", "tocsin")]
    good = plugin(tocsin_features=lambda: [Saved()])

    def importer(name: str) -> Any:
        if name == "good.module":
            return good
        raise ImportError(name)

    plugins = load_plugins(found=points, importer=importer)
    assert [(i.name, i.stage) for i in plugins.infos] == [("bad", "import"), ("good", "")]


def test_two_plugins_with_one_name_stop_the_start() -> None:
    one = plugin(tocsin_features=lambda: [Saved()])
    with pytest.raises(PluginClash, match="'saved' is claimed by both plugin 'plugin0' and plugin 'plugin1'"):
        loaded(one, plugin(tocsin_features=lambda: [Saved()]))


def test_a_disabled_plugin_is_not_imported() -> None:
    def importer(name: str) -> Any:
        raise AssertionError(name)

    plugins = load_plugins(["bad"], [EntryPoint("bad", "bad.module", "tocsin")], importer)
    assert plugins.infos[0].stage == "disabled"


@pytest.mark.parametrize("stage", ["setup", "seed", "routes", "start"])
def test_a_feature_that_fails_later_is_left_out_too(make_app: AppFactory, stage: str) -> None:
    def fail(self: Any, *_: Any) -> None:
        raise RuntimeError("broken plugin")

    feature = type("Broken", (Feature,), {"name": "broken", stage: fail})()
    app = make_app(plugins=[plugin(tocsin_features=lambda: [feature])], start="http")
    assert app.client.get("/ping").text == "pong"
    assert feature not in app.core.features
    info = app.core.plugins.infos[0]
    assert (info.stage, info.error) == (stage, "RuntimeError: broken plugin")
