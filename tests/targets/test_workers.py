"""Real processes: hosts are known to all workers, and a stop loses no heartbeat that was answered."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from tocsin.plugin.testkit.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def beat(service: Deployment, hostname: str, **said: object) -> None:
    answer = service.request("POST", "/v1/svc/heartbeat", {"hostname": hostname, **said})
    assert (answer.status, json.loads(answer.data)["err"]) == (200, "")


def test_heartbeats_outlive_the_process(make_deployment: Callable[..., Deployment]) -> None:
    service = make_deployment()
    beat(service, "early", os="linux")

    def listed() -> bool:
        return [host["ident"] for host in service.api("GET", "/targets")["list"]] == ["early"]

    service.until(listed, "the host is listed")
    beat(service, "early", os="linux")
    for _ in range(6):  # whichever workers answer
        (host,) = service.api("GET", "/targets")["list"]
        assert (host["os"], host["target_up"]) == ("linux", 2)
    for number in range(20):
        beat(service, f"late{number:02}")
    assert service.stop() == 0
    with closing(sqlite3.connect(service.directory / "data/tocsin.db")) as database:
        rows = database.execute("SELECT ident FROM target ORDER BY ident").fetchall()
    assert [ident for (ident,) in rows] == ["early", *(f"late{number:02}" for number in range(20))]
