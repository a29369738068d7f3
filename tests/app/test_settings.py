"""Typed settings: every wrong key or value is named, the environment overrides files."""

from pathlib import Path
from typing import Any

import pytest

from tocsin.app.config import load_settings, read_document
from tocsin.app.sections import CORE_SECTIONS, DbSettings, HttpSettings, LogSettings
from tocsin.app.settings import SettingsError, entries, key, section


@section("Sample")
class Sample:
    """A section as a plugin declares one."""

    size: int = key("Size", 3, "how many")
    names: list[str] = key("Names", [], "which")


def test_defaults_are_the_declared_ones() -> None:
    settings = load_settings({}, {})
    assert settings[HttpSettings].port == 17000
    assert settings[HttpSettings].api_for_agent.enable is True
    assert settings[DbSettings].kind == "sqlite"
    assert settings.unknown == ()


def test_keys_match_without_regard_to_case_and_unknown_ones_are_named() -> None:
    document = {"http": {"port": 1, "Prot": 2, "A2A": {"Foo": 1}}, "Nonsense": {"a": 1}}
    settings = load_settings(document, {})
    assert settings[HttpSettings].port == 1
    assert {name.lower() for name in settings.unknown} == {"nonsense", "http.prot", "http.a2a.foo"}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"HTTP": {"Port": "x"}}, "HTTP.Port: got 'x', expected integer"),
        ({"HTTP": {"Port": True}}, "HTTP.Port: got True, expected integer"),
        ({"HTTP": {"Port": -1}}, "HTTP.Port: got -1, expected a number from 0 to 65535"),
        ({"HTTP": {"Port": 65536}}, "HTTP.Port: got 65536, expected a number from 0 to 65535"),
        ({"HTTP": {"PProf": 1}}, "HTTP.PProf: got 1, expected true or false"),
        ({"HTTP": {"A2A": 3}}, "[HTTP.A2A]: got 3, expected a section"),
        ({"HTTP": {"A2A": {"MCPToolsets": [1]}}}, "HTTP.A2A.MCPToolsets[0]: got 1, expected text"),
        *(
            ({"HTTP": {"PathAliases": alias}}, f"HTTP.PathAliases: got {alias!r}, expected paths like")
            for alias in ({"api": "/api/svc"}, {"/x": "tsdbput"}, {"/": "/api/svc"}, {"/x/": "/api/svc"})
        ),
        ({"Log": {"Level": "LOUD"}}, "Log.Level: got 'LOUD', expected one of 'DEBUG'"),
        ({"Redis": {"Password": 5}}, "Redis.Password: got ***, expected text"),
    ],
)
def test_a_wrong_value_stops_with_key_value_and_expectation(document: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(document, {})
    assert text in str(caught.value)


def test_the_environment_overrides_files() -> None:
    environ = {
        "TOCSIN_HTTP_PORT": "18000",
        "TOCSIN_HTTP_APIFORSERVICE_ENABLE": "true",
        "TOCSIN_HTTP_A2A_MCPTOOLSETS": "alerts, users",
        "TOCSIN_SAMPLE_SIZE": "7",
    }
    settings = load_settings({"HTTP": {"Port": 1}}, environ, [Sample])
    assert settings[HttpSettings].port == 18000
    assert settings[HttpSettings].api_for_service.enable is True
    assert settings[HttpSettings].a2a.toolsets == ["alerts", "users"]
    assert settings[Sample].size == 7
    with pytest.raises(SettingsError, match=r"HTTP.Port: got 'many' from the environment, expected integer"):
        load_settings({}, {"TOCSIN_HTTP_PORT": "many"})


def test_two_sections_of_one_name_are_refused() -> None:
    @section("HTTP")
    class Thief:
        port: int = key("Port", 1, "")

    with pytest.raises(SettingsError, match=r"\[HTTP\] is declared by both"):
        load_settings({}, {}, [Thief])


def test_files_are_merged_and_a_doubled_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[HTTP]\nPort = 1\n")
    (tmp_path / "b.toml").write_text("[HTTP]\nHost = '::1'\n")
    assert read_document(tmp_path) == {"HTTP": {"Port": 1, "Host": "::1"}}
    (tmp_path / "c.toml").write_text("[HTTP]\nPort = 2\n")
    with pytest.raises(SettingsError, match=r"HTTP.Port: set again in c.toml"):
        read_document(tmp_path)


def test_a_missing_directory_and_broken_toml_are_clear(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no \*\.toml file"):
        read_document(tmp_path / "nowhere")
    (tmp_path / "a.toml").write_text("[HTTP\n")
    with pytest.raises(SettingsError, match=r"a\.toml"):
        read_document(tmp_path)


def test_every_setting_has_an_explanation() -> None:
    for cls in CORE_SECTIONS:
        for entry in entries(cls):
            assert entry.doc, entry.path
    assert LogSettings.__doc__
