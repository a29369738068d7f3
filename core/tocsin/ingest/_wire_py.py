"""The wire functions in plain Python: the specification of `_wire.pyx` and the fallback where no compiler is.

See `interface` for the format and the rules.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from tocsin.ingest._wire_read_py import Field, check, fields, read_varint, validate
from tocsin.ingest.interface import (
    MAX_CACHED_LABELS,
    MAX_DEBUG_SERIES,
    MAX_LABELS,
    CacheStats,
    Chunk,
    LabelCountError,
    LabelError,
    Labels,
    Resolver,
    Rewritten,
    SampleError,
    SizeError,
    SymbolError,
    TruncatedError,
    Verdict,
    VersionError,
    WireTypeError,
)
from tocsin.ingest.messages import (
    BYTES,
    METADATA,
    SERIES,
    SERIES_V2,
    Kind,
)

IMPLEMENTATION = "python"

# Fields of a series that count as samples: floats and histograms.
_SAMPLES = (2, 4)

# Metric types whose series carry a suffix that the name of the metric family lacks.
_SUFFIXED_TYPES = (3, 4, 5)
_SUFFIXES = (b"_bucket", b"_count", b"_sum")


def _put_varint(value: int) -> bytes:
    """Encode an unsigned number of at most 64 bits."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(tag: bytes, payload: bytes) -> bytes:
    """Encode a length-delimited field with a one-byte tag."""
    return tag + _put_varint(len(payload)) + payload


# --- labels ---------------------------------------------------------------------------------------------------------


def _parse_labels(body: bytes, series: int, pos: int, end: int) -> list[tuple[bytes, bytes]]:
    """Decode the label fields of a series whose own fields are known to be well-formed."""
    labels: list[tuple[bytes, bytes]] = []
    for field in fields(body, pos, end):
        if field.number != 1:
            continue
        if len(labels) == MAX_LABELS:
            raise LabelCountError(series)
        parts = {1: b"", 2: b""}
        for part in fields(body, field.start, field.end):
            if part.number in parts:
                check(body, part, Kind.STRING)
                parts[part.number] = body[part.start : part.end]
        labels.append((parts[1], parts[2]))
    return labels


def _put_labels(labels: Labels) -> bytes:
    """Encode labels canonically: empty strings are omitted, as proto3 wants."""
    out = bytearray()
    for name, value in labels:
        out += _field(b"\x0a", (_field(b"\x0a", name) if name else b"") + (_field(b"\x12", value) if value else b""))
    return bytes(out)


class _Entry:
    """A cached verdict with its encoded labels."""

    __slots__ = ("encoded", "stale", "verdict")

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.encoded = _put_labels(verdict.labels)
        self.stale = False


