"""Profiling of the running process for `/api/debug/pprof/*`, in the format of the usual pprof tools.

The names are the ones those tools know; what a name means for a Python process is said on the index page. Nothing
here knows HTTP: a page is a status, a content type and bytes. A worker profiles itself, not its siblings.
"""

import gc
import html
import sys
import threading
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from tocsin.http.pprof_format import Frame, Profile, Sample, Stack, ValueType, encode

BASE = "/api/debug/pprof/"
HERTZ = 100
MAX_SECONDS = {"profile": 300.0, "heap": 60.0, "allocs": 60.0}
MAX_DEPTH = 128
"""Frames kept of a stack, innermost first."""
MAX_STACKS = 20_000
"""Distinct stacks kept in one CPU profile; samples beyond are added to one called "(more stacks)"."""
TRACED_FRAMES = 24
"""Frames that tracemalloc keeps per allocation while a heap profile with `seconds` runs."""

COUNTED = {
    "goroutine": (ValueType("goroutine", "count"),),
    "threadcreate": (ValueType("threadcreate", "count"),),
    "block": (ValueType("contentions", "count"), ValueType("delay", "nanoseconds")),
    "mutex": (ValueType("contentions", "count"), ValueType("delay", "nanoseconds")),
    "heap": (ValueType("inuse_objects", "count"), ValueType("inuse_space", "bytes")),
}
CPU_TYPES = (ValueType("samples", "count"), ValueType("cpu", "nanoseconds"), ValueType("wall", "nanoseconds"))

DESCRIPTIONS = {
    "allocs": "The same as heap: Python does not remember what was freed.",
    "block": "Empty: Python does not record waiting times. Look at the wall time of a profile.",
    "cmdline": "The command line of this process, words separated by NUL bytes.",
    "goroutine": "The stacks of all Python threads; debug=1 groups equal ones, debug=2 lists them one by one.",
    "heap": "Living objects by type; with seconds=N (at most 60) what was allocated meanwhile and lives, by stack.",
    "mutex": "Empty: Python does not record lock contention.",
    "profile": "CPU and wall time by stack, sampled 100 times a second for seconds=N (default 30, at most 300).",
    "symbol": "Answers that no address can be looked up: profiles carry names already.",
    "threadcreate": "Empty: Python does not record where threads were started.",
    "trace": "Not available: there is no execution tracer for Python that these tools read.",
}

TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"


class Page(NamedTuple):
    """An answer; `filename` is what a browser should call a download."""

    status: int
    content_type: str
    body: bytes
    filename: str = ""


