"""Answers as JSON, without a Python object per sample on the way."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import numpy as np
import orjson

from . import _render_py
from .interface import Int64Array, Labels, Matrix, QueryValue, Scalar, Selection, String, Vector
from .numbers import format_json, time_token

_twin: Any = _render_py
with contextlib.suppress(ImportError):  # no C compiler when the distribution was installed
    _twin = importlib.import_module("tocsin_tsdb.promql._render")


def render_data(value: QueryValue, before: bytes = b"", after: bytes = b"}") -> bytes:
    """Return `before`, the members "resultType" and "result" of the API's `data` object, and `after`.

    The brace that opens the object is written here, the one that closes it is part of `after`, so that more members can
    follow. Times are in seconds, values are strings with the shortest exact digits.
    """
    match value:
        case Scalar():
            return _single(before, b"scalar", value.timestamp_ms, format_json(value.value), after)
        case String():
            return _single(before, b"string", value.timestamp_ms, value.value, after)
        case Vector():
            text: bytes = _twin.vector_rows(
                _opening(before, b"vector") + b"[",
                *_heads(value.labels, b',"value":'),
                value.timestamp_ms,
                np.ascontiguousarray(value.values),
                b"]" + after,
            )
        case Matrix():
            text = _twin.grid_rows(
                _opening(before, b"matrix") + b"[",
                *_heads(value.labels, b',"values":['),
                value.timestamps,
                np.ascontiguousarray(value.values),
                np.ascontiguousarray(value.present).view(np.uint8),
                b"]" + after,
            )
        case Selection():
            text = _twin.sample_rows(
                _opening(before, b"matrix") + b"[",
                *_heads(value.labels, b',"values":['),
                value.offsets,
                value.timestamps,
                value.values,
                b"]" + after,
            )
    return text


def _opening(before: bytes, kind: bytes) -> bytes:
    return b'%b{"resultType":"%b","result":' % (before, kind)


def _single(before: bytes, kind: bytes, timestamp_ms: int, text: str, after: bytes) -> bytes:
    return b"%b[%b,%b]%b" % (_opening(before, kind), time_token(timestamp_ms), orjson.dumps(text), after)


def _heads(labels: list[Labels], tail: bytes) -> tuple[bytes, Int64Array]:
    """Return what comes before the points of every series, one after the other, and where each ends."""
    heads = [b'{"metric":%b%b' % (orjson.dumps(dict(each)), tail) for each in labels]
    return b"".join(heads), np.cumsum([len(head) for head in heads], dtype=np.int64)
