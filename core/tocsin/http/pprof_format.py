"""The profile format of the usual profiling tools: a gzipped protobuf message (`profile.proto`), written by hand.

Only what we need of it: symbolised stacks with one value per sample type, and string labels.
"""

import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Frame(NamedTuple):
    """One call: the function (its qualified name), where it is defined and the line being executed."""

    function: str
    filename: str
    first_line: int
    line: int


Stack = tuple[Frame, ...]
"""Frames of one thread, innermost first."""


class ValueType(NamedTuple):
    """What a sample's value counts, e.g. ("cpu", "nanoseconds")."""

    kind: str
    unit: str


@dataclass(frozen=True)
class Sample:
    """A stack with one value per sample type of the profile."""

    stack: Stack
    values: Sequence[int]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Profile:
    """A whole profile; `time_ns` is when it began (Unix time), `period` the sampling interval in `period_type`."""

    sample_types: Sequence[ValueType]
    samples: Iterable[Sample]
    program: str
    time_ns: int
    duration_ns: int = 0
    period_type: ValueType | None = None
    period: int = 0
    default_type: str = ""
    comment: str = ""


def encode(profile: Profile) -> bytes:
    """Return the profile as the tools expect it in a file or a response body: protobuf, gzipped."""
    return gzip.compress(_Writer().write(profile), compresslevel=6, mtime=0)


def _varint(value: int) -> bytes:
    """Encode an integer; negative ones as their 64-bit two's complement, as protobuf's int64 does."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    """Encode a scalar field; the default value is left out, as protobuf does."""
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    """Encode a string or message field; an empty one is written, because it may be an element of a list."""
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, values)))


class _Writer:
    """Collects strings, functions and locations, each once, while the samples are written."""

    _MAPPING = 1

    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}  # the format demands that the first string is empty
        self._functions: dict[tuple[str, str, int], int] = {}
        self._locations: dict[Frame, int] = {}
        self._tables = bytearray()

    def write(self, profile: Profile) -> bytes:
        out = bytearray()
        for sample_type in profile.sample_types:
            out += _bytes(1, self._value_type(sample_type))
        for sample in profile.samples:
            out += _bytes(2, self._sample(sample))
        out += _bytes(3, self._mapping(profile.program))
        out += self._tables
        out += _number(9, profile.time_ns) + _number(10, profile.duration_ns)
        if profile.period_type:
            out += _bytes(11, self._value_type(profile.period_type)) + _number(12, profile.period)
        if profile.comment:
            out += _packed(13, [self._string(profile.comment)])
        out += _number(14, self._string(profile.default_type))
        # Last, because everything before it may add to them; protobuf readers take fields in any order.
        for text in self._strings:
            out += _bytes(6, text.encode("utf-8", "replace"))
        return bytes(out)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _value_type(self, value_type: ValueType) -> bytes:
        return _number(1, self._string(value_type.kind)) + _number(2, self._string(value_type.unit))

    def _sample(self, sample: Sample) -> bytes:
        out = _packed(1, [self._location(frame) for frame in sample.stack]) + _packed(2, sample.values)
        for name, value in sample.labels.items():
            out += _bytes(3, _number(1, self._string(name)) + _number(2, self._string(value)))
        return out

    def _mapping(self, program: str) -> bytes:
        # The three flags say that names, files and lines are known, so that no tool looks for the binary.
        return (
            _number(1, self._MAPPING) + _number(5, self._string(program)) + b"".join(_number(f, 1) for f in (7, 8, 9))
        )

    def _function(self, frame: Frame) -> int:
        key = frame[:3]
        number = self._functions.get(key)
        if number is None:
            number = self._functions[key] = len(self._functions) + 1
            name = self._string(frame.function)
            body = _number(1, number) + _number(2, name) + _number(3, name)
            body += _number(4, self._string(frame.filename)) + _number(5, frame.first_line)
            self._tables += _bytes(5, body)
        return number

    def _location(self, frame: Frame) -> int:
        number = self._locations.get(frame)
        if number is None:
            number = self._locations[frame] = len(self._locations) + 1
            line = _number(1, self._function(frame)) + _number(2, frame.line)
            self._tables += _bytes(4, _number(1, number) + _number(2, self._MAPPING) + _bytes(4, line))
        return number
