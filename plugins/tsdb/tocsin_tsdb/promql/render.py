"""Answers as the `data` object of the Prometheus HTTP API, without a Python object per sample on the way."""

from __future__ import annotations

from itertools import compress

import numpy as np
import orjson

from .interface import (
    BoolArray,
    Float64Array,
    Int64Array,
    Labels,
    Matrix,
    QueryValue,
    Scalar,
    Selection,
    String,
    Vector,
)
from .numbers import format_json

_PLAIN_MIN, _PLAIN_MAX = 1e-5, 1e15
"""Between these magnitudes orjson writes the same digits as Go, but for a final `.0`."""


def render_data(value: QueryValue) -> bytes:
    """Return `{"resultType": ..., "result": ...}`: times in seconds, values as strings with the shortest exact digits."""
    match value:
        case Scalar():
            return _data("scalar", _point(value.timestamp_ms, format_json(value.value)))
        case String():
            return _data("string", _point(value.timestamp_ms, value.value))
        case Vector():
            return _list("vector", _vector(value))
        case Matrix():
            return _list("matrix", _matrix(value))
        case Selection():
            return _list("matrix", _selection(value))


def _data(kind: str, result: bytes) -> bytes:
    return b'{"resultType":"%b","result":%b}' % (kind.encode(), result)


def _list(kind: str, items: list[bytes]) -> bytes:
    head = b'{"resultType":"%b","result":[' % kind.encode()
    if items:  # one join over everything, for these texts are long
        items[0] = head + items[0]
        items[-1] += b"]}"
        return b",".join(items)
    return head + b"]}"


def _point(timestamp_ms: int, text: str) -> bytes:
    return b"[%b,%b]" % (time_token(timestamp_ms), orjson.dumps(text))


def _metric(labels: Labels) -> bytes:
    return orjson.dumps(dict(labels))


def time_token(timestamp_ms: int) -> bytes:
    """Return seconds with three decimals, or none for whole seconds."""
    sign = "-" if timestamp_ms < 0 else ""
    seconds, fraction = divmod(abs(timestamp_ms), 1000)
    return (f"{sign}{seconds}.{fraction:03d}" if fraction else f"{sign}{seconds}").encode()


def value_tokens(values: Float64Array) -> list[bytes]:
    """Return every value's text."""
    return _tokens(values, np.flatnonzero(~_is_plain(values)).tolist())


def _is_plain(values: Float64Array) -> BoolArray:
    """Tell which values orjson writes as Go does."""
    size = np.abs(values)
    plain: BoolArray = ((size >= _PLAIN_MIN) & (size < _PLAIN_MAX)) | (size == 0)
    return plain


def _tokens(values: Float64Array, odd: list[int]) -> list[bytes]:
    if not len(values):
        return []
    raw = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    tokens = (raw[1:-1] + b",").replace(b".0,", b",")[:-1].split(b",")
    for index in odd:
        tokens[index] = format_json(float(values[index])).encode()
    return tokens


def _vector(value: Vector) -> list[bytes]:
    middle = b',"value":[' + time_token(value.timestamp_ms) + b',"'
    tokens = value_tokens(value.values)
    rows = zip(value.labels, tokens, strict=True)
    return [b'{"metric":%b%b%b"]}' % (_metric(labels), middle, token) for labels, token in rows]


def _matrix(value: Matrix) -> list[bytes]:
    times = _time_prefixes(value.timestamps)
    values = np.ascontiguousarray(value.values)
    counts = np.count_nonzero(value.present, axis=1).tolist()
    odd = np.count_nonzero(value.present & ~_is_plain(values), axis=1).tolist()
    out = []
    for row, labels in enumerate(value.labels):
        prefixes, numbers = times, values[row]
        if counts[row] < len(times):
            there = value.present[row]
            prefixes, numbers = list(compress(times, there.tolist())), numbers[there]
        texts = value_tokens(numbers) if odd[row] else _tokens(numbers, [])
        out.append(_series(labels, prefixes, texts))
    return out


def _selection(value: Selection) -> list[bytes]:
    out = []
    for row, labels in enumerate(value.labels):
        part = slice(int(value.offsets[row]), int(value.offsets[row + 1]))
        out.append(_series(labels, _time_prefixes(value.timestamps[part]), value_tokens(value.values[part])))
    return out


def _time_prefixes(timestamps: Int64Array) -> list[bytes]:
    """Return the text between the value before and the value at each time."""
    return [b'"],[%b,"' % time_token(each) for each in timestamps.tolist()]


def _series(labels: Labels, prefixes: list[bytes], texts: list[bytes]) -> bytes:
    """Return one series; `prefixes` and `texts` are as long as it has points, at least one."""
    pieces: list[bytes] = [b""] * (2 * len(prefixes) + 2)
    pieces[0] = b'{"metric":%b,"values":[[' % _metric(labels)
    pieces[1:-1:2] = prefixes
    pieces[2:-1:2] = texts
    pieces[1] = prefixes[0][4:]
    pieces[-1] = b'"]]}'
    return b"".join(pieces)
