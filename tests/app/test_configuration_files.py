"""The shipped configuration and its documentation are what the settings say."""

import tomllib
from pathlib import Path

import pytest

from tocsin.app.cli import main
from tocsin.app.commands.config import known_sections, reference
from tocsin.app.settings import entries, section_name

ROOT = Path(__file__).parents[2]


def test_the_reference_documents_every_known_section() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    for cls in known_sections():
        assert "\n".join(reference([cls])).strip() in page, (
            f"run `tocsin config reference`: [{section_name(cls)}] differs"
        )


def test_the_shipped_file_names_every_key_and_sets_what_it_ships() -> None:
    text = (ROOT / "etc/config.toml").read_text()
    document = tomllib.loads(text)
    for cls in known_sections():
        for entry in entries(cls):
            if "[]" in entry.path:
                continue
            section, _, name = entry.path.rpartition(".")
            assert f"{name} = " in text, entry.path
            if entry.shipped is not None:
                table = document
                for part in section.split("."):
                    table = table[part]
                assert table[name] == entry.shipped


def test_the_check_names_unknown_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.toml"
    file.write_text(f'[HTTP]\nPrt = 1\n[Data]\nDir = "{tmp_path}/data"\n')
    assert main(["config", "check", "-c", str(tmp_path)]) == 1
    assert "unknown key: HTTP.Prt" in capsys.readouterr().out
    file.write_text(f'[Data]\nDir = "{tmp_path}/data"\n')
    assert main(["config", "check", "-c", str(tmp_path)]) == 0
