"""The process helper: starting, watching, stopping, and what happens when the test run itself is killed."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tocsin.plugin.testkit.components import PATIENCE, Process, free_port, running_processes, wait_until

# A program with a child of its own that ignores the polite signal, as a badly behaved server would.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
source = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", source])
print(child.pid, flush=True)
time.sleep(60)
"""


def python(directory: Path, source: str, **options: object) -> Process:
    return Process("program", [sys.executable, "-c", source], directory=directory, **options)  # type: ignore[arg-type]


def exists(pid: int) -> bool:
    """Whether a process runs; one that ended but was not reaped by its parent does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    process = python(tmp_path, "import sys; print('to stdout'); print('to stderr', file=sys.stderr); sys.exit(3)")
    assert process.start().wait(PATIENCE) == 3
    assert set(process.output().split("\n")) >= {"to stdout", "to stderr"}
    assert not process.alive
    assert process not in running_processes()


def test_a_program_that_ends_before_it_is_ready_is_reported_with_its_output(tmp_path: Path) -> None:
    process = python(tmp_path, "raise SystemExit('no such setting')").start()
    with pytest.raises(RuntimeError, match=r"ended with exit code 1:\n.*no such setting"):
        process.wait_ready(lambda: False)


def test_a_program_that_never_becomes_ready_is_stopped_and_reported(tmp_path: Path) -> None:
    process = python(tmp_path, "import time; print('loading', flush=True); time.sleep(60)").start()
    wait_until(lambda: "loading" in process.output(), what="start")
    with pytest.raises(RuntimeError, match=r"program ready: not within 0.1 s:\nloading"):
        process.wait_ready(lambda: False, timeout=0.1)
    assert not process.alive


def test_stop_ends_the_whole_group_even_when_the_polite_signal_is_ignored(tmp_path: Path) -> None:
    process = python(tmp_path, STUBBORN).start()
    wait_until(lambda: process.output().endswith("\n"), what="child started")
    child = int(process.output())
    assert exists(child)
    assert process.stop(grace=0.1) == -signal.SIGKILL
    wait_until(lambda: not exists(child), what="grandchild gone")


def test_a_polite_program_ends_by_itself(tmp_path: Path) -> None:
    source = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True); time.sleep(60)"
    )
    with python(tmp_path, f"{source}; time.sleep(60)") as process:
        wait_until(lambda: "up" in process.output(), what="start")
        assert process.stop() == 7


def test_a_stopped_program_can_be_started_again_and_appends_its_output(tmp_path: Path) -> None:
    process = python(tmp_path, "print('run')")
    for _ in range(2):
        process.start().wait(PATIENCE)
    assert process.output() == "run\nrun\n"


def test_starting_twice_is_refused(tmp_path: Path) -> None:
    with (
        python(tmp_path, "import time; time.sleep(60)") as process,
        pytest.raises(RuntimeError, match="running already"),
    ):
        process.start()


def test_the_environment_is_passed_on_top_of_ours(tmp_path: Path) -> None:
    process = python(tmp_path, "import os; print(os.environ['MARK'], 'PATH' in os.environ)", environment={"MARK": "m"})
    process.start().wait(PATIENCE)
    assert process.output() == "m True\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_a_program_can_run_as_another_user(tmp_path: Path) -> None:
    process = python(Path("/tmp"), "", user="nobody")
    process.argv = ["sh", "-c", "id -un; grep -i '^Groups' /proc/self/status"]
    process.log = tmp_path / "log"
    process.directory = Path("/")
    process.start().wait(PATIENCE)
    assert process.output().split("\n")[0] == "nobody"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_programs_and_their_children_end_with_a_killed_test_run(tmp_path: Path, number: signal.Signals) -> None:
    source = f"""
        import pathlib, signal, sys, time
        from tocsin.plugin.testkit.components import Process
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        program = [sys.executable, "-c", {STUBBORN!r}]
        process = Process("program", program, directory=pathlib.Path({str(tmp_path)!r})).start()
        print(process.pid, flush=True)
        time.sleep(60)
    """
    log = tmp_path / "program.log"
    runner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE, text=True)
    with runner:
        assert runner.stdout is not None
        program = int(runner.stdout.readline())
        wait_until(lambda: log.read_text().endswith("\n"), what="child started")
        child = int(log.read_text())
        assert exists(program)
        assert exists(child)
        runner.send_signal(number)
    for pid in (program, child):
        wait_until(lambda pid=pid: not exists(pid), what=f"{pid} gone")  # type: ignore[misc]


def test_a_stopped_program_leaves_no_guard(tmp_path: Path) -> None:
    process = python(tmp_path, "import time; time.sleep(60)").start()
    pids = process.pids
    assert len(pids) == 2
    process.stop()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_programs_end_with_an_interpreter_that_exits_early(tmp_path: Path) -> None:
    source = f"""
        import pathlib
        from tocsin.plugin.testkit.components import Process
        print(Process("sleeper", ["sleep", "60"], directory=pathlib.Path({str(tmp_path)!r})).start().pid)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert not exists(int(done.stdout))


def test_wait_until_names_what_it_waited_for_and_keeps_the_last_error() -> None:
    def refuse() -> bool:
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(TimeoutError, match=r"server up: not within 0.05 s") as caught:
        wait_until(refuse, timeout=0.05, what="server up")
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


def test_free_ports_can_be_bound() -> None:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
