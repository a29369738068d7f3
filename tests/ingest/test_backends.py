"""What becomes of batches: backends that are away, slow or picky, the end of a worker, and the disk."""

from __future__ import annotations

import threading
import time

import pytest
from tests.ingest.test_gateway import Hang, fail, received

from tocsin.ingest.relabel import RelabelRule
from tocsin.plugin import Decoded, WriteError, WriteResult

A, B = "http://a", "http://b"


def test_a_dead_backend_delays_no_other(make_gateway, make_writer, body, count):
    """While one backend hangs and another fails, the third gets everything, and admission stays open."""
    healthy, hanging, failing = make_writer(A), make_writer(B), make_writer("http://c")
    hanging.behave = hang = Hang()
    failing.behave = fail
    gateway = make_gateway(
        healthy, hanging, failing, queue_max_size=10_000, queue_water_mark=0.01, size_interval=1, queue_pop_size=100
    )
    for round_ in range(1, 31):
        assert gateway.over_limit() == 0
        gateway.accept("x", Decoded(body(100)))
        healthy.wait(100 * round_)
    gateway.show()
    assert count("writer_pending", url=B) == count("writer_pending", url="http://c") == 3000
    assert count("push_queue_error_total") == 0
    hang.go.set()
    failing.behave = lambda batch: None
    assert gateway.stop(10) == 0
    assert [one.series for one in (healthy, hanging, failing)] == [3000, 3000, 3000]


def test_dead_backend_loses_its_own_oldest(make_gateway, make_writer, body, count):
    healthy, hanging = make_writer(A), make_writer(B)
    hanging.behave = hang = Hang()
    gateway = make_gateway(healthy, hanging, queue_number=1, queue_max_size=50, queue_pop_size=10)
    for round_ in range(1, 21):
        gateway.accept("x", Decoded(body(10)))
        healthy.wait(10 * round_)
    hang.go.set()
    gateway.stop(10)
    lost = count("writer_dropped_total", url=B, reason="backlog_full")
    assert lost >= 130
    assert hanging.series + lost == healthy.series == 200


def test_retries_until_it_works(make_gateway, writer, body, count):
    attempts = []

    def third_time(batch):
        attempts.append(batch)
        if len(attempts) < 3:
            raise WriteError("HTTP 503", status=503)

    writer.behave = third_time
    gateway = make_gateway(writer)
    gateway.accept("x", Decoded(body(7)))
    writer.wait(7)
    gateway.stop(10)
    assert attempts[0] == attempts[2]
    assert (count("write_total"), count("write_error_total"), count("written_total")) == (7, 14, 7)
    assert count("forward_duration_seconds_count") == 1


def test_retries_end(make_gateway, writer, body, count, caplog):
    writer.behave = fail
    gateway = make_gateway(writer, outlet={writer.url: {"retry_count": 4}})
    gateway.accept("x", Decoded(body(2)))
    assert gateway.stop(10) == 0
    assert count("write_error_total") == 8
    assert count("writer_dropped_total", reason="retries_exhausted") == 2
    assert "no answer" in caplog.text


def test_retry_after_is_honoured(make_gateway, writer, body):
    waits: list[float] = []

    def busy(batch):
        if not waits:
            waits.append(1)
            raise WriteError("HTTP 429", retry_after=0.05, status=429)

    writer.behave = busy
    gateway = make_gateway(writer)
    pauses = []
    [outlet] = gateway.outlets
    wait = outlet._given_up.wait

    def observed(seconds):
        pauses.append(seconds)
        return wait(seconds)

    outlet._given_up.wait = observed
    gateway.accept("x", Decoded(body(1)))
    writer.wait(1)
    assert pauses == [0.05]


def test_refusal_is_success_and_counted(make_gateway, writer, body, count):
    writer.behave = lambda batch: WriteResult(refused_with=404, detail="no receiver")
    gateway = make_gateway(writer)
    gateway.accept("x", Decoded(body(3)))
    gateway.stop(10)
    assert (count("write_total"), count("write_error_total"), count("written_total")) == (3, 0, 0)
    assert count("write_rejected_total", url=writer.url, code="404") == 3


