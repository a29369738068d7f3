"""Guard and launcher with processes that misbehave, in a process tree of their own."""

import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tocsin.app import children
from tocsin.plugin.testkit.components import PATIENCE, Process, wait_until

HEAD = """
import logging, os, signal, sys, time
from pathlib import Path
from types import SimpleNamespace
from tocsin.app import guard, launcher
logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO)

def say(word):
    print(word, os.getpid(), flush=True)

def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("stubborn")
    time.sleep(600)

def until_told():
    stopping = launcher.stop_event()
    say("serving")
    stopping.wait()
    say("drained")
    return 0
"""

CORE = """
class Slow(launcher.Sidecar):
    name = "slow"

    def enabled(self, core):
        return True

    def run(self, core, stopping, ready):
        say("sidecar")
        stopping.wait() if os.environ["SIDECAR"] == "silent" else sys.exit(3)

core = SimpleNamespace(
    close=lambda: None,
    http=SimpleNamespace(shutdown_timeout=1),
    plugins=SimpleNamespace(of=lambda kind: {"slow": Slow()}),
)
launcher.serve_http = launcher.run_engine = lambda *_: until_told()
launcher.open_core = lambda *_: core
"""

SUPERVISE = (
    CORE
    + """
sys.exit(launcher.Launcher("center", Path("."), None, core).run())
"""
)

GUARDED = (
    CORE
    + """
sys.exit(guard.Guard(lambda: launcher.supervise("center", Path("."), None)).run())
"""
)

Script = Callable[..., Process]


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    """Return a factory of running Python programs that begin with HEAD."""
    made = []

    def start(source: str, **environment: str) -> Process:
        argv = [sys.executable, "-c", HEAD + textwrap.dedent(source)]
        process = Process("supervised", argv, directory=tmp_path, environment=environment)
        made.append(process)
        return process.start()

    yield start
    for process in made:
        process.stop()


def said(process: Process, word: str) -> list[int]:
    """Return the numbers after a word at the beginning of a line of output."""
    lines = process.log.read_text().splitlines()
    return [int(line.rpartition(" ")[2]) for line in lines if line.startswith(word + " ")]


def number_after(process: Process, words: str) -> int:
    """Return the number that stands after some words of the output, where they stand last."""
    return int(process.log.read_text().rpartition(words)[2].split()[0])


