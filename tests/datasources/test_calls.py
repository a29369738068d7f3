"""The one way in which plugins are called."""

from __future__ import annotations

import threading

import pytest

from tocsin.app.calls import PluginBusyError, PluginCalls, PluginCrashError, PluginTimeoutError
from tocsin.http.metrics import Metrics
from tocsin.plugin import DatasourceError
from tocsin.plugin.testkit.components import PATIENCE


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def calls(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> PluginCalls:
    monkeypatch.setattr("tocsin.app.calls.SLACK", 0.0)
    return PluginCalls(metrics, max_overdue=2)


def count(metrics: Metrics, outcome: str) -> float:
    labels = {"plugin": "p", "operation": "o", "outcome": outcome}
    return metrics.registry.get_sample_value("svc_plugin_calls_total", labels) or 0.0


@pytest.mark.parametrize("seconds", [None, PATIENCE])
def test_results_and_errors_pass(calls: PluginCalls, metrics: Metrics, seconds: float | None) -> None:
    assert calls.call("p", "o", lambda: 42, seconds=seconds) == 42
    error = DatasourceError("said no", refused=True)

    def fails() -> None:
        raise error

    with pytest.raises(DatasourceError) as caught:
        calls.call("p", "o", fails, seconds=seconds)
    assert caught.value is error
    assert (count(metrics, "ok"), count(metrics, "error")) == (1, 1)
    seen = {"plugin": "p", "operation": "o"}
    assert metrics.registry.get_sample_value("svc_plugin_call_duration_seconds_count", seen) == 2


def test_only_a_call_with_a_limit_runs_in_another_thread(calls: PluginCalls) -> None:
    here = threading.get_ident()
    assert calls.call("p", "o", threading.get_ident) == here
    assert calls.call("p", "o", threading.get_ident, seconds=PATIENCE) != here


@pytest.mark.parametrize("seconds", [None, PATIENCE])
def test_what_the_contract_does_not_allow_is_a_crash(
    calls: PluginCalls, metrics: Metrics, seconds: float | None
) -> None:
    with pytest.raises(PluginCrashError, match="plugin p failed in o: ZeroDivisionError"):
        calls.call("p", "o", lambda: 1 // 0, seconds=seconds)
    assert count(metrics, "crash") == 1


def test_overdue_calls_are_counted_by_object_until_they_end(
    calls: PluginCalls, metrics: Metrics, gate: threading.Event
) -> None:
    ended = threading.Semaphore(0)

    def hangs() -> None:
        gate.wait(PATIENCE)
        ended.release()

    for _ in range(2):
        with pytest.raises(PluginTimeoutError):
            calls.call("p", "o", hangs, seconds=0.01, about=1)
    with pytest.raises(PluginBusyError):
        calls.call("p", "o", lambda: 1, seconds=PATIENCE, about=1)
    assert calls.call("p", "o", lambda: 1, seconds=PATIENCE, about=2) == 1
    overdue = lambda: metrics.registry.get_sample_value("svc_plugin_overdue_calls", {"plugin": "p"})  # noqa: E731
    assert overdue() == 2
    gate.set()
    assert ended.acquire(timeout=PATIENCE)
    assert ended.acquire(timeout=PATIENCE)
    for thread in threading.enumerate():
        if thread.name == "plugin-p-o":
            thread.join(PATIENCE)
    assert overdue() == 0
    assert calls.call("p", "o", lambda: 1, seconds=PATIENCE, about=1) == 1
    assert (count(metrics, "timeout"), count(metrics, "busy"), count(metrics, "ok")) == (2, 1, 2)
