"""Profiling pages: what a pprof tool would read from them, and what a wrong request gets."""

import gzip
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.http.pprof import DESCRIPTIONS, HERTZ, MAX_STACKS, Page, Profiler, thread_cpu_ns
from tocsin.http.pprof_format import Frame, Profile, Sample, ValueType, encode
from tocsin.plugin.testkit.components import PATIENCE

# --- a reader of profile.proto, written from the format's definition, not from our writer


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            assert tag & 7 == 2, "only varints and byte strings occur in a profile"
            size = varint()
            assert at + size <= len(data)
            yield tag >> 3, data[at : at + size]
            at += size


def numbers(packed: bytes) -> list[int]:
    """Unpack a repeated int64."""
    values, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
    assert shift == 0
    return values


@dataclass
class Decoded:
    types: list[tuple[str, str]] = field(default_factory=list)
    samples: list[tuple[list[Frame], list[int], dict[str, str]]] = field(default_factory=list)
    scalars: dict[int, int] = field(default_factory=dict)
    period_type: tuple[str, str] | None = None
    default_type: str = ""
    mapping: dict[int, int] = field(default_factory=dict)


def decode(body: bytes) -> Decoded:
    parts = list(fields(gzip.decompress(body)))
    strings = [cast("bytes", value).decode() for number, value in parts if number == 6]
    assert strings[0] == ""
    assert len(set(strings)) == len(strings), "each string once"

    def messages(number: int) -> list[list[tuple[int, int | bytes]]]:
        return [list(fields(cast("bytes", value))) for n, value in parts if n == number]

    functions = {cast("int", dict(m)[1]): dict(m) for m in messages(5)}
    locations = {}
    for message in messages(4):
        values = dict(message)
        line = dict(fields(cast("bytes", values[4])))
        function = functions[cast("int", line[1])]
        name, filename = strings[cast("int", function[2])], strings[cast("int", function.get(4, 0))]
        first, current = cast("int", function.get(5, 0)), cast("int", line.get(2, 0))
        locations[cast("int", values[1])] = Frame(name, filename, first, current)
        assert values[2] == 1, "every location is in the one mapping"
    result = Decoded()

    def value_type(message: list[tuple[int, int | bytes]]) -> tuple[str, str]:
        values = cast("dict[int, int]", dict(message))
        return strings[values.get(1, 0)], strings[values.get(2, 0)]

    result.types = [value_type(message) for message in messages(1)]
    for message in messages(2):
        labels = [cast("dict[int, int]", dict(fields(cast("bytes", value)))) for n, value in message if n == 3]
        single = {n: value for n, value in message if n != 3}
        stack = [locations[number] for number in numbers(cast("bytes", single[1]))]
        named = {strings[label[1]]: strings[label[2]] for label in labels}
        result.samples.append((stack, numbers(cast("bytes", single[2])), named))
    [mapping] = messages(3)
    result.mapping = cast("dict[int, int]", dict(mapping))
    result.scalars = {n: value for n, value in parts if isinstance(value, int)}
    result.default_type = strings[result.scalars.get(14, 0)]
    if periods := messages(11):
        result.period_type = value_type(periods[0])
    return result


# --- a profiler whose time, threads and stacks the test decides


class Clock:
    """Sleeping advances it and lets the test act."""

    def __init__(self) -> None:
        self.now = 100.0
        self.on_sleep: Callable[[float], None] = lambda seconds: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep(seconds)


def frame(name: str, back: Any = None, line: int = 5) -> FrameType:
    code = SimpleNamespace(co_qualname=name, co_filename=f"/{name}.py", co_firstlineno=1)
    return cast("FrameType", SimpleNamespace(f_code=code, f_lineno=line, f_back=back))


@dataclass
class Thread:
    ident: int
    native_id: int
    name: str