def has_ended(pid: int) -> bool:
    """Return whether a process has ended; where nobody reaps orphans, it stays in the table as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return True


def until_said(process: Process, text: str, times: int = 1) -> None:
    wait_until(lambda: process.log.read_text().count(text) >= times, what=f"{times} x {text!r}")


def test_a_stop_between_two_launchers_is_obeyed_at_once(script: Script) -> None:
    process = script("""
        guard.back_off = lambda delay, lived: 600.0
        sys.exit(guard.Guard(lambda: os.kill(os.getpid(), signal.SIGKILL)).run())
    """)
    until_said(process, "was killed by signal 9, starting it again")
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_a_stop_reaches_a_launcher_that_does_not_listen_yet(script: Script) -> None:
    process = script("""
        def slow():
            say("loading")
            time.sleep(600)

        sys.exit(guard.Guard(slow).run())
    """)
    until_said(process, "loading")
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_a_launcher_that_gives_up_at_the_start_ends_the_guard_with_its_code(script: Script) -> None:
    process = script("sys.exit(guard.Guard(lambda: 3).run())")
    assert process.wait(PATIENCE) == 3
    assert "starting it again" not in process.log.read_text()


def test_a_service_that_ran_is_started_again_until_it_can_be(script: Script) -> None:
    process = script("""
        counted = Path("count")

        def work():
            with counted.open("a") as file:
                file.write(".")
            turn = len(counted.read_text())
            if turn == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return 1 if turn < 4 else until_told()

        sys.exit(guard.Guard(work).run())
    """)
    until_said(process, "serving")
    assert process.log.read_text().count("failed with 1, starting it again") == 2
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_the_next_launcher_starts_when_the_processes_of_the_last_one_are_gone(script: Script) -> None:
    process = script("""
        guard.DRAIN_SECONDS = 0.5

        def work():
            if Path("again").exists():
                return until_told()
            Path("again").touch()
            if not os.fork():
                stubborn()
            time.sleep(600)

        sys.exit(guard.Guard(work).run())
    """)
    until_said(process, "stubborn")
    os.kill(int(process.log.read_text().partition("launcher started as process ")[2].split()[0]), signal.SIGKILL)
    until_said(process, "serving")
    assert not any(Path(f"/proc/{pid}").exists() for pid in said(process, "stubborn"))
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_the_guard_leaves_no_orphans(script: Script) -> None:
    process = script("""
        guard.DRAIN_SECONDS = 0.5

        def work():
            if not os.fork():
                if not os.fork():
                    stubborn()
                until_told()
                os._exit(0)
            return until_told()

        sys.exit(guard.Guard(work).run())
    """)
    until_said(process, "serving", times=2)
    until_said(process, "stubborn")
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert len(said(process, "drained")) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in said(process, "stubborn"))


def test_a_stop_while_a_sidecar_is_awaited_is_obeyed_at_once(script: Script) -> None:
    process = script(SUPERVISE, SIDECAR="silent")
    until_said(process, "sidecar")
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert "serving" not in process.log.read_text()


def test_a_sidecar_that_is_not_ready_in_time_is_gone_on_without(script: Script) -> None:
    process = script("launcher.READY_SECONDS = 0.3\n" + SUPERVISE, SIDECAR="silent")
    until_said(process, "serving", times=2)
    assert "sidecar slow is not ready after 0 s, going on without it" in process.log.read_text()
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert len(said(process, "drained")) == 2


def test_a_sidecar_that_dies_before_it_is_ready_holds_nobody_up_and_is_started_again(script: Script) -> None:
    process = script(SUPERVISE, SIDECAR="broken")
    until_said(process, "serving", times=2)
    until_said(process, "sidecar slow (process", times=2)
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_a_launcher_whose_guard_died_is_not_the_last_one(script: Script) -> None:
    process = script(GUARDED, SIDECAR="broken")
    until_said(process, "serving", times=2)
    launcher = number_after(process, "launcher started as process ")
    process.signal(signal.SIGKILL)
    until_said(process, "stand-in of the guard started as process ")
    os.kill(launcher, signal.SIGKILL)
    until_said(process, "serving", times=4)
    os.kill(number_after(process, "stand-in of the guard started as process "), signal.SIGTERM)
    until_said(process, "drained", times=4)


def test_a_launcher_without_its_guard_stops_with_its_stand_in(script: Script) -> None:
    process = script(GUARDED, SIDECAR="broken")
    until_said(process, "serving", times=2)
    launcher = number_after(process, "launcher started as process ")
    process.signal(signal.SIGKILL)
    until_said(process, "stand-in of the guard started as process ")
    stand_in = number_after(process, "stand-in of the guard started as process ")
    os.kill(launcher, signal.SIGTERM)
    until_said(process, "drained", times=2)
    wait_until(
        lambda: not Path(f"/proc/{launcher}").exists() and not Path(f"/proc/{stand_in}").exists(), what="the end"
    )


def test_settings_that_cannot_work_end_the_start_with_their_reason(script: Script) -> None:
    process = script("""
        def refuse(*_):
            raise launcher.SettingsError("Store.Dir: it is locked")

        launcher.open_core = refuse
        sys.exit(guard.Guard(lambda: launcher.supervise("center", Path("."), None)).run())
    """)
    assert process.wait(PATIENCE) == 1
    assert "ERROR: Store.Dir: it is locked" in process.log.read_text()
    assert "Traceback" not in process.log.read_text()


def test_gauges_of_adopted_processes_go_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose parent was killed is nobody's child in the books, and what it last said would be shown for ever."""
    ended = iter([(4242, 0), (4243, 9), (0, 0)])
    monkeypatch.setattr(os, "waitpid", lambda pid, options: next(ended))
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    for name in ("gauge_livesum_4242.db", "gauge_livemax_4243.db", "gauge_livesum_4244.db", "counter_4242.db"):
        (tmp_path / name).touch()
    assert list(children.dead_children()) == [(4242, 0), (4243, 9)]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["counter_4242.db", "gauge_livesum_4244.db"]
