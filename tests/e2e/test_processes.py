"""The process model, seen from outside: start, supervision, draining, reload."""

import os
import signal
import socket
import time
from collections.abc import Callable

import pytest

from tocsin.plugin.testkit.components import PATIENCE, Process
from tocsin.plugin.testkit.deployment import DRAIN_SECONDS, Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
Make = Callable[..., Deployment]


def gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("name", ["worker", "http", "engine", "launcher", "guard"])
def test_a_killed_process_is_replaced_or_not_missed(make_deployment: Make, name: str) -> None:
    service = make_deployment()
    pid = service.kill(name)
    service.until(lambda: gone(pid) or name == "guard", f"{name} is dead")
    if name != "guard":
        service.until(lambda: service.processes().get(name, []) not in ([], [pid]), f"{name} is back")
    service.until(service.serves, "the service answers")
    for pid in service.processes()["launcher"]:
        service.terminate(pid)


def test_it_stops_cleanly_and_leaves_nothing_behind(make_deployment: Make) -> None:
    service = make_deployment()
    pids = [pid for group in service.processes().values() for pid in group]
    assert len(pids) >= 5
    assert service.stop() == 0
    service.until(lambda: all(gone(pid) for pid in pids), "all processes are gone")


def test_a_client_that_has_connected_and_says_nothing_does_not_hold_up_the_stop(make_deployment: Make) -> None:
    service = make_deployment()
    with socket.create_connection(("127.0.0.1", service.port)) as silent:
        silent.settimeout(20)
        # A worker waits five seconds for a first byte; only then the connection is one that has been put aside.
        aside = time.monotonic() + 5.5
        service.until(lambda: service.serves() and time.monotonic() > aside, "the connection is put aside")
        begun = time.monotonic()
        assert service.stop() == 0
        assert silent.recv(1) == b""
    assert time.monotonic() - begun < DRAIN_SECONDS


def test_sighup_reads_the_configuration_again_without_closing_the_port(make_deployment: Make) -> None:
    service = make_deployment()
    config = service.directory / "etc" / "config.toml"
    good = config.read_text()
    config.write_text(good + "PProf = 'maybe'\n")
    service.process.signal(signal.SIGHUP)
    service.until(lambda: "the new configuration cannot be used" in service.process.log.read_text(), "it refuses")
    assert service.request("GET", "/api/debug/pprof/").status == 200
    config.write_text(good + "PProf = false\n")
    service.process.signal(signal.SIGHUP)

    def switched_off() -> bool:
        assert service.serves()
        answer = service.request("GET", "/api/debug/pprof/")
        return bool(answer.headers["content-type"].startswith("text/html"))

    service.until(switched_off, "the new configuration is in force")
    service.until(lambda: len(service.processes()["http"]) == 1, "the old workers have gone")


def test_metrics_add_up_over_workers(make_deployment: Make) -> None:
    service = make_deployment()
    before = service.metric("svc_center_http_request_duration_seconds_count")
    for _ in range(20):
        service.request("GET", "/pid", headers={"Connection": "close"})
    assert service.metric("svc_center_http_request_duration_seconds_count") >= before + 20
    assert 0 < service.metric("svc_center_uptime") < 3600


@pytest.mark.parametrize("process", ["alert", "pushgw"])
def test_other_process_kinds_run(make_deployment: Make, process: str) -> None:
    service = make_deployment(process=process)
    assert service.request("GET", "/api/svc/version").data.startswith(b"v")
    assert service.request("GET", "/no-such-thing").status == 404
    assert ("engine" in service.processes()) == (process == "alert")


def test_a_wrong_setting_stops_the_start_with_its_name(make_deployment: Make) -> None:
    with pytest.raises(RuntimeError, match=r"DB.DBType: got 'oracle', expected one of"):
        make_deployment('[DB]\nDBType = "oracle"\n')


def test_a_taken_port_is_named(make_deployment: Make) -> None:
    service = make_deployment()
    second = Process("second", service.process.argv, directory=service.directory).start()
    assert second.wait(PATIENCE) == 1
    assert f"cannot listen on 127.0.0.1:{service.port}" in second.log.read_text()