class Machine:
    """One busy thread, one that waits, and the one that samples."""

    def __init__(self) -> None:
        self.clock = Clock()
        own = Thread(threading.get_ident(), 1, "sampler")
        self.threads = [own, Thread(20, 2, "busy"), Thread(30, 3, "waiting")]
        self.frames = {own.ident: frame("sampling"), 20: frame("work", frame("main")), 30: frame("wait")}
        self.cpu = {1: 0, 2: 7_000_000_000, 3: 0}
        self.process = 50_000_000_000
        self.profiler = Profiler(
            clock=self.clock,
            wall_ns=lambda: 1_700_000_000_000_000_000,
            sleep=self.clock.sleep,
            frames=lambda: self.frames,
            threads=lambda: cast("list[threading.Thread]", self.threads),
            cpu_ns=self.cpu.get,
            process_cpu_ns=lambda: self.process,
        )

    def burn(self, native_id: int, nanoseconds: int) -> None:
        self.cpu[native_id] += nanoseconds
        self.process += nanoseconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_profile_attributes_cpu_and_wall_time_to_stacks(machine: Machine) -> None:
    machine.clock.on_sleep = lambda seconds: machine.burn(2, round(seconds * 0.8e9))
    page = machine.profiler.page("profile", {"seconds": "1"})
    assert page[:2] == (200, "application/octet-stream")
    profile = decode(page.body)
    assert profile.types == [("samples", "count"), ("cpu", "nanoseconds"), ("wall", "nanoseconds")]
    assert (profile.default_type, profile.period_type) == ("cpu", ("cpu", "nanoseconds"))
    assert (profile.scalars[9], profile.scalars[10]) == (1_700_000_000_000_000_000, 10**9)
    assert profile.scalars[12] == 10**9 // HERTZ
    # The tools must not look for symbols in a binary: the mapping says that all is known.
    assert [profile.mapping[flag] for flag in (7, 8, 9)] == [1, 1, 1]
    by_thread = {labels["thread"]: (stack, values) for stack, values, labels in profile.samples}
    assert set(by_thread) == {"busy", "waiting"}
    stack, (count, cpu, wall) = by_thread["busy"]
    assert stack == [Frame("work", "/work.py", 1, 5), Frame("main", "/main.py", 1, 5)]
    assert count == pytest.approx(HERTZ, abs=1)
    assert cpu == pytest.approx(0.8e9, rel=1e-6)
    assert wall == pytest.approx(1e9, rel=1e-6)
    assert by_thread["waiting"][1][1:] == [0, wall]


def test_cpu_time_that_no_python_thread_used_is_shown_too(machine: Machine) -> None:
    def burn(seconds: float) -> None:
        machine.process += round(seconds * 3e9)

    machine.clock.on_sleep = burn
    samples = decode(machine.profiler.page("profile", {"seconds": "0.5"}).body).samples
    [rest] = [values for stack, values, _ in samples if "native libraries" in stack[0].function]
    assert rest == [0, pytest.approx(1.5e9, rel=1e-6), 0]


def test_threads_that_begin_and_end_during_a_profile_are_counted(machine: Machine) -> None:
    def change(seconds: float) -> None:
        machine.clock.on_sleep = lambda seconds: None
        machine.threads = [*machine.threads[:2], Thread(40, 4, "new")]
        machine.frames = {20: machine.frames[20], 40: frame("late")}
        machine.cpu[4] = 9_000_000

    machine.clock.on_sleep = change
    samples = decode(machine.profiler.page("profile", {"seconds": "0.05"}).body).samples
    values = {labels["thread"]: values for _, values, labels in samples if labels}
    assert values["new"][1] == 9_000_000
    assert "waiting" not in values


def test_distinct_stacks_are_bounded(machine: Machine) -> None:
    line = 0

    def move(seconds: float) -> None:
        nonlocal line
        machine.frames = {n: frame("f", line=line + n) for n in range(2000)}
        line += 2000

    machine.clock.on_sleep = move
    samples = decode(machine.profiler.page("profile", {"seconds": "0.2"}).body).samples
    assert len(samples) == MAX_STACKS + 1
    # Twenty ticks, perhaps one more for the rounding of the last.
    assert sum(values[0] for _, values, _ in samples) % 2000 == 0
    [more] = [values for stack, values, _ in samples if stack[0].function == "(more stacks)"]
    assert more[0] >= 20 * 2000 - MAX_STACKS


def test_a_real_busy_loop_is_found() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin, name="spinner")
    thread.start()
    try:
        profile = decode(Profiler().page("profile", {"seconds": "0.3"}).body)
    finally:
        stop.set()
        thread.join()
    spinning = [(stack, values) for stack, values, labels in profile.samples if labels.get("thread") == "spinner"]
    cpu = sum(values[1] for _, values in spinning)
    if sys.platform == "linux":
        assert cpu > 0.01e9, "a busy thread has used processor time"
    assert any("spin" in frame.function for stack, _ in spinning for frame in stack)


