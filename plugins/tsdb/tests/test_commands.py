"""`tocsin tsdb import|export|verify|stats`, as a user types them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tocsin_tsdb.commands import TsdbCommand
from tocsin_tsdb.promql.interface import STALE_NAN_BITS
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.options import HOUR

Run = Callable[..., tuple[int, str, str]]

OPENMETRICS = b"""# HELP requests Requests served.
# TYPE requests counter
requests_total{code="200",path="/a\\"b"} 10 1500000000.5
requests_total{code="200",path="/a\\"b"} 12.5 1500000015.5
requests_total{code="500"} 1e+20 1500000000
# TYPE temperature gauge
temperature -3.25 1400000000
temperature NaN 1400000060
# EOF
"""


@pytest.fixture
def run(tmp_path: Path, capfd: Any) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        command = TsdbCommand()
        parser = argparse.ArgumentParser()
        command.configure(parser)
        options = parser.parse_args(["--dir", str(tmp_path / "tsdb"), *arguments])
        capfd.readouterr()
        code = command.run(options, lambda: pytest.fail("the configuration is not needed"))
        out, err = capfd.readouterr()
        return code, out, err

    return call


def test_openmetrics_goes_in_and_comes_out(run: Run, make_box: Any, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(OPENMETRICS)
    assert run("import", str(file)) == (0, "5 samples in 2 blocks, 0 refused for their labels\n", "")
    code, out, _ = run("export")
    assert code == 0
    assert out.splitlines() == [
        'requests_total{code="200",path="/a\\"b"} 10 1500000000.500',
        'requests_total{code="200",path="/a\\"b"} 12.5 1500000015.500',
        'requests_total{code="500"} 100000000000000000000 1500000000',
        "temperature -3.25 1400000000",
        "temperature NaN 1400000060",
        "# EOF",
    ]
    again = tmp_path / "again.txt"
    again.write_text(out)
    assert run("import", str(again))[0] == 0  # the same samples twice are one
    assert run("export")[1] == out
    families = make_box().store.families()
    assert families["requests"] == [wire.Metadata("requests", "counter", "Requests served.", "")]


def test_export_selects_series_and_time(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(OPENMETRICS)
    run("import", str(file))
    target = tmp_path / "out.txt"
    assert run("export", "--match", '{code=~"2.."}', "--start", "1500000010", "-o", str(target))[0] == 0
    assert target.read_text().splitlines() == ['requests_total{code="200",path="/a\\"b"} 12.5 1500000015.500', "# EOF"]


def test_the_dump_keeps_every_bit(run: Run, make_box: Any, now: int, tmp_path: Path) -> None:
    bits = np.array([STALE_NAN_BITS, 0x7FF8000000000001, 1 << 63], np.uint64)
    box = make_box()
    box.store.write(
        wire.encode_series(wire.encode_labels([("__name__", "x")]), np.arange(now, now + 3), bits.view(np.float64))
    )
    box.close()
    box = make_box()
    about = wire.Metadata("x", "gauge", "What x is.", "s")
    box.store.write(wire.encode_metadata(about))
    box.close()
    dump = tmp_path / "dump"
    assert run("export", "--format", "remote-write", "-o", str(dump))[0] == 0
    (tmp_path / "tsdb").rename(tmp_path / "before")
    assert (
        run("import", "--format", "remote-write", str(dump))[1] == "3 samples in 1 blocks, 0 refused for their labels\n"
    )
    again = make_box().store
    assert again.select([], now, now + 9, max_samples=9).values.view(np.uint64).tolist() == bits.tolist()
    assert again.families() == {"x": [about]}


def test_openmetrics_leaves_staleness_markers_out_and_says_so(
    run: Run, make_box: Any, now: int, tmp_path: Path
) -> None:
    bits = np.array([0x7FF8000000000001, STALE_NAN_BITS, 0x3FF0000000000000], np.uint64)
    box = make_box()
    key = wire.encode_labels([("__name__", "x")])
    box.store.write(wire.encode_series(key, now + 1000 * np.arange(3), bits.view(np.float64)))
    box.close()
    text = tmp_path / "text"
    code, _, err = run("export", "-o", str(text))
    assert (code, err) == (0, "1 staleness markers left out: only --format remote-write keeps them\n")
    seconds = now // 1000
    assert text.read_text() == f"x NaN {seconds}\nx 1 {seconds + 2}\n# EOF\n"


@pytest.mark.parametrize(
    ("form", "content", "text"),
    [
        ("remote-write", b"\x05\x00\x00", "record 1 of the dump is cut off"),
        ("remote-write", b"\x05\x00\x00\x00ab", "record 1 of the dump is cut off"),
        ("remote-write", b"\x02\x00\x00\x00ab", "record 1 of the dump"),
        ("remote-write", b"\xff\xff\xff\xff", "record 1 of the dump"),
        ("openmetrics", b"up 1\n# EOF\n", "up: a sample without a timestamp"),
        ("openmetrics", b"up{ 1\n# EOF\n", ""),
        ("openmetrics", b"up 1 1\n", "EOF"),
    ],
)
def test_files_that_cannot_be_imported(run: Run, tmp_path: Path, form: str, content: bytes, text: str) -> None:
    file = tmp_path / "in"
    file.write_bytes(content)
    code, out, err = run("import", "--format", form, str(file))
    assert (code, out) == (1, "")
    assert err.startswith("tocsin tsdb import: ")
    assert text in err


def test_a_store_in_use_is_left_alone(run: Run, make_box: Any, tmp_path: Path) -> None:
    make_box()
    for action in (("export",), ("import", str(tmp_path / "none"))):
        code, _, err = run(*action)
        assert code == 1
        assert "locked by another process" in err


def test_verify_and_stats_beside_a_running_store(run: Run, make_box: Any, now: int) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)], b=[(now, 2.0)])
    box.maintenance.flush()
    box.write(a=[(now + 1, 1.0)])
    code, out, _ = run("verify")
    assert (code, out) == (0, "1 blocks and 1 log segments checked, 0 faults\n")
    code, out, _ = run("stats")
    assert code == 0
    assert "2 series, 2 samples and" in out
    assert "series by metric:\n         1  a\n         1  b\n" in out


@pytest.mark.parametrize("victim", ["samples-00000.parquet", "series.parquet"])
def test_verify_finds_damage(run: Run, make_box: Any, now: int, victim: str) -> None:
    box = make_box()
    box.write(a=[(now, 1.0)])
    box.maintenance.flush()
    box.write(a=[(now + HOUR // 60, 1.0)])
    path = box.store.blocks.current[0].path / victim
    log = next((box.store.options.directory / "wal").glob("*.wal"))
    box.close()
    path.write_bytes(path.read_bytes()[:-9])
    log.write_bytes(log.read_bytes()[:-3])
    code, out, _ = run("verify")
    assert code == 1
    assert out.endswith("1 blocks and 1 log segments checked, 2 faults\n")
    assert victim in out
    assert "cut off" in out


def test_a_directory_that_is_not_there(run: Run) -> None:
    for action in ("verify", "stats", "export"):
        code, _, err = run(action)
        assert code == 1
        assert "no data directory" in err
