"""Torn logs and blocks, merges and retention, readers in the middle of it, processes that are killed."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin.plugin.testkit.components import PATIENCE
from tocsin_tsdb.promql.interface import Matcher
from tocsin_tsdb.storage.errors import CommitFailed
from tocsin_tsdb.storage.options import DAY, HOUR, MINUTE

MakeBox = Callable[..., Any]


def segment(tmp_path: Path) -> Path:
    """The only log segment that holds samples."""
    return max((tmp_path / "tsdb" / "wal").glob("*.wal"), key=lambda path: path.stat().st_size)


def killed(box: Any, tmp_path: Path) -> Path:
    """Copy the data directory as kill -9 would leave it."""
    target = tmp_path / f"killed-{random.randrange(1 << 60)}"
    shutil.copytree(tmp_path / "tsdb", target)
    return target


@pytest.mark.parametrize("lost", [1, 7, 20, 61])
def test_a_log_cut_off_keeps_what_came_before(make_box: MakeBox, now: int, tmp_path: Path, lost: int) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    whole = segment(tmp_path).stat().st_size
    box.write(a=[(now + 1, 2.0)], b=[(now, 3.0)])
    directory = killed(box, tmp_path)
    path = next((directory / "wal").glob("*1.wal"))
    data = path.read_bytes()
    assert len(data) - whole > 61
    path.write_bytes(data[:-lost])
    after = make_box(directory)
    assert after.read() == {"a": [(now, 1.0)]}
    assert after.metric("prometheus_tsdb_wal_corruptions_total") == 1
    assert list((directory / "wal").glob("*.torn-*"))
    assert after.write(a=[(now + 1, 2.0)]).stored == 1
    after.close()
    again = make_box(directory)
    assert again.read() == {"a": [(now, 1.0), (now + 1, 2.0)]}
    assert again.metric("prometheus_tsdb_wal_corruptions_total") == 0


def test_an_altered_record_is_set_aside_and_the_rest_serves(make_box: MakeBox, now: int, tmp_path: Path) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    start = segment(tmp_path).stat().st_size
    box.write(a=[(now + 1, 2.0)])
    box.write(a=[(now + 2, 3.0)])
    directory = killed(box, tmp_path)
    path = next((directory / "wal").glob("*1.wal"))
    data = bytearray(path.read_bytes())
    data[start + 30] ^= 1
    path.write_bytes(data)
    after = make_box(directory)
    assert after.read() == {"a": [(now, 1.0), (now + 2, 3.0)]}
    assert after.metric("prometheus_tsdb_wal_corruptions_total") == 1


def test_a_record_with_labels_that_is_lost_takes_only_its_samples(make_box: MakeBox, now: int, tmp_path: Path) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    start = segment(tmp_path).stat().st_size
    box.write(b=[(now + 1, 2.0)])
    box.write(a=[(now + 2, 3.0)], b=[(now + 2, 4.0)])
    directory = killed(box, tmp_path)
    path = next((directory / "wal").glob("*1.wal"))
    data = bytearray(path.read_bytes())
    data[start + 12] ^= 1
    path.write_bytes(data)
    assert make_box(directory).read() == {"a": [(now, 1.0), (now + 2, 3.0)]}


def test_a_segment_that_is_no_segment_is_set_aside(make_box: MakeBox, now: int, tmp_path: Path) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    box.close()
    (tmp_path / "tsdb" / "wal" / "00000099.wal").write_bytes(b"garbage")
    after = make_box()
    assert after.read() == {"a": [(now, 1.0)]}
    assert after.metric("prometheus_tsdb_wal_corruptions_total") == 1
    assert after.write(a=[(now + 1, 1.0)]).stored == 1


def test_many_short_lives_do_not_keep_writes_out(make_box: MakeBox, now: int) -> None:
    for number in range(8):
        box = make_box(frozen_memtables=2)
        assert box.write(a=[(now + number, float(number))]).stored == 1
        box.close()
    assert make_box().read() == {"a": [(now + number, float(number)) for number in range(8)]}


def test_blocks_that_cannot_be_written_keep_writes_out_in_time(make_box: MakeBox, now: int, monkeypatch: Any) -> None:
    box = make_box(frozen_memtables=2, memtable_samples=1)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(box.store.files.parquet, "write", full)
    for number in range(2):
        box.write(a=[(now + number, float(number))])
    with pytest.raises(OSError, match="No space left"):
        box.maintenance.round()
    with pytest.raises(CommitFailed, match="cannot write blocks"):
        box.write(a=[(now + 2, 2.0)])
    assert box.read() == {"a": [(now, 0.0), (now + 1, 1.0)]}
    assert box.metric("prometheus_tsdb_compactions_failed_total") == 1
    monkeypatch.undo()
    box.maintenance.round()
    assert box.write(a=[(now + 2, 2.0)]).stored == 1


def fill(box: Any, start: int, end: int, step: int = MINUTE) -> dict[str, list[tuple[int, float]]]:
    """Write two metrics over a span, as time goes by."""
    expected: dict[str, list[tuple[int, float]]] = {"a": [], "b": []}
    for number, time in enumerate(range(start, end, step)):
        box.clock.ms = time
        points = {"a": [(time, float(number))], "b": [(time + 1, number / 10)]}
        assert box.write(**points).stored == 2
        for name, rows in points.items():
            expected[name] += rows
        if number % 40 == 0:
            box.maintenance.round()
    box.maintenance.round()
    return expected


def test_a_day_becomes_blocks_that_merge_and_answers_stay_the_same(make_box: MakeBox, now: int) -> None:
    box = make_box(retention=400 * DAY)
    expected = fill(box, now, now + DAY)
    assert box.read() == expected
    spans = [block.meta.end - block.meta.start for block in box.store.blocks.current]
    assert max(spans) == 18 * HOUR
    assert len(spans) <= 7
    assert box.metric("prometheus_tsdb_compactions_total") > 10
    assert box.read("a", now + HOUR, now + 2 * HOUR) == {
        "a": [point for point in expected["a"] if now + HOUR <= point[0] <= now + 2 * HOUR]
    }
    box.close()
    assert make_box(retention=400 * DAY).read() == expected


def test_cold_blocks_answer_like_hot_ones(make_box: MakeBox, now: int) -> None:
    box = make_box(retention=400 * DAY)
    expected = fill(box, now, now + 8 * HOUR, 2 * MINUTE)
    box.close()
    cold = make_box(retention=400 * DAY, hot_bytes=0)
    assert cold.read() == expected
    assert cold.read("b", now + HOUR, now + 5 * HOUR) == {
        "b": [point for point in expected["b"] if now + HOUR <= point[0] <= now + 5 * HOUR]
    }
    cold.close()
    warm = make_box(retention=400 * DAY)
    for _ in range(4):
        assert warm.read() == expected
    assert warm.store.files.hot.hits > 0


def test_old_blocks_go_by_time_and_their_series_with_them(make_box: MakeBox, now: int) -> None:
    box = make_box(retention=6 * HOUR)
    box.write(gone=[(now, 1.0)])
    expected = fill(box, now + MINUTE, now + 24 * HOUR, 10 * MINUTE)
    found = box.read()
    assert "gone" not in found
    assert found["a"] == expected["a"][-len(found["a"]) :]
    assert now + 18 * HOUR <= found["a"][0][0] + 4 * HOUR
    assert box.metric("prometheus_tsdb_time_retentions_total") > 0
    assert box.store.label_values("__name__", [], -(1 << 60), 1 << 60) == ["a", "b"]
    assert box.metric("prometheus_tsdb_head_series") == 2
    assert box.metric("prometheus_tsdb_head_series_removed_total") == 1


def test_old_blocks_go_by_size(make_box: MakeBox, now: int) -> None:
    box = make_box(max_bytes=6_000, retention=DAY)
    fill(box, now, now + 20 * HOUR)
    assert 0 < box.metric("prometheus_tsdb_storage_blocks_bytes") <= 6_000
    assert box.metric("prometheus_tsdb_size_retentions_total") > 0
    assert box.metric("prometheus_tsdb_retention_limit_bytes") == 6_000
    assert box.read()["a"][-1][0] == now + 20 * HOUR - MINUTE


def test_series_that_come_and_go_leave_nothing_behind(make_box: MakeBox, now: int) -> None:
    box = make_box(retention=4 * HOUR, id_reuse_seconds=0.0)
    for hour in range(30):
        time = now + hour * HOUR
        box.clock.ms = time
        box.write(**{f"pod_{hour}_{i}": [(time, 1.0)] for i in range(20)})
        box.maintenance.round()
    assert box.metric("prometheus_tsdb_head_series") <= 20 * 10
    assert box.store.index.capacity <= 20 * 11
    found = box.read()
    assert all(name.startswith("pod_") for name in found)
    assert f"pod_{29}_3" in found
    assert box.store.index.symbol_bytes < 200 * 40


@pytest.mark.parametrize("victim", ["samples-00000.parquet", "series.parquet", "meta.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_torn_block_is_set_aside_and_the_rest_serves(
    make_box: MakeBox, now: int, tmp_path: Path, victim: str, damage: str
) -> None:
    box = make_box()
    expected = fill(box, now, now + 7 * HOUR, 10 * MINUTE)
    box.maintenance.flush()
    blocks = sorted(box.store.blocks.current, key=lambda block: block.meta.min_time)
    torn = blocks[0].meta
    box.close()
    path = tmp_path / "tsdb" / "blocks" / torn.id / victim
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        data[len(data) // 2] ^= 0x55
        path.write_bytes(data if damage == "flip" else data[: len(data) // 2])
    after = make_box()
    for _ in range(len(blocks)):
        after.maintenance.round()  # looks at one block's checksums after the other
    left = {name: [point for point in rows if point[0] > torn.max_time] for name, rows in expected.items()}
    assert after.read() == left
    assert after.metric("svc_tsdb_block_corruptions_total") == 1
    assert (tmp_path / "tsdb" / "blocks" / "corrupt" / torn.id).is_dir()


def test_a_block_found_torn_by_a_query_is_set_aside(make_box: MakeBox, now: int, tmp_path: Path) -> None:
    box = make_box(hot_bytes=0)
    expected = fill(box, now, now + 5 * HOUR)
    box.maintenance.flush()
    first = min(box.store.blocks.current, key=lambda block: block.meta.min_time)
    file = first.path / "samples-00000.parquet"
    file.write_bytes(b"\0" * file.stat().st_size)
    assert box.read() == {name: [p for p in rows if p[0] > first.meta.max_time] for name, rows in expected.items()}
    assert box.metric("svc_tsdb_block_corruptions_total") == 1
    box.write(a=[(box.clock.ms + 1, 9.0)])


def test_an_unfinished_block_and_a_finished_merge_are_cleaned_up(make_box: MakeBox, now: int, tmp_path: Path) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    box.maintenance.flush()
    box.write(a=[(now + 1, 2.0)])
    box.maintenance.flush()
    sources = tmp_path / "sources"
    shutil.copytree(tmp_path / "tsdb" / "blocks", sources)
    box.clock.ms = now + 5 * HOUR
    box.write(a=[(box.clock.ms, 3.0)])
    box.maintenance.flush()
    box.maintenance.round()
    box.close()
    for path in sources.iterdir():  # the merge was written, its sources were not deleted yet
        shutil.copytree(path, tmp_path / "tsdb" / "blocks" / path.name, dirs_exist_ok=True)
    (tmp_path / "tsdb" / "blocks" / "0123.unfinished").mkdir()
    after = make_box()
    assert after.read() == {"a": [(now, 1.0), (now + 1, 2.0), (now + 5 * HOUR, 3.0)]}
    assert len(after.store.blocks.current) == 2
    assert len(list((tmp_path / "tsdb" / "blocks").iterdir())) == 2


def test_deleted_samples_are_gone_at_once_and_after_a_restart_and_after_cleaning(make_box: MakeBox, now: int) -> None:
    box = make_box()
    box.write(a=[(now + i, float(i)) for i in range(10)], b=[(now, 1.0)])
    box.maintenance.delete_series([[Matcher("__name__", "=", "a")]], now + 2, now + 5)
    left = {"a": [(now + i, float(i)) for i in (0, 1, 6, 7, 8, 9)], "b": [(now, 1.0)]}
    assert box.read() == left
    box.close()
    box = make_box()
    assert box.read() == left
    box.maintenance.clean_tombstones()
    assert box.read() == left
    assert not any(block.tombstones.spans for block in box.store.blocks.current)
    box.maintenance.delete_series([[Matcher("__name__", "=", "b")]], 0, 1 << 60)
    box.maintenance.clean_tombstones()
    assert box.store.label_values("__name__", [], -(1 << 60), 1 << 60) == ["a"]


def test_a_snapshot_is_a_store_of_its_own(make_box: MakeBox, now: int, tmp_path: Path) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    name = box.maintenance.snapshot(with_head=True)
    box.write(a=[(now + 1, 2.0)])
    assert make_box(tmp_path / "tsdb" / "snapshots" / name).read() == {"a": [(now, 1.0)]}


def test_readers_during_compaction_always_see_everything(make_box: MakeBox, now: int) -> None:
    box = make_box(tail_samples=16, memtable_samples=60)
    stop, failures, reads = threading.Event(), [], 0
    acknowledged = [now - 1]

    def read() -> None:
        nonlocal reads
        while not stop.is_set():
            known = acknowledged[0]
            found = [time for time, _ in box.read("a").get("a", [])]
            reads += 1
            if found != list(range(now, now + len(found))) or len(found) < known - now + 1:
                failures.append((known - now + 1, len(found)))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(160):
        box.write(a=[(now + number, float(number))])
        acknowledged[0] = now + number
        if number % 20 == 0:
            box.maintenance.flush()
            box.maintenance.round()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert reads > 3


def test_writers_share_commits_and_all_their_samples_are_there(make_box: MakeBox, now: int) -> None:
    box = make_box(tail_samples=64, memtable_samples=500)

    def write(name: str) -> None:
        for number in range(100):
            assert box.write(**{name: [(now + number, float(number))]}).stored == 1

    threads = [threading.Thread(target=write, args=(f"w{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        box.maintenance.flush()
    for thread in threads:
        thread.join()
    expected = [(now + number, float(number)) for number in range(100)]
    assert box.read() == {f"w{i}": expected for i in range(6)}


WRITER = """
import sys, json
from pathlib import Path
import numpy as np
from prometheus_client import CollectorRegistry
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.maintenance import Maintenance
from tocsin_tsdb.storage.options import StoreOptions
from tocsin_tsdb.storage.store import Store