class _Refused(Exception):
    """A request that cannot be served, with the status and the text of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.page = Page(status, TEXT, text.encode() + b"\n")


def thread_cpu_ns(native_id: int) -> int | None:
    """Return the CPU time a thread of this process has used, in ns; None when it has ended or cannot be asked.

    The clock id is built the way the Linux kernel defines it; asking for a thread that is gone is an error there,
    while the function of the C library for this crashes.
    """
    if sys.platform != "linux":
        return None
    per_thread, scheduled = 4, 2
    with suppress(OSError):
        return time.clock_gettime_ns((~native_id << 3) | per_thread | scheduled)
    return None


class Profiler:
    """Makes the pages of one process; at most one timed profile runs at a time.

    Time, sleep, threads and stacks are arguments so that a test decides them. `sleep` takes seconds.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], object] = time.sleep,
        frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
        threads: Callable[[], Iterable[threading.Thread]] = threading.enumerate,
        cpu_ns: Callable[[int], int | None] = thread_cpu_ns,
        process_cpu_ns: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self._clock = clock
        self._wall_ns = wall_ns
        self._sleep = sleep
        self._frames = frames
        self._threads = threads
        self._cpu_ns = cpu_ns
        self._process_cpu_ns = process_cpu_ns
        self._running = threading.Lock()

    def page(self, name: str, query: Mapping[str, str]) -> Page:
        """Return the page below `/api/debug/pprof/`; the empty name is the index.

        `query` may hold `seconds` and `debug`. Bad values give status 400, unknown names 404, a second timed profile
        409, `trace` 501, each with a text that says why.
        """
        try:
            return self._page(name, query)
        except _Refused as refusal:
            return refusal.page

    def _page(self, name: str, query: Mapping[str, str]) -> Page:
        match name:
            case "":
                return Page(200, "text/html; charset=utf-8", self._index())
            case "cmdline":
                return Page(200, TEXT, command_line())
            case "symbol":
                return Page(200, TEXT, b"num_symbols: 0\n")
            case "trace":
                raise _Refused(501, f"trace: {DESCRIPTIONS['trace']} Use profile, or goroutine?debug=2.")
            case "profile":
                return self._timed(name, _seconds(name, query), self._cpu_profile)
            case "goroutine":
                return self._stacks(_debug(query))
            case "heap" | "allocs":
                return self._heap(name, query)
            case "block" | "mutex" | "threadcreate":
                return self._counted(name, [], _debug(query), DESCRIPTIONS[name])
        raise _Refused(404, f"unknown profile {name!r}, expected one of {', '.join(DESCRIPTIONS)}")

    def _index(self) -> bytes:
        rows = "".join(
            f'<tr><td><a href="{BASE}{name}{"?debug=1" if name in COUNTED else ""}">{name}</a></td>'
            f"<td>{html.escape(text)}</td></tr>\n"
            for name, text in DESCRIPTIONS.items()
        )
        return (
            '<!doctype html>\n<html lang="en"><head><title>Profiles</title><meta charset="utf-8"></head><body>\n'
            f"<h1>Profiles of this process</h1>\n<table>\n{rows}</table>\n"
            f"<p>Give the address of one to a pprof tool, e.g. <code>go tool pprof http://HOST:PORT{BASE}profile?seconds=10</code>."
            " Every process of the service answers for itself.</p>\n</body></html>\n"
        ).encode()

    def _timed(self, name: str, seconds: float, measure: Callable[[float], Profile]) -> Page:
        if not self._running.acquire(blocking=False):
            raise _Refused(409, f"{name}: another profile of this process is being taken, try again when it is done")
        try:
            return Page(200, BINARY, encode(measure(seconds)), name)
        finally:
            self._running.release()

    def _cpu_profile(self, seconds: float) -> Profile:
        begun = self._wall_ns()
        sampler = _Sampler(self._frames, self._threads, self._cpu_ns, self._process_cpu_ns)
        start = last = self._clock()
        while (left := start + seconds - last) > 0:
            self._sleep(min(1 / HERTZ, left))
            now = self._clock()
            sampler.tick(round((now - last) * 1e9))
            last = now
        return Profile(
            CPU_TYPES,
            sampler.samples(),
            program=sys.executable,
            time_ns=begun,
            duration_ns=round((last - start) * 1e9),
            period_type=CPU_TYPES[1],
            period=10**9 // HERTZ,
            default_type="cpu",
            comment="cpu is exact per thread and attributed to the stack at the end of each interval",
        )

    def _heap(self, name: str, query: Mapping[str, str]) -> Page:
        debug = _debug(query)
        if not query.get("seconds"):
            samples = _traced_objects() if tracemalloc.is_tracing() else living_objects()
            return self._counted(name, samples, debug, DESCRIPTIONS["heap"])
        return self._timed(name, _seconds(name, query), self._traced_heap)

    def _traced_heap(self, seconds: float) -> Profile:
        begun, start = self._wall_ns(), self._clock()
        ours = not tracemalloc.is_tracing()
        if ours:
            tracemalloc.start(TRACED_FRAMES)
        try:
            self._sleep(seconds)
            samples = _traced_objects()
        finally:
            if ours:
                tracemalloc.stop()
        duration = round((self._clock() - start) * 1e9)
        return Profile(
            COUNTED["heap"], samples, sys.executable, begun, duration_ns=duration, default_type="inuse_space"
        )

    def _stacks(self, debug: int) -> Page:
        names = {thread.ident: thread.name for thread in self._threads()}
        stacks = {ident: _stack(frame) for ident, frame in self._frames().items()}
        if debug >= 2:
            parts = [_listing(f"thread {names.get(i, '?')!r} ({i}):", stack) for i, stack in stacks.items()]
            return Page(200, TEXT, "\n".join(parts).encode())
        samples = [Sample(stack, [1], {"thread": names.get(ident, "?")}) for ident, stack in stacks.items()]
        return self._counted("goroutine", samples, debug, "Python threads.")

    def _counted(self, name: str, samples: Sequence[Sample], debug: int, remark: str) -> Page:
        types = COUNTED["heap" if name == "allocs" else name]
        if debug:
            return Page(200, TEXT, _text(name, types, samples, remark))
        profile = Profile(types, samples, sys.executable, self._wall_ns(), default_type=types[-1].kind, comment=remark)
        return Page(200, BINARY, encode(profile), name)