def test_writer_that_breaks_its_contract(make_gateway, writer, body, count):
    def broken(batch):
        raise ZeroDivisionError

    writer.behave = broken
    gateway = make_gateway(writer, outlet={writer.url: {"retry_count": 2}})
    gateway.accept("x", Decoded(body(3)))
    gateway.stop(10)
    assert count("write_error_total") == 6
    assert count("writer_dropped_total", reason="retries_exhausted") == 3


def test_relabelling_affects_its_own_backend(make_gateway, make_writer, body, count):
    one, two = make_writer(A), make_writer(B)
    rules = [RelabelRule(action="drop", source_labels=("n",), regex="[12]"), RelabelRule(action="labeldrop", regex="x")]
    gateway = make_gateway(one, two, outlet={A: {"relabel": rules}})
    gateway.accept("x", Decoded(body(4, x="y")))
    gateway.stop(10)
    assert [dict(series.labels) for series in received(one)] == [{"__name__": "m", "n": n} for n in "03"]
    assert two.series == 4
    assert count("writer_dropped_total", url=A, reason="relabel") == 2
    assert count("label_cache_total", cache=f"relabel {A}", outcome="miss") == 4


def test_async_writer_drops_when_busy(make_gateway, writer, body, count):
    writer.behave = hang = Hang()
    gateway = make_gateway(writer, outlet={writer.url: {"critical": False}}, queue_number=1, queue_pop_size=1)
    gateway.accept("x", Decoded(body(40)))
    lost = lambda: count("writer_dropped_total", reason="async_busy")  # noqa: E731
    until(lambda: lost() == 24)
    assert count("write_error_total") == 24
    hang.go.set()
    gateway.stop(10)
    assert writer.series + lost() == 40


def test_what_a_busy_async_writer_leaves_on_disk_is_relabelled(make_gateway, writer, body, count, tmp_path):
    writer.behave = hang = Hang()
    relabel = [
        RelabelRule(action="drop", source_labels=("n",), regex="[0-9]"),
        RelabelRule(target_label="zone", replacement="a"),
    ]
    options = {"critical": False, "spool_directory": tmp_path, "relabel": relabel, "retry_interval": 0.01}
    gateway = make_gateway(writer, outlet={writer.url: options}, queue_number=1, queue_pop_size=1)
    gateway.accept("x", Decoded(body(50)))
    until(lambda: count("write_total") == 40)
    hang.go.set()
    writer.wait(40)
    assert gateway.stop(10) == 0
    assert sorted(int(dict(series.labels)["n"]) for series in received(writer)) == list(range(10, 50))
    assert {dict(series.labels)["zone"] for series in received(writer)} == {"a"}
    assert (count("written_total"), count("writer_dropped_total", reason="relabel")) == (40, 10)


def test_async_writer_tries_three_times(make_gateway, writer, body, count):
    writer.behave = fail
    gateway = make_gateway(writer, outlet={writer.url: {"critical": False}})
    gateway.accept("x", Decoded(body(5)))
    gateway.stop(10)
    assert count("write_error_total") == 15
    assert count("writer_dropped_total", reason="retries_exhausted") == 5


def until(check, seconds=10):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_metadata_goes_to_backends_that_want_it(make_gateway, make_writer, pb, make_series, make_body, count):
    one, two = make_writer(A), make_writer(B)
    one.metadata = True
    message = pb.Metadata(type=1, metric_family_name="x", help="h")
    request = make_body(make_series(a="1"), metadata=[message])
    gateway = make_gateway(one, two)
    gateway.accept("x", Decoded(request, metadata=[message.SerializeToString()]))
    gateway.stop(10)
    assert pb.WriteRequest.FromString(one.batches[-1].body).metadata == [message, message]
    assert one.batches[-1].series == 0
    assert len(two.batches) == 1
    assert count("metadata_dropped_total") == 0


