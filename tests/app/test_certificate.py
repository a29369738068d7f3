"""A certificate that cannot be used stops the start: nobody is served in clear by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.app.bootstrap import make_core
from tocsin.app.registry import Plugins
from tocsin.app.settings import SettingsError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"CertFile": "cert.pem"}, "HTTP.KeyFile: got nothing, expected a file"),
        ({"KeyFile": "key.pem"}, "HTTP.CertFile: got nothing, expected a file"),
        ({"CertFile": "cert.pem", "KeyFile": "nowhere.pem"}, "HTTP.KeyFile: nowhere.pem cannot be read: No such file"),
        ({"CertFile": "cert.pem", "KeyFile": "key.pem"}, "key.pem cannot be used: .*PEM"),
    ],
)
def test_what_cannot_be_used_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("cert.pem", "key.pem"):
        Path(name).write_text("no certificate")
    with pytest.raises(SettingsError, match=message):
        make_core("center", {"HTTP": given}, environ={}, plugins=Plugins())