class _Sampler:
    """Adds up what each stack was seen doing."""

    def __init__(
        self,
        frames: Callable[[], Mapping[int, FrameType]],
        threads: Callable[[], Iterable[threading.Thread]],
        cpu_ns: Callable[[int], int | None],
        process_cpu_ns: Callable[[], int],
    ) -> None:
        self._frames = frames
        self._threads = threads
        self._cpu_ns = cpu_ns
        self._process_cpu_ns = process_cpu_ns
        self._own = threading.get_ident()
        self._totals: dict[tuple[str, Stack], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._process_begin = process_cpu_ns()
        self._used: dict[int, int] = {t.native_id: cpu_ns(t.native_id) or 0 for t in threads() if t.native_id}
        self._attributed = 0

    def tick(self, elapsed_ns: int) -> None:
        """Attribute the interval that ends now to the stacks of all threads but the sampling one."""
        threads = {thread.ident: thread for thread in self._threads()}
        for ident, frame in self._frames().items():
            thread = threads.get(ident)
            used = self._used_since_last(thread)
            if ident == self._own:
                continue
            key = (thread.name if thread else "?", _stack(frame))
            if key not in self._totals and len(self._totals) >= MAX_STACKS:
                key = ("?", (Frame("(more stacks)", "", 0, 0),))
            total = self._totals[key]
            total[0] += 1
            total[1] += used
            total[2] += elapsed_ns

    def _used_since_last(self, thread: threading.Thread | None) -> int:
        if thread is None or thread.native_id is None:
            return 0
        now = self._cpu_ns(thread.native_id)
        if now is None:
            return 0
        used = max(0, now - self._used.get(thread.native_id, 0))
        self._used[thread.native_id] = now
        self._attributed += used
        return used

    def samples(self) -> list[Sample]:
        """Return the sums; CPU time that no Python thread accounts for gets a stack of its own."""
        samples = [Sample(stack, values, {"thread": name}) for (name, stack), values in self._totals.items()]
        rest = self._process_cpu_ns() - self._process_begin - self._attributed
        if rest > 0:
            native = (Frame("(threads of native libraries, short-lived threads)", "", 0, 0),)
            samples.append(Sample(native, [0, rest, 0], {}))
        return samples


def command_line() -> bytes:
    """Return the process's own words, separated by NUL bytes."""
    with suppress(OSError):
        return Path("/proc/self/cmdline").read_bytes().rstrip(b"\0")
    return "\0".join(sys.orig_argv).encode("utf-8", "surrogateescape")


def living_objects() -> list[Sample]:
    """Count the objects that the garbage collector tracks, by type; sizes are those of the objects themselves."""
    counts: dict[type, list[int]] = defaultdict(lambda: [0, 0])
    for thing in gc.get_objects():
        total = counts[type(thing)]
        total[0] += 1
        with suppress(Exception):  # a foreign type may fail at telling its size
            total[1] += sys.getsizeof(thing)
    return [Sample((Frame(_type_name(kind), "", 0, 0),), values, {}) for kind, values in counts.items()]


def _type_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _traced_objects() -> list[Sample]:
    """Return what tracemalloc knows, without its own and this module's allocations."""
    filters = [tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, __file__)]
    snapshot = tracemalloc.take_snapshot().filter_traces(filters)
    return [
        # tracemalloc knows files and lines only, so a line stands for its function.
        Sample(
            tuple(
                Frame(f"{Path(f.filename).name}:{f.lineno}", f.filename, f.lineno, f.lineno) for f in reversed(trace)
            ),
            [statistic.count, statistic.size],
            {},
        )
        for statistic in snapshot.statistics("traceback")
        if (trace := statistic.traceback)
    ]


def _frame(code: CodeType, line: int | None) -> Frame:
    return Frame(code.co_qualname, code.co_filename, code.co_firstlineno, line or 0)


def _stack(frame: FrameType | None) -> Stack:
    found: list[Frame] = []
    while frame is not None and len(found) < MAX_DEPTH:
        found.append(_frame(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def _listing(title: str, stack: Stack) -> str:
    lines = [f"    {frame.function}\n        {frame.filename}:{frame.line}" for frame in stack]
    return "\n".join([title, *lines, ""])


def _text(name: str, types: Sequence[ValueType], samples: Sequence[Sample], remark: str) -> bytes:
    """Return the readable form: equal stacks together, the largest first."""
    totals: dict[Stack, list[int]] = defaultdict(lambda: [0] * len(types))
    for sample in samples:
        totals[sample.stack] = [a + b for a, b in zip(totals[sample.stack], sample.values, strict=True)]
    units = ", ".join(f"{kind}/{unit}" for kind, unit in types)
    sums = " ".join(str(sum(column)) for column in zip(*totals.values(), strict=True)) or "0"
    parts = [f"{name} profile: total {sums} ({units}). {remark}\n"]
    for stack, values in sorted(totals.items(), key=lambda item: item[1][-1], reverse=True):
        parts.append(_listing(f"{' '.join(map(str, values))} @", stack))
    return "\n".join(parts).encode()


def _seconds(name: str, query: Mapping[str, str]) -> float:
    given = query.get("seconds") or "30"
    limit = MAX_SECONDS[name]
    with suppress(ValueError):
        seconds = float(given)
        if 0 < seconds <= limit:  # false for NaN
            return seconds
    raise _Refused(400, f"seconds: expected a number above 0 and at most {limit:g}, got {given[:40]!r}")


def _debug(query: Mapping[str, str]) -> int:
    given = query.get("debug", "") or "0"
    if given in ("0", "1", "2"):
        return int(given)
    raise _Refused(400, f"debug: expected 0, 1 or 2, got {given[:40]!r}")