directory, number, now = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
options = StoreOptions(directory, tail_samples=128, memtable_samples=700)
store = Store(options, CollectorRegistry(), lambda: (now + number) / 1000 + 60)
maintenance = Maintenance(store, interval=0.02)
maintenance.start()
print("open", flush=True)
while True:
    number += 1
    body = b"".join(
        wire.encode_series(wire.encode_labels([("__name__", f"m{i}")]), np.array([now + number]), np.array([float(number)]))
        for i in range(20)
    )
    assert store.write(body).stored == 20
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kill_nine_under_load_loses_nothing_acknowledged(make_box: MakeBox, now: int, tmp_path: Path) -> None:
    rng = random.Random(11)
    acknowledged = 0
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "tsdb"), str(acknowledged), str(now)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        for _ in range(rng.randrange(30, 250)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        lines = [line for line in process.stdout.read().split("\n") if line.isdecimal()]
        process.stdout.close()
        process.wait()
        box = make_box()
        found = box.read()
        last = found["m0"][-1][0] - now
        expected = [(now + number, float(number)) for number in range(1, last + 1)]
        assert all(rows == expected for rows in found.values()), {name: len(rows) for name, rows in found.items()}
        assert len(found) == 20
        assert last >= max(map(int, lines), default=acknowledged)
        acknowledged = last
        box.close()


LIMITED = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from prometheus_client import CollectorRegistry
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.errors import CommitFailed
from tocsin_tsdb.storage.maintenance import Maintenance
from tocsin_tsdb.storage.options import StoreOptions
from tocsin_tsdb.storage.store import Store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
now = int(sys.argv[2])
store = Store(StoreOptions(Path(sys.argv[1])), CollectorRegistry(), lambda: now / 1000)
maintenance = Maintenance(store)
key = wire.encode_labels([("__name__", "a")])

def write(first, count):
    times = np.arange(now + first, now + first + count)
    return store.write(wire.encode_series(key, times, np.random.default_rng(first).random(count))).stored

stored = write(0, 1000)
maintenance.flush()
stored += write(1000, 500)
resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, resource.RLIM_INFINITY))
try:
    write(1500, 5000)
    print("not refused")
except CommitFailed as error:
    print("refused:", error)
assert len(store.select([], 0, 1 << 60, max_samples=1 << 40).values) == stored
try:
    maintenance.flush()
    print("flushed")
except OSError as error:
    print("not flushed")
assert len(store.select([], 0, 1 << 60, max_samples=1 << 40).values) == stored
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
stored += write(1500, 5000)
maintenance.flush()
maintenance.round()
assert len(store.select([], 0, 1 << 60, max_samples=1 << 40).values) == stored == 6500
store.close()
print("recovered")
"""


def test_files_that_cannot_grow_refuse_writes_and_recover(now: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "tsdb"), str(now)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("refused: cannot write to the log")
    assert done.stdout.endswith("recovered\n")


def test_meta_of_a_block_is_readable_json(make_box: MakeBox, now: int, tmp_path: Path) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    box.maintenance.flush()
    content = json.loads(next((tmp_path / "tsdb" / "blocks").glob("*/meta.json")).read_text())
    assert (content["samples"], content["series"], content["min_time"]) == (1, 1, now)
