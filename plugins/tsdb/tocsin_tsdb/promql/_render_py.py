"""Points of answers as JSON text, with NumPy and orjson: the twin of `_render.pyx`.

A row is one series: its head (all that comes before its first point), its points, its end. `heads` holds the heads of all rows
one after the other, `ends` where each of them ends. The text is `before`, the rows parted by commas, and `after`: it is built
once, for copying an answer of many megabytes costs as much as writing its numbers. Times are written in seconds, values as
strings with the shortest exact digits.
"""

from __future__ import annotations

from itertools import compress, pairwise

import numpy as np
import numpy.typing as npt
import orjson

from .interface import BoolArray, Float64Array, Int64Array
from .numbers import format_json, time_token

_PLAIN_MIN, _PLAIN_MAX = 1e-5, 1e15
"""Between these magnitudes orjson writes the same digits as Go, but for a final `.0`."""


def grid_rows(
    before: bytes,
    heads: bytes,
    ends: Int64Array,
    stamps: Int64Array,
    values: Float64Array,
    present: npt.NDArray[np.uint8],
    after: bytes,
) -> bytes:
    """Write the points of a grid, [rows x steps], where `present` is not 0; every row has at least one."""
    times = _time_prefixes(stamps)
    there = present.astype(np.bool_)
    counts = np.count_nonzero(there, axis=1).tolist()
    odd = np.count_nonzero(there & ~_is_plain(values), axis=1).tolist()
    out = []
    for row, head in enumerate(_cut(heads, ends)):
        prefixes, numbers = times, values[row]
        if counts[row] < len(times):
            prefixes, numbers = list(compress(times, there[row].tolist())), numbers[there[row]]
        out.append(_row(head, prefixes, _value_tokens(numbers) if odd[row] else _tokens(numbers, [])))
    return _joined(before, out, after)


def sample_rows(
    before: bytes,
    heads: bytes,
    ends: Int64Array,
    offsets: Int64Array,
    stamps: Int64Array,
    values: Float64Array,
    after: bytes,
) -> bytes:
    """Write samples in CSR form, [offsets[row], offsets[row + 1]) for each row; every row has at least one."""
    out = []
    for row, head in enumerate(_cut(heads, ends)):
        part = slice(int(offsets[row]), int(offsets[row + 1]))
        out.append(_row(head, _time_prefixes(stamps[part]), _value_tokens(values[part])))
    return _joined(before, out, after)


def vector_rows(before: bytes, heads: bytes, ends: Int64Array, stamp: int, values: Float64Array, after: bytes) -> bytes:
    """Write one point for each row, all at the same time."""
    middle = b'[%b,"' % time_token(stamp)
    rows = zip(_cut(heads, ends), _value_tokens(values), strict=True)
    return _joined(before, [b'%b%b%b"]}' % (head, middle, token) for head, token in rows], after)


def _joined(before: bytes, rows: list[bytes], after: bytes) -> bytes:
    if rows:
        rows[0] = before + rows[0]
        rows[-1] += after
    return b",".join(rows) or before + after


def _cut(heads: bytes, ends: Int64Array) -> list[bytes]:
    bounds = [0, *ends.tolist()]
    return [heads[start:end] for start, end in pairwise(bounds)]


def _value_tokens(values: Float64Array) -> list[bytes]:
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


def _time_prefixes(timestamps: Int64Array) -> list[bytes]:
    """Return the text between the value before and the value at each time."""
    return [b'"],[%b,"' % time_token(each) for each in timestamps.tolist()]


def _row(head: bytes, prefixes: list[bytes], texts: list[bytes]) -> bytes:
    """Return one row; `prefixes` and `texts` are as long as it has points, at least one."""
    pieces: list[bytes] = [b""] * (2 * len(prefixes) + 2)
    pieces[0] = head
    pieces[1:-1:2] = prefixes
    pieces[2:-1:2] = texts
    pieces[1] = prefixes[0][3:]
    pieces[-1] = b'"]]}'
    return b"".join(pieces)
