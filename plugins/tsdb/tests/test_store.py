"""What the store takes, what it refuses, and what it finds again."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin_tsdb.promql.interface import STALE_NAN_BITS, Matcher, TooManySamples
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.errors import CommitFailed, MalformedWrite, StoreUnusable
from tocsin_tsdb.storage.options import HOUR, MINUTE

MakeBox = Callable[..., Any]


def test_samples_come_back_after_a_restart_without_a_close(make_box: MakeBox, now: int, tmp_path: Path) -> None:
    box = make_box()
    assert box.write(up=[(now, 1.0), (now + 1000, 0.0)]).stored == 2
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "tsdb", copy)  # the state that kill -9 would leave
    assert make_box(copy).read() == {"up": [(now, 1.0), (now + 1000, 0.0)]}


def test_same_sample_again_is_fine_another_value_is_a_conflict(make_box: MakeBox, now: int) -> None:
    box = make_box()
    box.write(up=[(now, 1.0)])
    outcome = box.write(up=[(now, 1.0), (now, 2.0)])
    assert (outcome.stored, outcome.duplicates, outcome.conflicts) == (0, 1, 1)
    assert box.read() == {"up": [(now, 1.0)]}
    assert box.metric("svc_tsdb_conflicting_samples_total") == 1
    assert box.metric("svc_tsdb_duplicate_samples_total") == 1


def test_late_samples_within_the_window_are_taken_older_ones_refused(make_box: MakeBox, now: int) -> None:
    box = make_box(out_of_order_window=10 * MINUTE)
    box.write(a=[(now, 1.0)])
    outcome = box.write(a=[(now - 10 * MINUTE, 2.0), (now - 10 * MINUTE - 1, 3.0), (now - 5 * MINUTE, 4.0)])
    assert (outcome.stored, outcome.late, outcome.too_old) == (2, 2, 1)
    assert box.read() == {"a": [(now - 10 * MINUTE, 2.0), (now - 5 * MINUTE, 4.0), (now, 1.0)]}
    assert box.metric("prometheus_tsdb_too_old_samples_total", type="float") == 1
    assert box.metric("prometheus_tsdb_head_out_of_order_samples_appended_total") == 2


def test_samples_in_order_for_their_series_may_be_an_hour_behind(make_box: MakeBox, now: int) -> None:
    box = make_box(out_of_order_window=10 * MINUTE)
    box.write(a=[(now, 1.0)])
    outcome = box.write(b=[(now - HOUR, 1.0), (now - HOUR + 1, 2.0)], c=[(now - HOUR - 1, 1.0)])
    assert (outcome.stored, outcome.too_old) == (2, 1)


def test_without_a_window_late_samples_count_as_out_of_order(make_box: MakeBox, now: int) -> None:
    box = make_box(out_of_order_window=0)
    box.write(a=[(now, 1.0)])
    assert box.write(a=[(now - 1, 1.0)]).too_old == 1
    assert box.metric("prometheus_tsdb_out_of_order_samples_total", type="float") == 1


def test_samples_from_the_future_cannot_lock_out_the_present(make_box: MakeBox, now: int) -> None:
    box = make_box()
    outcome = box.write(a=[(now + 10 * MINUTE + 1, 1.0), (1 << 62, 2.0), (-(1 << 63), 3.0)], b=[(now, 1.0)])
    assert (outcome.stored, outcome.out_of_bounds) == (1, 3)
    assert box.metric("prometheus_tsdb_out_of_bound_samples_total", type="float") == 3
    assert box.write(b=[(now + 1, 1.0)]).stored == 1


def test_a_clock_that_jumps_back_refuses_only_until_it_catches_up(make_box: MakeBox, now: int, clock: Any) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    clock.ms = now - 2 * HOUR
    assert box.write(a=[(clock.ms, 1.0)]).too_old == 1
    clock.ms = now + 1000
    assert box.write(a=[(clock.ms, 2.0)]).stored == 1


def test_staleness_markers_and_odd_numbers_keep_their_bits(make_box: MakeBox, now: int) -> None:
    bits = [STALE_NAN_BITS, 0x7FF8000000000001, 0x8000000000000000, 0x7FF0000000000000, 1]
    values = np.array(bits, np.uint64).view(np.float64)
    key = wire.encode_labels([("__name__", "x")])
    body = wire.encode_series(key, np.arange(now, now + len(bits)), values)
    box = make_box()
    box.store.write(body)
    for _ in range(2):
        found = box.store.select([], now, now + 100, max_samples=100)
        assert found.values.view(np.uint64).tolist() == bits
        box.maintenance.flush()
    box.close()
    reopened = make_box()
    found = reopened.store.select([], now, now + 100, max_samples=100)
    assert found.values.view(np.uint64).tolist() == bits


def test_unusable_labels_cost_their_series_not_the_request(make_box: MakeBox, now: int, encode: Any) -> None:
    box = make_box()
    bad_text = wire._field(
        1, wire._field(1, wire._field(1, b"\xff\xfe") + wire._field(2, b"x")) + wire._field(2, b"\x10\x05")
    )
    body = encode(
        {
            (): [(now, 1.0)],
            (("a", ""),): [(now, 1.0)],
            (("", "x"), ("b", "c")): [(now, 1.0)],
            (("a", "1"), ("a", "2")): [(now, 1.0), (now + 1, 1.0)],
            (("__name__", "good"), ("empty", "")): [(now, 1.0)],
        }
    )
    outcome = box.store.write(body + bad_text)
    assert (outcome.stored, outcome.invalid) == (1, 6)
    assert box.store.series([], -HOUR, now + HOUR) == [(("__name__", "good"),)]
    assert box.metric("svc_tsdb_invalid_samples_total") == 6


def test_label_order_does_not_make_another_series(make_box: MakeBox, now: int, encode: Any) -> None:
    box = make_box()
    box.store.write(encode({(("__name__", "x"), ("a", "1")): [(now, 1.0)]}))
    box.store.write(encode({(("a", "1"), ("__name__", "x")): [(now + 1, 2.0)]}))
    assert len(box.store.index) == 1
    assert box.read() == {"x": [(now, 1.0), (now + 1, 2.0)]}


@pytest.mark.parametrize("body", [b"\x0a", b"\x0a\x05abc", b"\xff" * 20])
def test_a_malformed_request_stores_nothing(make_box: MakeBox, now: int, encode: Any, body: bytes) -> None:
    box = make_box()
    with pytest.raises(MalformedWrite):
        box.store.write(encode({(("__name__", "x"),): [(now, 1.0)]}) + body)
    assert box.read() == {}


def test_samples_of_many_series_are_found_by_any_matcher(make_box: MakeBox, now: int, encode: Any) -> None:
    box = make_box()
    rows = [
        {"__name__": "cpu", "job": "api", "host": "a"},
        {"__name__": "cpu", "job": "db", "host": "b"},
        {"__name__": "mem", "job": "api"},
        {"__name__": "mem", "job": "db", "host": "c\nd"},
    ]
    box.store.write(encode({tuple(sorted(row.items())): [(now, float(i))] for i, row in enumerate(rows)}))

    def found(*matchers: tuple[str, str, str]) -> list[int]:
        selection = box.store.select([Matcher(*each) for each in matchers], now, now, max_samples=99)  # type: ignore[arg-type]
        return sorted(int(value) for value in selection.values)

    assert found(("__name__", "=", "cpu")) == [0, 1]
    assert found(("__name__", "=", "cpu"), ("job", "!=", "api")) == [1]
    assert found(("host", "=", "")) == [2]
    assert found(("host", "!=", "")) == [0, 1, 3]
    assert found(("host", "=~", "a|b")) == [0, 1]
    assert found(("host", "=~", "c.d")) == [3]
    assert found(("host", "!~", "a|b")) == [2, 3]
    assert found(("host", "=~", "|a")) == [0, 2]
    assert found(("none", "=", "")) == [0, 1, 2, 3]
    assert found(("none", "=", "x")) == []
    assert found(("job", "=~", ".+"), ("__name__", "!~", "c.*")) == [2, 3]
    assert found() == [0, 1, 2, 3]


def test_names_and_values_with_and_without_selectors_and_time(make_box: MakeBox, now: int, encode: Any) -> None:
    box = make_box()
    box.store.write(encode({(("__name__", "old"), ("era", "1")): [(now - HOUR, 1.0)]}))
    box.maintenance.flush()
    box.store.write(encode({(("__name__", "new"), ("age", "2")): [(now, 1.0)]}))
    store, everything = box.store, (-(1 << 60), 1 << 60)
    assert store.label_names([], *everything) == ["__name__", "age", "era"]
    assert store.label_names([], now - MINUTE, now) == ["__name__", "age"]
    assert store.label_names([[Matcher("era", "=", "1")]], *everything) == ["__name__", "era"]
    assert store.label_values("__name__", [], *everything) == ["new", "old"]
    assert store.label_values("__name__", [], 0, now - MINUTE) == ["old"]
    assert store.label_values("__name__", [[Matcher("age", "=", "2")]], *everything) == ["new"]
    assert store.label_values("none", [], *everything) == []


def test_too_many_samples_are_refused(make_box: MakeBox, now: int) -> None:
    box = make_box()
    box.write(a=[(now + i, float(i)) for i in range(100)], b=[(now + i, float(i)) for i in range(100)])
    for _ in range(2):
        assert len(box.store.select([], now, now + 100, max_samples=200).values) == 200
        with pytest.raises(TooManySamples):
            box.store.select([], now, now + 100, max_samples=199)
        box.maintenance.flush()


def test_disk_full_refuses_writes_serves_reads_and_recovers(make_box: MakeBox, now: int, monkeypatch: Any) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    real = os.write

    def full(fd: int, data: Any) -> int:
        real(fd, bytes(data)[:10])  # some of it still fits
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(CommitFailed, match="No space left on device"):
        box.write(a=[(now + 1, 2.0)], b=[(now, 5.0)])
    assert box.read() == {"a": [(now, 1.0)]}
    assert box.metric("svc_tsdb_commit_failures_total") == 1
    monkeypatch.undo()
    assert box.write(a=[(now + 1, 3.0)]).stored == 1  # the failed write left nothing behind, its time is still free
    box.close()
    assert make_box().read() == {"a": [(now, 1.0), (now + 1, 3.0)]}


def test_a_second_process_cannot_open_the_directory(make_box: MakeBox, tmp_path: Path) -> None:
    box = make_box()
    with pytest.raises(StoreUnusable, match="locked by another process"):
        make_box()
    box.close()
    make_box()


def test_a_directory_that_cannot_be_written_is_named(make_box: MakeBox, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable, match="file"):
        make_box(tmp_path / "file" / "tsdb")


def test_metadata_is_kept_over_a_restart(make_box: MakeBox, now: int) -> None:
    described = wire.Metadata("http_requests_total", "counter", "Requests.", "")
    box = make_box()
    box.store.write(wire.encode_metadata(described))
    box.close()
    assert make_box().store.families() == {"http_requests_total": [described]}


points = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(-700, 300), st.integers(0, 3), st.sampled_from(["", "flush", "round"])
    ),
    max_size=25,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(points)
def test_the_store_agrees_with_a_dictionary(make_box: MakeBox, now: int, tmp_path_factory: Any, steps: Any) -> None:
    box = make_box(tmp_path_factory.mktemp("model"), tail_samples=4, memtable_samples=9)
    model: dict[str, dict[int, float]] = {}
    for name, seconds, value, action in steps:
        time = now + seconds * 1000
        outcome = box.write(**{name: [(time, float(value))]})
        if outcome.stored:
            model.setdefault(name, {}).setdefault(time, float(value))  # what came first stays
        if action:
            getattr(box.maintenance, action)()
    assert box.read() == {name: sorted(samples.items()) for name, samples in model.items()}
    box.maintenance.flush()
    box.maintenance.round()
    assert box.read() == {name: sorted(samples.items()) for name, samples in model.items()}
    box.close()