@pytest.mark.skipif(sys.platform != "linux", reason="thread clocks are asked in Linux's way")
def test_thread_cpu_time_is_known_and_a_dead_thread_is_harmless() -> None:
    before = thread_cpu_ns(threading.get_native_id())
    assert before is not None
    sum(range(200_000))
    after = thread_cpu_ns(threading.get_native_id())
    assert after is not None
    assert after > before
    assert thread_cpu_ns(2**22 + 5) is None


def test_one_timed_profile_at_a_time(machine: Machine) -> None:
    second: list[Page] = []

    def interfere(seconds: float) -> None:
        if not second:
            second.append(machine.profiler.page("profile", {"seconds": "1"}))
            second.append(machine.profiler.page("heap", {"seconds": "1"}))
            second.append(machine.profiler.page("goroutine", {}))

    machine.clock.on_sleep = interfere
    assert machine.profiler.page("profile", {"seconds": "0.1"}).status == 200
    assert [page.status for page in second] == [409, 409, 200]
    assert b"another profile" in second[0].body
    assert machine.profiler.page("profile", {"seconds": "0.1"}).status == 200, "the door opens again"


def test_a_profile_that_fails_leaves_the_door_open(machine: Machine) -> None:
    def fail(seconds: float) -> None:
        raise OSError("interrupted")

    machine.clock.on_sleep = fail
    with pytest.raises(OSError, match="interrupted"):
        machine.profiler.page("profile", {})
    machine.clock.on_sleep = lambda seconds: None
    assert machine.profiler.page("profile", {"seconds": "0.1"}).status == 200


@pytest.mark.parametrize("given", ["0", "-1", "301", "nan", "inf", "abc", "1e999"])
def test_bad_seconds_are_named(machine: Machine, given: str) -> None:
    page = machine.profiler.page("profile", {"seconds": given})
    text = f"seconds: expected a number above 0 and at most 300, got '{given}'\n"
    assert page == Page(400, "text/plain; charset=utf-8", text.encode())


def test_heap_profiles_are_shorter(machine: Machine) -> None:
    assert machine.profiler.page("heap", {"seconds": "61"}).status == 400


def test_bad_debug_is_named(machine: Machine) -> None:
    assert machine.profiler.page("goroutine", {"debug": "7"}).body == b"debug: expected 0, 1 or 2, got '7'\n"


def test_unknown_names_and_trace_say_why(machine: Machine) -> None:
    unknown = machine.profiler.page("nothing", {})
    assert unknown.status == 404
    assert unknown.body.startswith(b"unknown profile 'nothing', expected one of allocs, block")
    trace = machine.profiler.page("trace", {"seconds": "1"})
    assert trace.status == 501
    assert trace.body.startswith(b"trace: Not available")


def test_stacks_of_all_threads(machine: Machine) -> None:
    profile = decode(machine.profiler.page("goroutine", {}).body)
    assert profile.types == [("goroutine", "count")]
    stacks = {labels["thread"]: [frame.function for frame in stack] for stack, _, labels in profile.samples}
    assert stacks == {"sampler": ["sampling"], "busy": ["work", "main"], "waiting": ["wait"]}
    one_by_one = machine.profiler.page("goroutine", {"debug": "2"}).body.decode()
    assert "thread 'busy' (20):\n    work\n        /work.py:5\n    main\n        /main.py:5\n" in one_by_one
    machine.frames = {n: frame("same") for n in range(3)}
    grouped = machine.profiler.page("goroutine", {"debug": "1"}).body.decode()
    assert grouped.startswith("goroutine profile: total 3 (goroutine/count)")
    assert "3 @\n    same\n        /same.py:5\n" in grouped


def test_deep_stacks_are_cut_at_the_outer_end(machine: Machine) -> None:
    deep = frame("outermost")
    for number in range(500):
        deep = frame(f"level{number}", deep)
    machine.frames = {20: deep}
    [(stack, _, _)] = decode(machine.profiler.page("goroutine", {}).body).samples
    assert len(stack) == 128
    assert stack[0].function == "level499"


