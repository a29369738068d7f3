"""Write requests as arrays: the compiled decoder where it was built, else its plain-Python twin."""

from __future__ import annotations

import contextlib
import importlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin_tsdb.storage import _wire_py

_twin: Any = _wire_py
with contextlib.suppress(ImportError):  # no C compiler when the distribution was installed
    _twin = importlib.import_module("tocsin_tsdb.storage._wire")

Int32Array: TypeAlias = npt.NDArray[np.int32]
Int64Array: TypeAlias = npt.NDArray[np.int64]
Float64Array: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = tuple[tuple[str, str], ...]

COMPILED = _twin is not _wire_py
decode = _twin.decode
split_labels = _twin.split_labels
labels_of = _twin.labels_of
admit = _twin.admit

METRIC_TYPES = ("unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a sender says about a metric family."""

    family: str
    type: str
    help: str
    unit: str


def text_fields(message: bytes) -> dict[int, str]:
    """Return the length-delimited fields of a message as text, by number. Raises ValueError when it is malformed."""
    view = memoryview(message)
    return {
        number: str(view[start:end], "utf-8")
        for number, kind, _, start, end in _wire_py._fields(view, 0, len(view))
        if kind == _wire_py.LENGTH
    }


def metadata_of(message: bytes) -> Metadata:
    """Decode a MetricMetadata message: type (1), family name (2), help (4), unit (5)."""
    view = memoryview(message)
    kind = 0
    for number, wire, _, start, end in _wire_py._fields(view, 0, len(view)):
        if number == 1 and wire == _wire_py.VARINT:
            kind, _ = _wire_py._varint(view, start, end)
    texts = text_fields(message)
    name = METRIC_TYPES[kind] if kind < len(METRIC_TYPES) else "unknown"
    return Metadata(texts.get(2, ""), name, texts.get(4, ""), texts.get(5, ""))


def _length(size: int) -> bytes:
    out = bytearray()
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def _field(number: int, payload: bytes) -> bytes:
    return _length(number << 3 | _wire_py.LENGTH) + _length(len(payload)) + payload


def label_of(part: bytes) -> tuple[str, str]:
    """Decode a label message. Raises ValueError (UnicodeDecodeError included) when it is malformed."""
    texts = text_fields(part)
    return texts.get(1, ""), texts.get(2, "")


def encode_label(name: str, value: str) -> bytes:
    """Encode a label message, without tag and length."""
    return _field(1, name.encode()) + _field(2, value.encode())


def join_labels(parts: Iterable[bytes]) -> bytes:
    """Join label messages to the label fields of a `TimeSeries` message."""
    return b"".join([_field(1, part) for part in parts])


def encode_labels(labels: Iterable[tuple[str, str]]) -> bytes:
    """Encode labels, in the order given, as the label fields of a `TimeSeries` message."""
    return join_labels([encode_label(name, value) for name, value in labels])


def encode_series(key: bytes, times: Int64Array, values: Float64Array) -> bytes:
    """Encode label bytes and their samples as one `timeseries` field of a write request."""
    bits = values.view(np.int64)
    samples = [
        _field(2, b"\x09" + struct.pack("<q", bit) + b"\x10" + _length(time & 0xFFFFFFFFFFFFFFFF))
        for time, bit in zip(times.tolist(), bits.tolist(), strict=True)
    ]
    return _field(1, key + b"".join(samples))


def encode_metadata(metadata: Metadata) -> bytes:
    """Encode the description of a metric family as one `metadata` field of a write request."""
    kind = METRIC_TYPES.index(metadata.type) if metadata.type in METRIC_TYPES else 0
    texts = ((2, metadata.family), (4, metadata.help), (5, metadata.unit))
    message = b"\x08" + bytes([kind]) + b"".join([_field(number, text.encode()) for number, text in texts])
    return _field(3, message)
