"""The collector packages that this installation hands out, and the scripts rendered for them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

VERSION = "v0.5.15"
"""The release of the collector that is installed."""
PACKAGES = {"amd64": "categraf-linux-amd64.tar.gz", "arm64": "categraf-linux-arm64.tar.gz"}
"""File of each processor architecture; nothing that a request says becomes part of a path."""


class Packages:
    """The packages in one directory."""

    def __init__(self, directory: Path, release_url: str) -> None:
        self._directory, self._release_url = directory, release_url

    def arches(self) -> list[str]:
        """Return the architectures whose package is there."""
        return [arch for arch in PACKAGES if self.path(arch).is_file()]

    def path(self, arch: str) -> Path:
        """Return where the package of a known architecture is or would be."""
        return self._directory / PACKAGES[arch]

    def install_script(self, report: str, download: str) -> bytes:
        """Return the script that installs a collector which reports to ``report``, fetched from ``download``.

        Both are addresses as :func:`~tocsin.targets.install.addresses.normal_address` makes them, or empty.
        """
        values = {
            "@REPORT@": report,
            "@DOWNLOAD@": download,
            "@VERSION@": VERSION,
            "@ARCHES@": ",".join(self.arches()),
            "@RELEASES@": self._release_url,
        }
        script = _script("install.sh")
        for name, value in values.items():
            script = script.replace(name, value)
        return script.encode()

    @staticmethod
    def collect_script() -> bytes:
        """Return the script that adds one input to an installed collector."""
        return _script("collect.sh").encode()


def _script(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
