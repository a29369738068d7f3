"""The gateway as a whole, without HTTP: every entry is accounted for, and no backend delays another."""

from __future__ import annotations

import logging
import threading

import pytest

from tocsin.ingest.decode import decode_chunk
from tocsin.ingest.gateway import NotRunningError
from tocsin.ingest.hosts import NoHosts, Target
from tocsin.ingest.interface import WireError
from tocsin.plugin import Decoded, WriteError
from tocsin.plugin.testkit.components import PATIENCE

A, B = "http://a", "http://b"


def received(writer):
    return [series for batch in writer.batches for series in decode_chunk(batch.body)]


def fail(batch):
    raise WriteError("no answer")


class Hang:
    """A backend that answers nobody until it is let go."""

    def __init__(self):
        self.go = threading.Event()

    def __call__(self, batch):
        self.go.wait(PATIENCE)


def test_from_request_to_backend(make_gateway, writer, body, count):
    gateway = make_gateway(writer)
    assert gateway.accept("prometheus", Decoded(body(5, agent_hostname="web01"))) == 5
    writer.wait(5)
    first = received(writer)[0]
    assert dict(first.labels) == {"__name__": "m", "n": "0", "ident": "web01"}
    assert first.samples == [(1_760_000_000_000, 1.0)]
    assert gateway.stop(10) == 0
    assert count("samples_received_total", channel="prometheus") == 5
    assert count("sample_received_by_ident", host_ident="web01") == 5
    assert count("written_total", url=writer.url) == count("write_total", url=writer.url) == 5
    assert count("sample_queue_size") == count("writer_pending") == 0


def test_payload_timestamps_can_be_kept(make_gateway, writer, body):
    gateway = make_gateway(writer, force_server_time=False)
    gateway.accept("x", Decoded(body(1)))
    writer.wait(1)
    assert received(writer)[0].samples == [(1000, 1.0)]


def test_malformed_request_leaves_nothing(make_gateway, writer, body, count):
    gateway = make_gateway(writer)
    with pytest.raises(WireError):
        gateway.accept("x", Decoded(body(3) + b"\x0a\x7f"))
    gateway.stop(10)
    assert not writer.batches
    assert count("samples_received_total") == 0


def test_drops_are_counted_by_reason(make_gateway, writer, make_series, make_body, count):
    gateway = make_gateway(writer, drop_sample=[{"__name__": "noise"}])
    series = [make_series(__name__="noise"), make_series(pairs=[(b"a", b"1"), (b"a", b"2")]), make_series(__name__="x")]
    assert gateway.accept("x", Decoded(make_body(*series))) == 3
    gateway.stop(10)
    assert [dict(one.labels) for one in received(writer)] == [{"__name__": "x"}]
    assert count("drop_sample_total") == 1
    assert count("dropped_total", reason="drop_rule") == 1
    assert count("dropped_total", reason="duplicate_label") == 1


def test_ident_metrics_are_bounded(make_gateway, writer, make_series, make_body, count):
    gateway = make_gateway(writer, max_idents=2)
    for _ in range(2):
        gateway.accept("x", Decoded(make_body(*(make_series(ident=str(n)) for n in range(5)))))
    gateway.show()
    assert count("sample_received_by_ident") == count("sample_received_by_ident", host_ident="0") * 2 == 4
    assert count("sample_idents_not_counted_total") == 6
    gateway.show()
    assert count("sample_received_by_ident") == 4


def test_debug_samples_are_logged(make_gateway, writer, body, caplog):
    gateway = make_gateway(writer, debug_sample={"n": "1"})
    with caplog.at_level(logging.DEBUG, "tocsin.ingest.gateway"):
        gateway.accept("x", Decoded(body(3)), "10.0.0.1")
    [record] = [r for r in caplog.records if r.name == "tocsin.ingest.gateway" and r.levelno == logging.DEBUG]
    assert record.getMessage() == 'sample from 10.0.0.1: {__name__="m",n="1"} 1@1760000000000'


class Hosts(NoHosts):
    """Hosts whose labels change under the gateway's feet."""

    def __init__(self):
        self.version, self.changed, self.tags, self.seen = 1, (), {}, []

    def changes(self, since):
        return self.version, self.changed

    def lookup(self, ident):
        return Target(self.tags[ident]) if ident in self.tags else None

    def announce(self, idents):
        self.seen += idents


@pytest.mark.parametrize("changed", [("web01",), None])
def test_changed_tags_show_on_the_next_request(make_gateway, writer, body, changed):
    hosts = Hosts()
    gateway = make_gateway(writer, hosts=hosts)
    for tags in ({}, {"web01": {b"dc": b"fra"}}, {"web01": {b"dc": b"ams"}}):
        hosts.tags, hosts.changed = tags, changed
        hosts.version += 1
        gateway.accept("x", Decoded(body(1, ident="web01")))
    gateway.stop(10)
    assert sorted(dict(one.labels).get("dc", "") for one in received(writer)) == ["", "ams", "fra"]


