"""Queues that nobody uses are closed, and opened again when they are; a closed queue takes nothing that would be lost."""

import threading

import pytest

from tocsin.ingest.gateway import IDLE_SECONDS, Gateway, NotRunningError
from tocsin.ingest.hosts import NoHosts
from tocsin.ingest.metrics import GatewayMetrics
from tocsin.ingest.outlet import Outlet, OutletOptions
from tocsin.ingest.settings import PushgwSettings, WriterOptions
from tocsin.plugin import Decoded
from tocsin.plugin.testkit.components import PATIENCE, wait_until


class Clock:
    """A clock that stands until it is moved."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def gateway(metrics, writer, clock):
    """A gateway with three queues and one backend."""
    settings = PushgwSettings(writer_options=WriterOptions(queue_number=3, linger=0))
    instruments = GatewayMetrics.make(metrics)
    made = Gateway(
        settings, [Outlet(writer, OutletOptions(), instruments)], instruments, NoHosts(), NoHosts(), monotonic=clock
    )
    made.start()
    yield made
    made.stop(0)


@pytest.fixture
def body(make_series, make_body):
    return make_body(make_series(__name__="m"))


def consumers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("queue ")]


def test_an_idle_queue_is_closed_and_opened_again(gateway, writer, clock, body, count):
    for _ in range(2):
        gateway.accept("x", Decoded(body))
    writer.wait(2)
    clock.now += IDLE_SECONDS - 1
    gateway.accept("x", Decoded(body))  # into the third queue
    writer.wait(3)
    gateway.close_idle()
    assert count("queue_consumers") == 3
    clock.now += 2
    gateway.close_idle()
    wait_until(lambda: len(consumers()) == 1, timeout=PATIENCE, what="the consumers of two queues have ended")
    assert (count("queue_consumers", queueid="0"), count("queue_consumers", queueid="2")) == (0, 1)
    for _ in range(3):
        gateway.accept("x", Decoded(body))
    writer.wait(6)
    assert count("queue_consumers") == 3
    gateway.show()
    assert count("writer_pending") == count("sample_queue_size") == 0


def test_a_queue_whose_backend_hangs_is_not_idle(gateway, writer, clock, body, count):
    let_go, taken = threading.Event(), threading.Semaphore(0)

    def hang(_batch):
        taken.release()
        let_go.wait(PATIENCE)

    writer.behave = hang
    for _ in range(3):
        gateway.accept("x", Decoded(body))
    for _ in range(3):
        assert taken.acquire(timeout=PATIENCE)
    for _ in range(3):
        gateway.accept("x", Decoded(body))  # these wait
    clock.now += IDLE_SECONDS + 1
    gateway.close_idle()
    assert count("queue_consumers") == 3
    let_go.set()
    writer.wait(6)


def test_closing_queues_under_way_loses_nothing(gateway, writer, clock, body):
    """Requests that have found a queue which is closed before they get to it take a new one."""
    senders = [
        threading.Thread(target=lambda: [gateway.accept("x", Decoded(body)) for _ in range(200)]) for _ in range(4)
    ]
    for thread in senders:
        thread.start()
    while any(thread.is_alive() for thread in senders):
        clock.now += IDLE_SECONDS + 1
        gateway.close_idle()
    writer.wait(800)
    assert gateway.stop(PATIENCE) == 0
    assert writer.series == 800


def test_what_comes_during_a_stop_is_refused_and_counted(gateway, body, count, monkeypatch):
    """A request that was let in just before gets no place in queues that nobody reads any more."""
    gateway.accept("x", Decoded(body))
    push = gateway._push

    def stopped_meanwhile(number, chunks):
        gateway.stop(PATIENCE)
        return push(number, chunks)

    monkeypatch.setattr(gateway, "_push", stopped_meanwhile)
    with pytest.raises(NotRunningError):
        gateway.accept("x", Decoded(body))
    assert count("samples_received_total") == 2
    assert (count("written_total"), count("dropped_total", reason="stopping")) == (1, 1)
