"""Lanes: bounded concurrency, order within a chain, nothing shared between channels."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from tests.notify.conftest import until_idle

from tocsin.notify.lanes import Lanes
from tocsin.plugin.testkit.components import PATIENCE, wait_until

Work = Callable[[int], float | None]


@pytest.fixture
def make() -> Iterator[Callable[[Work], Lanes]]:
    made: list[Lanes] = []

    def lanes(work: Work) -> Lanes:
        made.append(Lanes(work))
        return made[-1]

    yield lanes
    for one in made:
        one.stop(5.0)


def test_a_lane_works_on_so_many_at_once(make: Callable[[Work], Lanes]) -> None:
    barrier, now, most = threading.Barrier(3), 0, 0
    lock = threading.Lock()

    def work(number: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        barrier.wait(PATIENCE)
        with lock:
            now -= 1

    lanes = make(work)
    for number in range(9):
        lanes.add(1, number, f"c{number}", concurrency=3)
    until_idle(lanes)
    assert most == 3


def test_a_chain_leaves_in_order_whatever_has_to_be_repeated(make: Callable[[Work], Lanes]) -> None:
    done: dict[str, list[int]] = defaultdict(list)
    tries: dict[int, int] = defaultdict(int)
    lock = threading.Lock()

    def work(number: int) -> float | None:
        with lock:
            tries[number] += 1
            if number % 7 == 0 and tries[number] < 3:
                return 0.001
            done[f"c{number % 5}"].append(number)
        return None

    lanes = make(work)
    for number in range(200):
        lanes.add(1, number, f"c{number % 5}", concurrency=8)
    until_idle(lanes)
    assert done == {f"c{rest}": [n for n in range(200) if n % 5 == rest] for rest in range(5)}
    assert lanes.size(1) == 0


def test_what_is_known_is_not_queued_twice(make: Callable[[Work], Lanes]) -> None:
    gate, seen = threading.Event(), []

    def work(number: int) -> None:
        gate.wait(PATIENCE)
        seen.append(number)

    lanes = make(work)
    for _ in range(3):
        lanes.add(1, 7, "c", concurrency=1)
    assert lanes.size(1) == 1
    assert lanes.known() == {7}
    gate.set()
    until_idle(lanes)
    lanes.add(1, 7, "c", concurrency=1)
    until_idle(lanes)
    assert seen == [7, 7]


def test_a_delay_is_kept_while_others_go_on(make: Callable[[Work], Lanes]) -> None:
    order: list[int] = []
    lanes = make(order.append)
    lanes.add(1, 1, "late", concurrency=1, delay=3600.0)
    lanes.add(1, 2, "late", concurrency=1)
    lanes.add(1, 3, "soon", concurrency=1)
    wait_until(lambda: bool(order), what="what has no delay")
    wait_until(lambda: lanes.known() == {1, 2}, what="its end")
    lanes.add(2, 4, "later", concurrency=1, delay=0.02)
    lanes.add(2, 5, "later", concurrency=1)
    wait_until(lambda: lanes.known() == {1, 2}, what="what has a short delay")
    assert order == [3, 4, 5]


def test_stopping_finishes_what_is_under_way_and_begins_nothing(make: Callable[[Work], Lanes]) -> None:
    begun, gate, done = threading.Event(), threading.Event(), []

    def work(number: int) -> None:
        begun.set()
        gate.wait(PATIENCE)
        done.append(number)

    lanes = make(work)
    for number in range(3):
        lanes.add(1, number, f"c{number}", concurrency=1)
    assert begun.wait(PATIENCE)
    stopping = threading.Thread(target=lanes.stop, args=(PATIENCE,))
    stopping.start()
    wait_until(lambda: lanes._stopping, what="the stop")
    gate.set()
    stopping.join(PATIENCE)
    assert done == [0]
    lanes.add(1, 9, "c9", concurrency=1)
    assert 9 not in lanes.known()


def test_work_that_breaks_is_repeated_and_logged_once(
    make: Callable[[Work], Lanes], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.notify.lanes.FAULT_PAUSE", 0.001)
    left = iter(range(5))

    def work(number: int) -> None:
        if next(left, None) is not None:
            raise OSError("the database is away")

    lanes = make(work)
    lanes.add(1, 1, "c", concurrency=1)
    until_idle(lanes)
    assert len([r for r in caplog.records if "could not be worked on" in r.message]) == 1


def test_the_number_in_a_lane_is_told(make: Callable[[Work], Lanes]) -> None:
    told: list[tuple[int, int]] = []
    lanes = Lanes(lambda number: None, changed=lambda channel, size: told.append((channel, size)))
    lanes.add(4, 1, "a", concurrency=1)
    until_idle(lanes)
    lanes.stop(5)
    assert told == [(4, 1), (4, 0)]
