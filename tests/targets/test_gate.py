"""The bound on threads that wait for something slow."""

import pkgutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tocsin.ingest.hosts import TargetLabels
from tocsin.plugin.testkit.components import Hang, HttpSink
from tocsin.targets import gate as module
from tocsin.targets.gate import CrowdedError, Gate
from tocsin.targets.hosts import Hosts


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)


@pytest.fixture
def aside() -> Any:
    """Run something beside the test."""
    with ThreadPoolExecutor() as threads:
        yield threads.submit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_room_is_waited_for(monkeypatch: pytest.MonkeyPatch, aside: Callable[..., Future[Any]]) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 60.0)
    gate, passed = Gate(1), threading.Event()

    def pass_through() -> None:
        with gate.entered():
            passed.set()

    with gate.entered():
        other = aside(pass_through)
        assert not passed.is_set()
    other.result()
    assert passed.is_set()


def test_nobody_waits_behind_the_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    gate = Gate(1, clock)
    with gate.entered():
        clock.now += 100
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 60.0)
    with gate.entered():
        for _ in range(3):  # which would take minutes
            with pytest.raises(CrowdedError), gate.entered():
                pass
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    with gate.entered(), pytest.raises(CrowdedError), gate.entered():
        pass  # waited for, since the last one was quick, and in vain


def test_a_failure_leaves_no_one_inside() -> None:
    gate = Gate(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), gate.entered():
            1 / 0  # noqa: B018


def test_a_center_that_hangs_does_not_keep_all_threads(
    make_world: Callable[..., Any], http_sink: HttpSink, aside: Callable[..., Future[Any]]
) -> None:
    settings = {"HTTP": {"Threads": 2}, "CenterApi": {"Addrs": [http_sink.url], "Timeout": 5000}}
    http_sink.default = lambda request: Hang()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tocsin.targets.mirror.Mirror.check", lambda self: None)
        gateway = make_world(settings, process="pushgw")
    first = aside(gateway.agent.post, "/v1/svc/heartbeat", {"hostname": "a"})
    http_sink.wait_for(1)
    answer = gateway.agent.post("/v1/svc/heartbeat", {"hostname": "b"})
    assert (answer.status, answer.text) == (503, "failed to post data to center: too many are waiting already")
    assert len(http_sink.requests) == 1
    http_sink.stop()
    assert first.result().status == 503
    assert gateway.metric("svc_target_beats_refused_total", reason="unavailable") == 2


def test_a_database_that_hangs_does_not_keep_all_threads(
    make_world: Callable[..., Any], aside: Callable[..., Future[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world({"HTTP": {"Threads": 2}})
    inside, answered = threading.Event(), threading.Event()

    def facts(hosts: Hosts, ident: str) -> None:
        inside.set()
        assert answered.wait(60)

    monkeypatch.setattr(Hosts, "facts", facts)
    first = aside(world.agent.post, "/v1/svc/heartbeat", {"hostname": "a"})
    assert inside.wait(60)
    assert world.agent.post("/v1/svc/heartbeat", {"hostname": "b"}).status == 200
    assert world.metric("svc_target_update_errors_total") == 1
    answered.set()
    assert first.result().status == 200
    world.flush()
    assert set(world.hosts()) == {"a", "b"}


@pytest.mark.parametrize("place", ["tocsin.store.snapshots.Snapshots.versions", "tocsin.targets.book._read"])
def test_a_database_that_hangs_does_not_keep_samples_waiting(
    make_world: Callable[..., Any], aside: Callable[..., Future[Any]], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    world = make_world({"HTTP": {"Threads": 2}})
    for _ in range(2):
        world.beat("web01", global_labels={"env": "prod"})
    core, labels = world.app.core, world.app.core.get(TargetLabels)
    known, _ = labels.changes(0)
    world.beat("web01", global_labels={"env": "test"})
    inside, answered, original = threading.Event(), threading.Event(), pkgutil.resolve_name(place)

    def hang(*arguments: Any) -> Any:
        inside.set()
        assert answered.wait(60)
        return original(*arguments)

    def ask() -> Any:
        try:
            return labels.changes(known)
        finally:
            core.release()

    with monkeypatch.context() as patch:
        patch.setattr(place, hang)
        first = aside(ask)
        assert inside.wait(60)
        assert ask() == (known, ())
        assert labels.lookup("web01").labels == {b"env": b"prod"}
        assert world.metric("svc_target_labels_stale_total") == 1
        answered.set()
        assert first.result() == (known + 1, {"web01"})
    assert labels.lookup("web01").labels == {b"env": b"test"}