def test_hosts_are_announced_only_when_asked_for(make_gateway, writer, body):
    hosts = Hosts()
    make_gateway(writer, hosts=hosts).accept("x", Decoded(body(1, ident="a")))
    assert not hosts.seen
    gateway = make_gateway(writer, hosts=hosts, heartbeat_from_metric=True)
    gateway.accept("x", Decoded(body(2, ident="a")))
    gateway.accept("x", Decoded(body(1, ident="b"), register_hosts=False))
    assert hosts.seen == ["a"]


def test_host_label_only_where_the_request_allows_it(make_gateway, writer, body):
    gateway = make_gateway(writer)
    gateway.accept("x", Decoded(body(1, host="h")))
    gateway.accept("x", Decoded(body(1, host="h"), host_label=True))
    gateway.stop(10)
    assert sorted(dict(one.labels).get("ident", "") for one in received(writer)) == ["", "h"]


def test_series_without_a_host(make_gateway, writer, body, count):
    """They keep their labels, get none of a host's, and count for nobody, in the same request as others."""
    hosts = Hosts()
    hosts.tags = {"web01": {b"dc": b"fra"}}
    gateway = make_gateway(writer, hosts=hosts, heartbeat_from_metric=True)
    decoded = Decoded(body(1, ident="web01"), hostless=body(2, ident="web01", hostname="web02"))
    assert gateway.accept("x", decoded) == 3
    gateway.stop(10)
    first, *others = sorted(received(writer), key=lambda one: dict(one.labels).get("hostname", ""))
    assert dict(first.labels) == {"__name__": "m", "dc": "fra", "ident": "web01", "n": "0"}
    for n, series in enumerate(others):
        assert dict(series.labels) == {"__name__": "m", "ident": "web01", "hostname": "web02", "n": str(n)}
    assert count("sample_received_by_ident") == 1
    assert count("samples_received_total") == 3
    assert hosts.seen == ["web01"]


def test_a_malformed_half_refuses_the_whole(make_gateway, writer, body, count):
    gateway = make_gateway(writer)
    with pytest.raises(WireError):
        gateway.accept("x", Decoded(body(1), hostless=body(1) + b"\x0a\x05"))
    gateway.stop(10)
    assert (writer.series, count("samples_received_total")) == (0, 0)


def test_round_robin_over_queues(make_gateway, writer, body, count):
    hang = Hang()
    writer.behave = hang
    gateway = make_gateway(writer, queue_number=3, queue_pop_size=1)
    for _ in range(6):
        gateway.accept("x", Decoded(body(10)))
    gateway.show()
    # One entry of each queue is on its way; the others wait.
    assert [count("sample_queue_size", queueid=str(n)) + 1 for n in range(3)] == pytest.approx([20, 20, 20], abs=1)
    assert count("queue_consumers") == 3
    hang.go.set()
    assert gateway.stop(10) == 0
    assert writer.series == 60


def test_full_queue_drops_and_says_so_once(make_gateway, writer, body, count, caplog):
    hang = Hang()
    writer.behave = hang
    gateway = make_gateway(writer, queue_number=1, queue_max_size=10, queue_pop_size=5)
    for _ in range(4):
        assert gateway.accept("x", Decoded(body(8))) == 8
    hang.go.set()
    gateway.stop(10)
    assert writer.series + count("push_queue_error_total", queueid="0") == 32
    assert count("dropped_total", reason="queue_full") == count("push_queue_error_total") > 0
    [line] = [r.getMessage() for r in caplog.records if "is full" in r.getMessage()]
    assert 'n="' in line


def test_water_mark(make_gateway, writer, body, count):
    writer.behave = hang = Hang()
    now = [0.0]
    gateway = make_gateway(writer, queue_max_size=100, queue_water_mark=0.05, queue_pop_size=1)
    gateway._monotonic = lambda: now[0]
    assert gateway.ceiling == 10
    assert gateway.over_limit() == 0
    gateway.accept("x", Decoded(body(20)))
    assert gateway.over_limit() == 0  # the length is looked at now and then only
    now[0] += 0.2
    assert gateway.over_limit() > 10
    assert count("push_queue_over_limit_error_total") == 1
    hang.go.set()


def test_no_writer(make_gateway, body, count):
    gateway = make_gateway()
    assert gateway.accept("x", Decoded(body(4))) == 4
    assert count("writer_dropped_total", reason="no_writer") == 4


def test_not_running(make_gateway, writer, body):
    with pytest.raises(NotRunningError):
        make_gateway(writer, start=False).accept("x", Decoded(body(1)))


# --- backends -------------------------------------------------------------------------------------------------------