def test_metadata_that_a_backend_does_not_take_is_counted(make_gateway, writer, pb, make_series, make_body, count):
    def refuse_metadata(batch):
        if not batch.series:
            raise WriteError("down")

    writer.metadata, writer.behave = True, refuse_metadata
    gateway = make_gateway(writer)
    request = make_body(make_series(a="1"), metadata=[pb.Metadata(metric_family_name="x")] * 3)
    gateway.accept("x", Decoded(request))
    gateway.stop(10)
    assert count("metadata_dropped_total") == 3
    assert writer.series == 1


def test_unwanted_metadata_is_counted(make_gateway, writer, pb, make_body, count):
    make_gateway(writer).accept("x", Decoded(make_body(metadata=[pb.Metadata(metric_family_name="x")] * 3)))
    assert count("metadata_dropped_total") == 3


# --- the end --------------------------------------------------------------------------------------------------------


def test_stop_drains(make_gateway, make_writer, body):
    slow = make_writer(A)
    slow.behave = lambda batch: threading.Event().wait(0.002) and None
    gateway = make_gateway(slow, queue_pop_size=10)
    for _ in range(20):
        gateway.accept("x", Decoded(body(50)))
    assert gateway.stop(20) == 0
    assert slow.series == 1000
    assert slow.closed


def test_stop_gives_up_at_the_deadline(make_gateway, make_writer, body, count):
    healthy, dead = make_writer(A), make_writer(B)
    dead.behave = fail
    gateway = make_gateway(healthy, dead, queue_number=1, queue_pop_size=10)
    gateway.accept("x", Decoded(body(50)))
    healthy.wait(50)
    assert gateway.stop(0.05) == 50
    assert count("writer_dropped_total", url=B, reason="shutdown") == 50


def test_stop_with_a_hanging_backend(make_gateway, writer, body, monkeypatch):
    monkeypatch.setattr("tocsin.ingest.gateway.JOIN_SECONDS", 0.05)
    writer.behave = hang = Hang()
    gateway = make_gateway(writer, queue_number=1, queue_pop_size=10)
    gateway.accept("x", Decoded(body(10)))
    until(lambda: gateway.outlets[0].in_flight == 10)
    assert gateway.stop(0.05) == 10
    hang.go.set()


@pytest.mark.parametrize("answer", [WriteResult(), WriteResult(400), WriteError("late")])
@pytest.mark.parametrize("spool", [True, False])
def test_an_answer_after_the_end_changes_nothing(
    make_gateway, writer, body, count, tmp_path, monkeypatch, answer, spool
):
    """A batch that was put away because its backend owed an answer is not counted, or stored, a second time."""
    monkeypatch.setattr("tocsin.ingest.gateway.JOIN_SECONDS", 0.05)
    go = threading.Event()

    def late(batch):
        go.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    writer.behave = late
    gateway = make_gateway(
        writer, outlet={writer.url: {"spool_directory": tmp_path if spool else None}}, queue_number=1, queue_pop_size=10
    )
    gateway.accept("x", Decoded(body(10)))
    until(lambda: gateway.outlets[0].in_flight == 10)
    assert gateway.stop(0.05) == (0 if spool else 10)
    go.set()
    for consumer in gateway._consumers:
        consumer.join()
    fates = [count(name, url=writer.url) for name in ("written_total", "write_rejected_total", "writer_dropped_total")]
    assert sum(fates) == (0 if spool else 10)
    assert count("spooled_total", url=writer.url) == (10 if spool else 0)
    assert len(list(tmp_path.rglob("*.seg"))) == (1 if spool else 0)