class LabelCache:
    """See `interface.LabelCacheLike`."""

    def __init__(self, resolve: Resolver, capacity: int) -> None:
        self._resolve = resolve
        self._half = max(1, capacity // 2)
        self._young: dict[bytes, _Entry] = {}
        self._old: dict[bytes, _Entry] = {}
        self._hits = self._misses = self._evictions = 0
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget everything: the rules have changed."""
        with self._lock:
            self._young, self._old = {}, {}

    def invalidate(self, idents: Collection[str]) -> None:
        """Forget the verdicts that name one of these hosts: their targets have changed."""
        with self._lock:
            for generation in (self._young, self._old):
                for entry in generation.values():
                    if entry.verdict.ident in idents:
                        entry.stale = True

    def stats(self) -> CacheStats:
        """Return the counters."""
        with self._lock:
            return CacheStats(self._hits, self._misses, self._evictions, len(self._young) + len(self._old))

    def _find(self, raw: bytes) -> _Entry | None:
        """Return the entry of an encoding and make it young."""
        entry = self._young.get(raw)
        if entry is None:
            entry = self._old.pop(raw, None)
            if entry is not None and not entry.stale:
                self._insert(raw, entry)
        if entry is None or entry.stale:
            self._misses += 1
            return None
        self._hits += 1
        return entry

    def _insert(self, raw: bytes, entry: _Entry) -> None:
        """Add an entry; a full young generation becomes the old one, and the old one goes."""
        if raw not in self._young and len(self._young) >= self._half:
            self._evictions += len(self._old)
            self._old, self._young = self._young, {}
        self._young[raw] = entry

    def _get(self, body: bytes, series: _Series) -> _Entry:
        """Return the entry of a series' labels, from the cache or through the resolver."""
        entry = self._find(series.labels)
        if entry is None:
            entry = _Entry(self._resolve(_parse_labels(body, series.tag, series.start, series.end)))
            if len(series.labels) <= MAX_CACHED_LABELS:
                self._insert(series.labels, entry)
        return entry


# --- rewriting ------------------------------------------------------------------------------------------------------


def _leading_labels(body: bytes, pos: int, end: int) -> int:
    """Return the end of the labels that stand first and are of usual size. PERF: most of a series, at a third of the cost."""
    while end - pos > 1 and body[pos] == 0x0A and body[pos + 1] < 0x80 and body[pos + 1] <= end - pos - 2:
        pos += 2 + body[pos + 1]
    return pos


class _Series:
    """One series of a body, valid except for its labels, cut into what is replaced and what is not."""

    __slots__ = ("after", "before", "end", "labels", "sample", "samples", "start", "tag")

    def __init__(self, body: bytes, field: Field) -> None:
        self.tag, self.start, self.end = field.tag, field.start, field.end
        self.sample: Field | None = None
        self.samples = 0
        pos = _leading_labels(body, field.start, field.end)
        labels, before, after = bytearray(body[field.start : pos]), bytearray(), bytearray()
        for part in fields(body, pos, field.end):
            if part.number in SERIES:
                check(body, part, SERIES[part.number])
            self.samples += part.number in _SAMPLES
            if part.number == 1:
                labels += body[part.tag : part.end]
            elif part.number == 2 and self.sample is None:
                self.sample = part
            else:
                (before if self.sample is None else after).extend(body[part.tag : part.end])
        self.labels, self.before, self.after = bytes(labels), bytes(before), bytes(after)

    def encode(self, body: bytes, labels: bytes, server_ms: int | None) -> bytes:
        """Return the `TimeSeries` message with other labels and, when given, another time of the first sample."""
        sample = b""
        if self.sample is not None:
            sample = body[self.sample.tag : self.sample.end]
            if server_ms is not None:
                kept = (part for part in fields(body, self.sample.start, self.sample.end) if part.number != 2)
                value = b"".join(body[part.tag : part.end] for part in kept)
                sample = _field(b"\x12", value + b"\x10" + _put_varint(server_ms & (1 << 64) - 1))
        return labels + self.before + sample + self.after


class _Output:
    """What one pass collects."""

    def __init__(self, cut: int) -> None:
        self.cut = cut
        self.chunks: list[Chunk] = []
        self.part = bytearray()
        self.series = self.samples = self.received = self.metadata_count = 0
        self.dropped: dict[str, int] = {}
        self.idents: dict[str, int] = {}
        self.registered: set[str] = set()
        self.debug: list[bytes] = []
        self.metadata = bytearray()

    def add(self, message: bytes, samples: int, verdict: Verdict) -> None:
        """Count a series and keep it unless its verdict is to drop it."""
        self.received += 1
        if verdict.ident:
            self.idents[verdict.ident] = self.idents.get(verdict.ident, 0) + 1
            if verdict.register:
                self.registered.add(verdict.ident)
        if verdict.debug and len(self.debug) < MAX_DEBUG_SERIES:
            self.debug.append(message)
        if verdict.drop:
            self.dropped[verdict.drop] = self.dropped.get(verdict.drop, 0) + 1
            return
        self.part += _field(b"\x0a", message)
        self.series += 1
        self.samples += samples
        if self.series == self.cut:
            self.flush()

    def flush(self) -> None:
        """Close the current chunk."""
        if self.series:
            self.chunks.append(Chunk(bytes(self.part), self.series, self.samples))
            self.part, self.series, self.samples = bytearray(), 0, 0

    def result(self) -> Rewritten:
        """Close the last chunk and return the outcome."""
        self.flush()
        return Rewritten(
            self.chunks, self.received, self.dropped, self.idents, sorted(self.registered), self.debug,
            bytes(self.metadata), self.metadata_count,
        )  # fmt: skip


def rewrite(body: bytes, cache: LabelCache, server_ms: int | None = None, cut: int = 0) -> Rewritten:
    """See `interface.Wire.rewrite`."""
    out = _Output(cut)
    with cache._lock:
        for field in fields(body, 0, len(body)):
            if field.number == 1:
                if field.wire != BYTES:
                    raise WireTypeError(field.tag)
                series = _Series(body, field)
                entry = cache._get(body, series)
                out.add(series.encode(body, entry.encoded, server_ms), series.samples, entry.verdict)
            elif field.number == 3:
                check(body, field, METADATA)
                out.metadata += body[field.tag : field.end]
                out.metadata_count += 1
            elif field.number in (4, 5):
                raise VersionError(field.tag)
    return out.result()


def filled(size: int, write: Callable[[Any], int]) -> bytes:
    """See `interface.Wire.filled`."""
    room = bytearray(size)
    if write(room) != size:
        raise SizeError(0)
    return bytes(room)


def skip(chunk: bytes, offset: int, count: int) -> tuple[int, int]:
    """See `interface.Wire.skip`."""
    samples = 0
    for _ in range(count):
        if offset >= len(chunk):
            raise TruncatedError(offset)
        entry = Field(chunk, offset, len(chunk))
        samples += sum(part.number in _SAMPLES for part in fields(chunk, entry.start, entry.end))
        offset = entry.end
    return offset, samples


def tally(chunk: bytes) -> tuple[int, int, int]:
    """See `interface.Wire.tally`."""
    counts = {2: 0, 3: 0, 4: 0}
    for entry in fields(chunk, 0, len(chunk)):
        if entry.number == 1:
            if entry.wire != BYTES:
                raise WireTypeError(entry.tag)
            for part in fields(chunk, entry.start, entry.end):
                if part.number in counts:
                    counts[part.number] += 1
    return counts[2], counts[3], counts[4]


# --- remote write 2.0 -----------------------------------------------------------------------------------------------


class _Symbols:
    """The symbol table of a 2.0 request, with a limit on what references to it may expand to."""

    def __init__(self, body: bytes, limit: int) -> None:
        self._body, self._left = body, limit
        self._table: list[bytes] = []
        for field in fields(body, 0, len(body)):
            if field.number in (1, 2, 3):
                raise VersionError(field.tag)
            if field.number in (4, 5) and field.wire != BYTES:
                raise WireTypeError(field.tag)
            if field.number == 4:
                if not self._table and field.end > field.start:
                    raise SymbolError(field.tag)
                self._table.append(body[field.start : field.end])

    def get(self, ref: int, offset: int) -> bytes:
        """Return the symbol that a reference at an offset means."""
        if ref >= len(self._table):
            raise SymbolError(offset)
        return self._table[ref]

    def spend(self, parts: Iterable[bytes], offset: int) -> None:
        """Count expanded bytes."""
        self._left -= sum(map(len, parts))
        if self._left < 0:
            raise SizeError(offset)

    def labels(self, field: Field) -> list[tuple[bytes, bytes]]:
        """Return the labels that field 1 of a message refers to, packed or not."""
        refs: list[bytes] = []
        for part in fields(self._body, field.start, field.end):
            if part.number == 1:
                pos = part.start
                while pos < part.end:
                    ref, behind = read_varint(self._body, pos, part.end)
                    refs.append(self.get(ref, pos))
                    pos = behind
        if len(refs) % 2:
            raise SymbolError(field.tag)
        if len(refs) > 2 * MAX_LABELS:
            raise LabelCountError(field.tag)
        self.spend(refs, field.tag)
        return list(zip(refs[::2], refs[1::2], strict=True))


def decode_v2(body: bytes, limit: int) -> bytes:
    """See `interface.Wire.decode_v2`."""
    symbols = _Symbols(body, limit)
    out = bytearray()
    described: dict[bytes, bytes] = {}
    for field in fields(body, 0, len(body)):
        if field.number == 5:
            validate(body, field.start, field.end, SERIES_V2)
            out += _field(b"\x0a", _series_v1(body, field, symbols, described))
    return bytes(out) + b"".join(described.values())


def _series_v1(body: bytes, field: Field, symbols: _Symbols, described: dict[bytes, bytes]) -> bytes:
    """Return a valid 2.0 series as 1.0 message, and remember the metadata of a family that has none yet."""
    labels = symbols.labels(field)
    out = bytearray(_put_labels(labels))
    for part in fields(body, field.start, field.end):
        if part.number == 2:
            out += _field(b"\x12", body[part.start : part.end])
        elif part.number == 3:
            out += _field(b"\x22", body[part.start : part.end])
        elif part.number == 4:
            kept = (item for item in fields(body, part.start, part.end) if item.number != 1)
            rest = b"".join(body[item.tag : item.end] for item in kept)
            out += _field(b"\x1a", _put_labels(symbols.labels(part)) + rest)
        elif part.number == 5:
            _describe(body, part, _name(labels), symbols, described)
    return bytes(out)


def _name(labels: Labels) -> bytes:
    """Return the metric name among labels."""
    return next((value for name, value in labels if name == b"__name__"), b"")


def _describe(body: bytes, field: Field, name: bytes, symbols: _Symbols, described: dict[bytes, bytes]) -> None:
    """Turn the metadata of a series into that of its family, the first of a request."""
    kind, texts = 0, {3: b"", 4: b""}
    for part in fields(body, field.start, field.end):
        if part.number == 1:
            kind = read_varint(body, part.start, part.end)[0]
        elif part.number in texts:
            texts[part.number] = symbols.get(read_varint(body, part.start, part.end)[0], part.start)
    if kind in _SUFFIXED_TYPES:
        name = next((name[: -len(suffix)] for suffix in _SUFFIXES if name.endswith(suffix)), name)
    if not name or name in described or not (kind or texts[3] or texts[4]):
        return
    symbols.spend((name, texts[3], texts[4]), field.tag)
    message = b"\x08" + _put_varint(kind) if kind else b""
    for tag, text in ((b"\x12", name), (b"\x22", texts[3]), (b"\x2a", texts[4])):
        message += _field(tag, text) if text else b""
    described[name] = _field(b"\x1a", message)


# --- encoding for other protocols -----------------------------------------------------------------------------------


def encode_labels(labels: Labels) -> bytes:
    """See `interface.Wire.encode_labels`."""
    for index, (name, value) in enumerate(labels):
        try:
            name.decode()
            value.decode()
        except UnicodeDecodeError:
            raise LabelError(index) from None
        if not name:
            raise LabelError(index)
    return _put_labels(labels)


def encode_series(labels: bytes, timestamps: Sequence[int], values: Sequence[float]) -> bytes:
    """See `interface.Wire.encode_series`."""
    if len(timestamps) != len(values):
        raise SampleError(min(len(timestamps), len(values)))
    out = bytearray(labels)
    for index, (time_ms, value) in enumerate(zip(timestamps, values, strict=True)):
        if not -(1 << 63) <= time_ms < 1 << 63:
            raise SampleError(index)
        bits = struct.pack("<d", value)
        sample = b"\x09" + bits if any(bits) else b""
        sample += b"\x10" + _put_varint(time_ms & (1 << 64) - 1) if time_ms else b""
        out += _field(b"\x12", sample)
    return _field(b"\x0a", bytes(out))
