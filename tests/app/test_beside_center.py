"""Processes beside the center: they share its database, write no first rows, and serve what is theirs."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable
from pathlib import Path

import pytest

from tocsin.access.models import User
from tocsin.alerting.membership import Membership
from tocsin.alerting.settings import HeartbeatSettings
from tocsin.app.bootstrap import make_core, prepare
from tocsin.app.core import Core
from tocsin.app.jobs import JobRunner
from tocsin.app.registry import Plugins
from tocsin.app.settings import SettingsError
from tocsin.events.models import EventSequence
from tocsin.notify.models import NotifyChannelRow
from tocsin.plugin import Feature, Job
from tocsin.plugin.testkit import AppFactory, dat
from tocsin.targets.feature import FEATURE as targets

HEARTBEAT = {"hostname": "web01", "global_labels": {"dc": "fra"}}
OWN = ("/ping", "/pid", "/ppid", "/addr", "/metrics", "/api/svc/version", "/dumper/sync")


@pytest.mark.parametrize("process", ["alert", "pushgw"])
def test_first_rows_are_the_centers_business(tmp_path: Path, process: str) -> None:
    core = make_core(process, {"Data": {"Dir": str(tmp_path)}}, environ={}, plugins=Plugins())
    prepare(core)
    assert User.select().count() == 0
    if process == "alert":
        assert EventSequence.select().count() == 0
        assert NotifyChannelRow.select().count() == 0
    core.close()


@pytest.mark.parametrize("process", ["alert", "pushgw"])
def test_no_page_and_no_service_api_beside_the_center(make_app: AppFactory, process: str) -> None:
    api = {"Enable": True, "BasicAuth": {"robot": "secret"}}
    settings = {"HTTP": {"APIForService": api, "ExposeMetrics": True}}
    make_app(settings=settings)
    client = make_app(settings=settings, process=process).client
    for path in OWN:
        assert client.get(path).status == 200, path
    for path in ("/api/svc/users", "/api/svc/auth/login", "/v1/svc/alert-rules", "/v1/svc/targets", "/mcp", "/"):
        assert client.get(path).status == 404, path
    assert client.post("/api/svc/auth/login", {}).status == 404


def test_a_gateway_beside_a_center_hears_heartbeats(make_app: AppFactory) -> None:
    center = make_app()
    gateway = make_app(process="pushgw", start="http")
    for _ in range(2):
        dat(gateway.client.post("/v1/svc/heartbeat", HEARTBEAT))
        gateway.core.stop("http")  # writes what is pending
        gateway.core.start("http")
    (host,) = dat(center.root.get("/api/svc/targets"))["list"]
    assert (host["ident"], host["host_tags"], host["engine_name"]) == ("web01", ["dc=fra"], "default")


def test_a_gateway_without_a_center_says_that_it_hears_none(
    make_app: AppFactory, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        client = make_app(process="pushgw").client
    assert client.post("/v1/svc/heartbeat", HEARTBEAT).status == 404
    assert "POST /v1/svc/heartbeat is not served: no center has set up this process's database" in caplog.text
    assert client.get("/ping").text == "pong"


def test_an_engine_that_cannot_read_the_centers_secrets_does_not_start(make_app: AppFactory) -> None:
    make_app()
    stranger = {"Secrets": {"Key": base64.urlsafe_b64encode(b"k" * 32).decode()}}
    with pytest.raises(SettingsError, match=r"Secrets\.Key: got a key other than the center's"):
        make_app(process="alert", settings=stranger)
    make_app(process="pushgw", settings=stranger)  # needs none of them


def test_hosts_seen_where_the_center_may_not_look_are_a_warning(
    make_app: AppFactory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = make_app(process="pushgw").core
    with caplog.at_level(logging.WARNING):
        targets.join(core)
        assert "[Redis] names no server" not in caplog.text
        monkeypatch.setattr(core.db, "kind", "postgres")
        targets.join(core)
    assert "[Redis] names no server" in caplog.text


def membership(core: Core, process: str, port: int, name: str = "") -> Membership:
    cluster = HeartbeatSettings(engine_name=name).cluster(process)
    return Membership(core.db, f"10.0.0.1:{port}", cluster, core.clock)


def test_the_cluster_of_an_engine_is_the_centers_only_when_configured_so(make_app: AppFactory) -> None:
    core = make_app().core
    center, near = membership(core, "center", 1), membership(core, "alert", 2, "default")
    far, unbound = membership(core, "alert", 3, "far"), membership(core, "alert", 4)
    assert [each.cluster for each in (center, near, far, unbound)] == ["default", "default", "far", ""]
    for _ in range(2):
        for each, sources in ((center, [7]), (near, [7]), (far, [8]), (unbound, [])):
            each.beat(sources)
    rules = range(1, 200)
    for rule in rules:
        assert center.owns(rule, 7) != near.owns(rule, 7)
        assert far.owns(rule, 8)
        assert not any((far.owns(rule, 7), center.owns(rule, 8), unbound.owns(rule, 7), unbound.owns(rule, 8)))
    assert 40 < sum(center.owns(rule, 7) for rule in rules) < 160


def test_an_engine_leaves_the_notifications_of_every_living_engine_alone(make_app: AppFactory) -> None:
    core = make_app().core
    center, far = membership(core, "center", 1), membership(core, "alert", 3, "far")
    for each in (center, far, center):
        each.beat([])
    assert set(center.others()) == {"10.0.0.1:3"}
    assert set(far.others()) == {"10.0.0.1:1"}
    far.leave()
    center.beat([])
    assert set(center.others()) == set()


def test_an_engine_without_a_cluster_says_so(make_app: AppFactory, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        make_app(process="alert", start="engine", settings={"Alert": {"Heartbeat": {"IP": "10.0.0.1"}}})
    assert "evaluates nothing: Alert.Heartbeat.EngineName names no engine cluster" in caplog.text


def names_of(jobs: Iterable[str]) -> list[str]:
    return sorted(name.removeprefix("job ") for name in jobs)


@pytest.mark.parametrize(("process", "expected"), [("center", ["cleaner", "everywhere"]), ("alert", ["everywhere"])])
def test_jobs_run_where_they_belong(make_app: AppFactory, process: str, expected: list[str]) -> None:
    class Busy(Feature):
        name = "busy"
        processes = frozenset(("center", "alert"))
        jobs = (
            Job("cleaner", lambda core: None, every=3600.0),
            Job("everywhere", lambda core: None, every=3600.0, processes=frozenset(("center", "alert"))),
        )

    core = make_app(process=process).core
    core.features = (*core.features, Busy())
    runner = JobRunner(core)
    runner.start()
    try:
        assert [name for name in names_of(t.name for t in runner._threads) if name.startswith("busy.")] == [
            f"busy.{name}" for name in expected
        ]
    finally:
        runner.stop(5.0)