def test_everything_is_put_away_before_anything_is_closed(
    make_gateway, make_writer, body, count, tmp_path, monkeypatch
):
    """Closing takes time, and whoever stops the process may not wait for it; on disk the oldest batch comes first."""
    monkeypatch.setattr("tocsin.ingest.gateway.JOIN_SECONDS", 0.05)
    hang, stored = Hang(), []
    writers = [make_writer(A), make_writer(B)]
    for writer in writers:
        writer.behave = hang
        writer.close = lambda: stored.append([count("spooled_total", url=url) for url in (A, B)])
    options = {"spool_directory": tmp_path, "retry_interval": 0.01}
    gateway = make_gateway(*writers, outlet={A: options, B: options}, queue_number=1, queue_pop_size=10)
    for number in range(3):
        gateway.accept("x", Decoded(body(10, request=str(number))))
    until(lambda: all(outlet.in_flight == 10 for outlet in gateway.outlets))
    assert gateway.stop(0.05) == 0
    hang.go.set()
    assert stored == [[30, 30], [30, 30]]
    again = make_writer(A)
    gateway = make_gateway(again, outlet={A: options})
    again.wait(30)
    assert gateway.stop(10) == 0
    assert [dict(series.labels)["request"] for series in received(again)[::10]] == ["0", "1", "2"]


# --- the spool ------------------------------------------------------------------------------------------------------


def test_spool_keeps_what_cannot_be_written(make_gateway, writer, body, count, tmp_path):
    writer.behave = fail
    options = {writer.url: {"spool_directory": tmp_path}}
    gateway = make_gateway(writer, outlet=options, queue_number=1, queue_pop_size=10)
    for _ in range(5):
        gateway.accept("x", Decoded(body(10)))
    assert gateway.stop(10) == 0
    assert not writer.batches
    assert count("spool_series", url=writer.url) == 50
    assert count("spool_bytes", url=writer.url) > 0
    assert count("write_total") == 50

    again = type(writer)(writer.url)
    gateway = make_gateway(again, outlet=options)
    again.wait(50)
    gateway.accept("x", Decoded(body(1)))
    again.wait(51)
    assert gateway.stop(10) == 0
    assert [dict(s.labels)["n"] for s in received(again)] == [str(n) for n in range(10)] * 5 + ["0"]
    assert count("spool_series", url=writer.url) == 0
    assert count("written_total") == 51


def test_spool_is_replayed_when_the_backend_returns(make_gateway, writer, body, count, tmp_path):
    writer.behave = fail
    gateway = make_gateway(writer, outlet={writer.url: {"spool_directory": tmp_path}}, queue_number=1)
    gateway.accept("x", Decoded(body(3)))
    gateway.accept("x", Decoded(body(4)))
    until(lambda: gateway.outlets[0]._spool.stored().series == 7)
    writer.behave = lambda batch: None
    writer.wait(7)
    assert gateway.stop(10) == 0
    assert (count("written_total"), count("writer_dropped_total")) == (7, 0)


def test_batches_of_a_worker_that_ended_are_written_by_those_that_live(
    make_gateway, make_writer, body, tmp_path, monkeypatch
):
    """As after a change of the configuration: the new workers start before the old ones have put away what they held."""
    monkeypatch.setattr("tocsin.ingest.outlet.ADOPT_SECONDS", 0)
    old, new = make_writer(A), make_writer(A)
    old.behave = fail
    options = {A: {"spool_directory": tmp_path, "retry_interval": 0.01}}
    ending = make_gateway(old, outlet=options, queue_number=1)
    living = make_gateway(new, outlet=options)
    ending.accept("x", Decoded(body(3)))
    assert ending.stop(10) == 0
    new.wait(3)
    assert living.stop(10) == 0


def test_unusable_spool_is_named_and_batches_are_retried(make_gateway, writer, body, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    gateway = make_gateway(writer, outlet={writer.url: {"spool_directory": tmp_path / "file"}})
    assert "SpoolDir" in caplog.text
    gateway.accept("x", Decoded(body(3)))
    gateway.stop(10)
    assert writer.series == 3
