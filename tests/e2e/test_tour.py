"""The README's tour, executed as it stands there."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.plugin.testkit import ROOT_PASSWORD
from tocsin.plugin.testkit.components import PATIENCE, Process, free_port, require_program
from tocsin.plugin.testkit.deployment import Deployment

ROOT = Path(__file__).parents[2]
SETTINGS = "[Alert]\nEngineDelay = 1\n[EmbeddedTSDB]\nEnable = true\n"


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_the_tour_works(make_deployment: Callable[..., Deployment], tmp_path: Path) -> None:
    require_program("prometheus", "prometheus")
    require_program("curl", "curl")
    service = make_deployment(SETTINGS)
    steps = re.findall(r"^```bash\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    assert len(steps) == 7
    script = tmp_path / "tour.sh"
    cleanup = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n"
    script.write_text(cleanup + "\n".join(steps))
    ports = {name: str(free_port()) for name in ("SHOP", "PROM", "HOOK")}
    environment = {"TOCSIN": service.url, "PASSWORD": ROOT_PASSWORD, "TMPDIR": str(tmp_path), **ports}
    tour = Process("tour", [shutil.which("bash") or "bash", script], directory=tmp_path, environment=environment)
    tour.start()
    try:
        code = tour.wait(4 * PATIENCE)
    finally:
        tour.stop()
    told = tour.log.read_text()
    assert code == 0, told
    assert re.search(r"^FIRED shop is closed .*\bjob=shop\b", told, re.M), told
    assert re.search(r"^RECOVERED shop is closed", told, re.M), told
    assert "('shop is closed', 1)" in told.replace('"', "'"), told
