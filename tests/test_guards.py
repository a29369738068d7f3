"""The guards of the root conftest catch what they are there for, and nothing else."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def guarded(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of its own with our conftest; leaks are not waited for as long as usual."""
    source = (ROOT / "conftest.py").read_text()
    quick = source.replace("_SETTLE = 30.0", "_SETTLE = 1.0")
    assert quick != source
    pytester.makeconftest(quick)
    return pytester


def run(guarded: pytest.Pytester, source: str) -> pytest.RunResult:
    guarded.makepyfile(source)
    return guarded.runpytest_subprocess("-p", "no:randomly", "-p", "no:xdist", "-q")


def test_a_changed_environment_is_named_and_put_back(guarded: pytest.Pytester) -> None:
    result = run(
        guarded,
        """
        import os

        def test_leaks():
            os.environ["LEAKED"] = "1"
            del os.environ["PATH"]

        def test_next():
            assert "LEAKED" not in os.environ
            assert os.environ["PATH"]

        def test_monkeypatch(monkeypatch):
            monkeypatch.setenv("FINE", "1")
        """,
    )
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*test_leaks changed environment variables [[]'LEAKED', 'PATH'[]]"])


def test_a_thread_that_stays_is_named(guarded: pytest.Pytester) -> None:
    result = run(
        guarded,
        """
        import threading

        stop = threading.Event()

        def test_leaks():
            threading.Thread(target=stop.wait, name="forgotten", daemon=True).start()

        def test_short_lived():
            threading.Thread(target=lambda: stop.wait(0.05)).start()
            stop.set()
        """,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*test_leaks left threads running: [[]'forgotten'[]]"])


def test_a_child_process_that_stays_is_named(guarded: pytest.Pytester) -> None:
    result = run(
        guarded,
        """
        import subprocess

        kept = []

        def test_leaks():
            kept.append(subprocess.Popen(["sleep", "60"]))

        def test_clean():
            subprocess.run(["true"], check=True)

        def test_end():
            kept[0].kill()
            kept[0].wait()
        """,
    )
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*test_leaks left child processes: [[]'* sleep 60 '[]]"])


def test_what_wider_fixtures_and_the_test_kit_keep_is_no_leak(guarded: pytest.Pytester) -> None:
    result = run(
        guarded,
        """
        import subprocess, threading
        import pytest
        from tocsin.plugin.testkit.components import Process

        @pytest.fixture(scope="module")
        def shared():
            stop = threading.Event()
            thread = threading.Thread(target=stop.wait)
            thread.start()
            with subprocess.Popen(["sleep", "60"]) as child:
                yield
                child.kill()
            stop.set()
            thread.join()

        def test_uses_it(shared):
            pass

        def test_lazily(request):
            site = request.getfixturevalue("component_site")
            process = Process("sleep", ["sleep", "60"], directory=site.directory("sleep")).start()
            site.stack.callback(process.stop)
        """,
    )
    result.assert_outcomes(passed=2)


def test_a_failed_test_shows_what_its_programs_printed_meanwhile(guarded: pytest.Pytester) -> None:
    result = run(
        guarded,
        """
        from tocsin.plugin.testkit.components import Process, wait_until

        def start(site):
            command = "echo before; while read line; do :; done < $0; echo meanwhile; sleep 60"
            fifo = site.directory("fifo") / "fifo"
            import os
            os.mkfifo(fifo)
            process = Process("chatty", ["sh", "-c", command, str(fifo)], directory=site.directory("p")).start()
            site.stack.callback(process.stop)
            wait_until(lambda: "before" in process.output(), what="start")
            return process, fifo

        state = []

        def test_first(component_site):
            state.extend(start(component_site))

        def test_second():
            process, fifo = state
            fifo.write_text("")
            wait_until(lambda: "meanwhile" in process.output(), what="talk")
            assert False
        """,
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*output of chatty (pid *", "meanwhile"])
    result.stdout.no_fnmatch_line("before")


@pytest.mark.parametrize(("ci", "outcome"), [("", {"skipped": 1}), ("true", {"failed": 1})])
def test_a_missing_program_skips_locally_and_fails_in_ci(
    guarded: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: dict[str, int]
) -> None:
    monkeypatch.setenv("CI", ci)
    result = run(
        guarded,
        """
        from tocsin.plugin.testkit.components import require_program

        def test_it():
            require_program("no-such-program", "some-package")
        """,
    )
    result.assert_outcomes(**outcome)


def test_tests_can_be_chosen_by_the_component_they_use(guarded: pytest.Pytester) -> None:
    guarded.makepyfile(
        """
        import pytest

        @pytest.fixture(params=["embedded", "redis"])
        def cache(request): pass

        def test_plain(): pass
        def test_parameter(cache): pass
        def test_direct(redis_server): pass
        def test_database(database): pass
        """
    )
    options = ["--collect-only", "-q", "-p", "no:randomly", "-p", "no:xdist"]
    chosen = guarded.runpytest_subprocess(*options, "--component", "redis_server", "--component", "mariadb_server")
    chosen.stdout.fnmatch_lines(
        [
            "*::test_parameter[[]redis[]]",
            "*::test_direct",
            "*::test_database[[]mysql[]]",
            "*3/7 tests collected (4 deselected)*",
        ]
    )
    unknown = guarded.runpytest_subprocess(*options, "--component", "oracle")
    unknown.stderr.fnmatch_lines(["*--component: unknown [[]'oracle'[]], expected one of *"])