@pytest.mark.parametrize("name", ["heap", "allocs"])
def test_heap_without_tracing_counts_living_objects_by_type(machine: Machine, name: str) -> None:
    class Marker:
        pass

    kept = [Marker() for _ in range(321)]
    # Callers may hand over absent parameters as empty ones.
    profile = decode(machine.profiler.page(name, {"seconds": "", "debug": ""}).body)
    assert machine.clock.now == 100, "no waiting"
    assert profile.types == [("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert profile.default_type == "inuse_space"
    [values] = [values for stack, values, _ in profile.samples if stack[0].function.endswith("<locals>.Marker")]
    assert values[0] == len(kept)
    assert values[1] >= 321 * sys.getsizeof(kept[0])
    text = machine.profiler.page(name, {"debug": "1"}).body.decode()
    assert text.startswith(f"{name} profile: total ")


def test_heap_with_seconds_shows_what_was_allocated_meanwhile_by_stack(machine: Machine) -> None:
    kept: list[bytes] = []

    def allocate(seconds: float) -> None:
        assert tracemalloc.is_tracing()
        kept.append(b"x" * 3_000_000 + bytes([len(kept)]))

    machine.clock.on_sleep = allocate
    profile = decode(machine.profiler.page("heap", {"seconds": "2"}).body)
    assert not tracemalloc.is_tracing(), "tracing costs, so it ends with the profile"
    assert profile.scalars[10] == 2 * 10**9
    stack, values, _ = max(profile.samples, key=lambda sample: sample[1][1])
    assert values[1] >= 3_000_000
    assert stack[0].filename == __file__


def test_heap_with_seconds_leaves_foreign_tracing_on(machine: Machine) -> None:
    tracemalloc.start(1)
    try:
        assert decode(machine.profiler.page("heap", {"seconds": "1"}).body).samples
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("block", [("contentions", "count"), ("delay", "nanoseconds")]),
        ("mutex", [("contentions", "count"), ("delay", "nanoseconds")]),
        ("threadcreate", [("threadcreate", "count")]),
    ],
)
def test_what_python_does_not_record_is_a_valid_empty_profile(
    machine: Machine, name: str, types: list[tuple[str, str]]
) -> None:
    page = machine.profiler.page(name, {})
    profile = decode(page.body)
    assert (profile.types, profile.samples, page.filename) == (types, [], name)
    assert machine.profiler.page(name, {"debug": "1"}).body.startswith(f"{name} profile: total 0 (".encode())


def test_index_links_every_profile(machine: Machine) -> None:
    page = machine.profiler.page("", {})
    assert page.content_type == "text/html; charset=utf-8"
    assert b"{" not in page.body, "everything is filled in"
    for name in DESCRIPTIONS:
        assert f'<a href="/api/debug/pprof/{name}'.encode() in page.body


def test_command_line_words_are_separated_by_nul(machine: Machine) -> None:
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("needs /proc")
    source = "from tocsin.http.pprof import command_line; import sys; sys.stdout.buffer.write(command_line())"
    argv = [sys.executable, "-c", source, "a b", ""]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=PATIENCE)
    assert done.stdout.split(b"\0")[1:4] == [b"-c", source.encode(), b"a b"]
    assert machine.profiler.page("cmdline", {}).status == 200


def test_symbol_says_that_there_is_nothing_to_look_up(machine: Machine) -> None:
    assert machine.profiler.page("symbol", {}).body == b"num_symbols: 0\n"


frames_strategy = st.builds(Frame, st.text(min_size=1), st.text(), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
samples_strategy = st.builds(
    Sample,
    st.lists(frames_strategy, max_size=4).map(tuple),
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
    st.dictionaries(st.text(min_size=1), st.text(min_size=1), max_size=2),
)


@given(st.lists(samples_strategy, max_size=5))
def test_any_profile_survives_the_format(samples: list[Sample]) -> None:
    types = (ValueType("a", "b"), ValueType("b", "a"))
    decoded = decode(encode(Profile(types, samples, program="p", time_ns=1, comment="c")))
    assert decoded.types == list(types)
    assert [(tuple(stack), tuple(values), labels) for stack, values, labels in decoded.samples] == [
        (sample.stack, sample.values, sample.labels) for sample in samples
    ]


def test_a_real_profile_takes_about_as_long_as_asked() -> None:
    before = time.monotonic()
    Profiler().page("profile", {"seconds": "0.1"})
    assert time.monotonic() - before >= 0.1
