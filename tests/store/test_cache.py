"""The cache: embedded and Redis behave alike."""

import gc
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.app.sections import CacheSettings
from tocsin.http.metrics import Metrics
from tocsin.plugin.testkit.components import PATIENCE, Redis
from tocsin.store.cache import Cache, CacheError, EmbeddedCache, open_cache


@pytest.fixture(params=["embedded", "redis"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cache]:
    if request.param == "embedded":
        settings = CacheSettings()
    else:
        server: Redis = request.getfixturevalue("redis_server")
        settings = CacheSettings(kind="standalone", address=server.address)
    opened = open_cache(settings, tmp_path, Metrics())
    yield opened
    opened.close()


def test_values_come_back_as_they_went_in(cache: Cache) -> None:
    many = {f"key{i}": bytes([i % 256]) * 3 for i in range(1200)}
    cache.set_many(many, 60)
    assert cache.get_many([*many, "missing"]) == many
    assert cache.get("missing") is None
    cache.set("key1", b"\x00\xff", 60)
    assert cache.get("key1") == b"\x00\xff"
    assert cache.delete("key1", "missing") == 1
    assert cache.get("key1") is None
    assert cache.delete() == 0


def test_counters_count(cache: Cache) -> None:
    assert [cache.increment("n", 60) for _ in range(3)] == [1, 2, 3]


def test_embedded_values_expire_by_the_clock(tmp_path: Path) -> None:
    now = [1000.0]
    cache = EmbeddedCache(tmp_path / "cache.db", lambda: now[0])
    cache.set("a", b"1", 10)
    cache.increment("n", 10)
    now[0] += 9
    assert cache.get("a") == b"1"
    assert cache.increment("n", 10) == 2
    now[0] += 5
    assert cache.get("a") is None
    assert cache.increment("n", 10) == 3
    now[0] += 100
    assert cache.increment("n", 10) == 1
    cache.close()


def test_another_process_sees_the_same_values(tmp_path: Path) -> None:
    one, two = EmbeddedCache(tmp_path / "cache.db"), EmbeddedCache(tmp_path / "cache.db")
    one.set("a", b"1", 60)
    assert two.get("a") == b"1"
    two.delete("a")
    assert one.get("a") is None
    one.close()
    two.close()


def test_a_silent_redis_stops_the_start(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    settings = CacheSettings(kind="standalone", address="127.0.0.1:1", timeout_ms=200)
    with pytest.raises(CacheError, match=r"Redis.Address: the server does not answer"):
        open_cache(settings, tmp_path, Metrics())


def test_a_redis_that_hangs_is_waited_for_once(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = CacheSettings(kind="standalone", address=f"127.0.0.1:{silent.getsockname()[1]}", timeout_ms=200)
        with pytest.raises(CacheError, match=r"Redis.Address: the server does not answer"):
            open_cache(settings, tmp_path, Metrics())
        silent.settimeout(PATIENCE)
        silent.accept()[0].close()
        silent.settimeout(0)
        with pytest.raises(BlockingIOError):  # nobody has come a second time
            silent.accept()


def test_closing_waits_for_threads_that_still_use_it(tmp_path: Path) -> None:
    cache = EmbeddedCache(tmp_path / "cache.db")
    closed = threading.Event()
    working = threading.Event()
    counts: list[int] = []

    def count() -> None:
        while not closed.is_set():
            counts.append(cache.increment("n", 60))
            working.set()

    thread = threading.Thread(target=count)
    thread.start()
    working.wait(PATIENCE)
    for _ in range(100):
        cache.close()
    closed.set()
    thread.join()
    assert counts == list(range(1, len(counts) + 1))
    cache.close()
    gc.collect()
    assert not [link for link in Path("/proc/self/fd").iterdir() if _target(link) == str(tmp_path / "cache.db")]


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # the descriptor of the listing itself
        return ""
