"""The remote-write decoder in plain Python: the twin of `_wire.pyx`, for machines without a C compiler.

Both are held to the same tests. A write request (protobuf, uncompressed) is a sequence of `timeseries` (field 1) and
`metadata` (field 3); a series is a sequence of labels (1), samples (2), exemplars (3) and histograms (4). Unknown fields are
skipped as protobuf asks for.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_DOUBLE = struct.Struct("<d")


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= end or shift > 63:
            raise ValueError("truncated or overlong varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise ValueError("truncated or overlong varint")
            return value, at
        shift += 7


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield (field number, wire type, start of the whole field, start, end of its payload)."""
    while at < end:
        begin = at
        tag, at = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if number == 0 or number >= 1 << 29:
            raise ValueError("field number out of range")
        start = at
        if kind == VARINT:
            _, at = _varint(data, at, end)
        elif kind == FIXED64:
            at += 8
        elif kind == LENGTH:
            size, start = _varint(data, at, end)
            at = start + size
        elif kind == FIXED32:
            at += 4
        else:
            raise ValueError(f"unsupported wire type {kind}")
        if at > end:
            raise ValueError("field runs past the end of its message")
        yield number, kind, begin, start, at


def _sample(data: memoryview, start: int, end: int) -> tuple[int, float]:
    timestamp, value = 0, 0.0
    for number, kind, _, at, stop in _fields(data, start, end):
        if number == 1 and kind == FIXED64:
            value = _DOUBLE.unpack_from(data, at)[0]
        elif number == 2 and kind == VARINT:
            raw, _ = _varint(data, at, stop)
            timestamp = raw - (1 << 64) if raw >> 63 else raw
    return timestamp, value


class _Output:
    def __init__(self, ids: dict[bytes, int]) -> None:
        self.ids = ids
        self.sids = array("i")
        self.times = array("q")
        self.values = bytearray()
        self.unknown: list[bytes] = []
        self.metadata: list[bytes] = []
        self.ignored = 0

    def series(self, data: memoryview, start: int, end: int) -> None:
        key = bytearray()
        count = 0
        for number, kind, begin, at, stop in _fields(data, start, end):
            if kind != LENGTH:
                continue
            if number == 1:
                key += data[begin:stop]
            elif number == 2:
                timestamp, _ = _sample(data, at, stop)
                self.times.append(timestamp)
                self.values += self._value_bits(data, at, stop)
                count += 1
            elif number in (3, 4):
                self.ignored += 1
        if count == 0:
            return
        name = bytes(key)
        sid = self.ids.get(name)
        if sid is None:
            self.unknown.append(name)
            sid = -len(self.unknown)
        self.sids.extend([sid] * count)

    @staticmethod
    def _value_bits(data: memoryview, start: int, end: int) -> bytes:
        """Return the eight bytes of the value untouched: a Python float may lose the payload of a signalling NaN."""
        bits = bytes(8)
        for number, kind, _, at, stop in _fields(data, start, end):
            if number == 1 and kind == FIXED64:
                bits = bytes(data[at:stop])
        return bits


def decode(body: bytes, ids: dict[bytes, int]) -> tuple[bytes, bytes, bytes, list[bytes], list[bytes], int]:
    """Decode a write request in one pass.

    Returns the series id (int32), time (int64, ms) and value (float64) of every sample as packed native bytes, the label
    bytes of series missing in `ids` (the n-th has the id -n), the raw metadata messages, and the number of exemplars
    and histograms that were skipped. Raises ValueError for malformed input.
    """
    data = memoryview(body)
    out = _Output(ids)
    for number, kind, _, start, end in _fields(data, 0, len(data)):
        if number == 1 and kind == LENGTH:
            out.series(data, start, end)
        elif number == 3 and kind == LENGTH:
            out.metadata.append(bytes(data[start:end]))
    return out.sids.tobytes(), out.times.tobytes(), bytes(out.values), out.unknown, out.metadata, out.ignored


def split_labels(key: bytes) -> list[bytes]:
    """Split the label bytes of a series into the bytes of each label message (without tag and length)."""
    data = memoryview(key)
    return [bytes(data[start:end]) for _, _, _, start, end in _fields(data, 0, len(data))]


def labels_of(keys: list[bytes], texts: dict[bytes, tuple[str, str]]) -> list[tuple[tuple[str, str], ...]]:
    """Return the labels of series whose label messages are all in `texts`."""
    return [tuple([texts[part] for part in split_labels(key)]) for key in keys]


IN_ORDER, OUT_OF_ORDER, DUPLICATE, CONFLICT, TOO_OLD, OUT_OF_BOUNDS = range(6)


def admit(
    sids: memoryview,
    times: memoryview,
    values: memoryview,
    last_time: memoryview,
    last_value: memoryview,
    verdicts: memoryview,
    bounds: tuple[int, int, int, int, int],
) -> int:
    """Decide on every sample in order, as Prometheus's head does, and advance `last_time`/`last_value` (value bits).

    `bounds` is (newest time in the head, in-order window, out-of-order window, oldest and newest time allowed), all in ms.
    Writes one verdict per sample and returns the newest time in the head afterwards.
    """
    head_max, in_order_window, window, floor, limit = bounds
    for i in range(len(sids)):
        sid, time = sids[i], times[i]
        if time > limit or time < floor:
            verdicts[i] = OUT_OF_BOUNDS
            continue
        last = last_time[sid]
        if time > last and time >= head_max - max(in_order_window, window):
            verdicts[i] = IN_ORDER
            last_time[sid] = time
            last_value[sid] = values[i]
            head_max = max(head_max, time)
        elif time == last:
            verdicts[i] = DUPLICATE if last_value[sid] == values[i] else CONFLICT
        else:
            verdicts[i] = OUT_OF_ORDER if time >= head_max - window else TOO_OLD
    return int(head_max)
