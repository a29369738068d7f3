"""Writing signs of life: batches, retries, and nothing lost while a store is away."""

from collections.abc import Collection, Mapping
from typing import Any, cast

import orjson
import pytest

from tocsin.http.metrics import Metrics
from tocsin.ingest.settings import PushgwSettings
from tocsin.store.cache import Cache
from tocsin.targets import pulse
from tocsin.targets.metrics import TargetMetrics
from tocsin.targets.pulse import EXTEND, META, SEEN, Beats


class FakeCache:
    """A cache that fails as often as told."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.writes: list[int] = []
        self.failures = 0
        self.broken: tuple[str, ...] = ()

    def set_many(self, values: Mapping[str, bytes], ttl: float) -> None:
        self.writes.append(len(values))
        if self.failures or next(iter(values)).startswith(self.broken):
            self.failures = max(0, self.failures - 1)
            raise ConnectionError("away")
        assert ttl == (86_400 if next(iter(values)).startswith(SEEN) else 7 * 86_400)
        self.values.update(values)


class Stage:
    def __init__(self, **settings: Any) -> None:
        self.cache, self.metrics = FakeCache(), Metrics()
        self.known: list[str] = []
        self.database_away = False
        self.now, self.passed = 1000, 0.0
        chosen = PushgwSettings(**{"target_retry_interval": 0, **settings})
        self.beats = Beats(
            cast(Cache, self.cache),
            chosen,
            TargetMetrics(self.metrics),
            self.register,
            lambda: self.now,
            lambda: self.passed,
        )

    def register(self, idents: Collection[str]) -> int:
        if self.database_away:
            raise ConnectionError("away")
        self.known += idents
        return len(idents)

    def seen(self) -> dict[str, int]:
        found = {key: value for key, value in self.cache.values.items() if key.startswith(SEEN)}
        return {key.removeprefix(SEEN): orjson.loads(value)["update_time"] for key, value in found.items()}

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def test_batches() -> None:
    stage = Stage()
    stage.beats.announce([str(number) for number in range(130)])
    stage.beats.announce(["0", "1"])
    stage.beats.flush()
    assert stage.cache.writes == [20, 20, 20, 20, 20, 20, 10]
    assert len(stage.known) == len(stage.seen()) == 130
    assert stage.metric("svc_target_registered_total") == 130
    assert stage.metric("svc_target_beats_total", source="sample") == 132
    stage.beats.flush()
    assert len(stage.cache.writes) == 7


def test_a_failing_write_is_repeated() -> None:
    stage = Stage()
    stage.cache.failures = 2
    stage.beats.announce(["a"])
    stage.beats.flush()
    assert stage.seen() == {"a": 1000}
    assert stage.metric("svc_target_flush_retries_total") == 2
    name = "svc_pushgw_redis_operation_latency_seconds_count"
    assert stage.metric(name, operation="mset_target_ts", status="success") == 1
    assert stage.metric(name, operation="mset_target_ts", status="fail") == 0


def test_what_a_cache_does_not_take_is_written_when_it_is_back() -> None:
    stage = Stage()
    stage.cache.broken = (SEEN, META, EXTEND)
    stage.beats.heard("a", {"cpu_num": 1}, {"x": 1})
    stage.beats.announce(["b"])
    stage.beats.flush()
    assert stage.cache.writes == [2, 2, 2]
    assert (stage.known, stage.metric("svc_target_pending_beats")) == ([], 2)
    assert stage.metric("svc_target_flush_errors_total", stage="cache") == 1
    stage.now += 5
    stage.beats.heard("a", {"cpu_num": 2}, None)
    stage.cache.broken = ("none",)
    stage.beats.flush()
    assert stage.seen() == {"a": 1005, "b": 1000}
    assert orjson.loads(stage.cache.values[META + "a"]) == {"cpu_num": 2}
    assert orjson.loads(stage.cache.values[EXTEND + "a"]) == {"x": 1}
    assert (sorted(stage.known), stage.metric("svc_target_pending_beats")) == (["a", "b"], 0)


def test_a_cache_that_is_away_is_not_asked_for_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "BATCH", 10)
    stage = Stage(target_retries=1)
    hosts = [f"h{number}" for number in range(100)]
    stage.cache.broken = (SEEN, META, EXTEND)
    for host in hosts:
        stage.beats.heard(host, {"cpu_num": 1}, {"x": 1})
    stage.beats.flush()
    assert stage.cache.writes == [10]
    assert (stage.known, stage.metric("svc_target_pending_beats")) == ([], 100)
    stage.cache.broken = (EXTEND,)
    stage.beats.flush()
    assert (stage.known, stage.metric("svc_target_pending_beats")) == (hosts, 0)
    assert len(stage.cache.values) == 200
    stage.cache.broken = ("none",)
    stage.beats.flush()
    assert len(stage.cache.values) == 300


def test_hosts_are_registered_when_the_database_is_back() -> None:
    stage = Stage()
    stage.database_away = True
    stage.beats.announce(["a"])
    stage.beats.flush()
    stage.database_away = False
    assert stage.metric("svc_target_flush_errors_total", stage="database") == 1
    stage.beats.flush()
    assert stage.known == ["a"]


def test_all_attempts_together_take_no_longer_than_allowed() -> None:
    stage = Stage(target_retries=1000, target_timeout=3000, target_retry_interval=0)
    write = stage.cache.set_many

    def slow(values: Mapping[str, bytes], ttl: float) -> None:
        stage.passed += 1
        write(values, ttl)

    stage.cache.set_many = slow  # type: ignore[method-assign]
    stage.cache.broken = (SEEN,)
    stage.beats.announce(["a"])
    stage.beats.flush()
    assert len(stage.cache.writes) == 4


@pytest.mark.parametrize("name", ["", "x" * 192, "a\0b"])
def test_what_is_no_name_of_a_host(name: str) -> None:
    stage = Stage()
    stage.beats.announce([name])
    stage.beats.heard(name, {}, None)
    stage.beats.flush()
    assert stage.known == []
    assert stage.metric("svc_target_beats_refused_total", reason="name") == 2


def test_waiting_hosts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "MAX_PENDING", 2)
    stage = Stage()
    stage.beats.announce(["a", "b", "c", "a"])
    stage.beats.flush()
    assert sorted(stage.known) == ["a", "b"]
    assert stage.metric("svc_target_beats_refused_total", reason="full") == 1


def test_stopping_writes_what_waits() -> None:
    stage = Stage()
    released: list[int] = []
    stage.beats.start(lambda: released.append(1))
    stage.beats.announce(["a"])
    stage.beats.stop()
    assert stage.known == ["a"]
    assert released


def test_stopping_does_not_wait_for_a_cache_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(target_retries=10, target_retry_interval=600_000, target_timeout=10**9)
    stage.cache.broken = (SEEN,)
    stage.beats.start(lambda: None)
    stage.beats.announce(["a"])
    stage.beats.stop()
    assert stage.metric("svc_target_pending_beats") == 1
    assert "stopped with 1 hosts" in caplog.text
