"""Write the corpus of the wire functions: run it after adding a case.

Each valid file has a `.json` beside it with the series that it means; each invalid one with the error class and the offset,
worked out by hand from the format. Bodies are given as bytes here, piece by piece, so that a reader can follow them.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def varint(value: int) -> bytes:
    """Encode a varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, payload: bytes) -> bytes:
    """Encode a length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def label(name: bytes, value: bytes) -> bytes:
    """Encode a label as a field of its series."""
    return field(1, field(1, name) + field(2, value))


def sample(value: float, time_ms: int) -> bytes:
    """Encode a sample as a field of its series."""
    return field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(time_ms & (1 << 64) - 1))


UP = label(b"__name__", b"up")
PLAIN = UP + sample(1.0, 1000)
YEAR_1, YEAR_9999 = -62135596800000, 253402300799999

# name: (body, series as [labels, [[ms, value]]])
VALID: dict[str, tuple[bytes, list[Any]]] = {
    "empty": (b"", []),
    "one": (field(1, PLAIN), [[[["__name__", "up"]], [[1000, 1.0]]]]),
    "no-labels": (field(1, sample(1.0, 1)), [[[], [[1, 1.0]]]]),
    "no-samples": (field(1, UP), [[[["__name__", "up"]], []]]),
    "empty-series": (field(1, b""), [[[], []]]),
    "year-1-and-9999": (
        field(1, UP + sample(1.0, YEAR_1) + sample(2.0, YEAR_9999)),
        [[[["__name__", "up"]], [[YEAR_1, 1.0], [YEAR_9999, 2.0]]]],
    ),
    "infinite": (
        field(1, UP + sample(float("inf"), 1) + sample(float("-inf"), 2)),
        [[[["__name__", "up"]], [[1, "inf"], [2, "-inf"]]]],
    ),
    "zero-is-omitted": (field(1, UP + field(2, b"")), [[[["__name__", "up"]], [[0, 0.0]]]]),
    "timestamp-before-value": (
        field(1, UP + field(2, b"\x10\x05\x09" + struct.pack("<d", 3.0))),
        [[[["__name__", "up"]], [[5, 3.0]]]],
    ),
    "sample-before-labels": (field(1, sample(1.0, 1) + UP), [[[["__name__", "up"]], [[1, 1.0]]]]),
    "scattered-labels": (
        field(1, UP + sample(1.0, 1) + label(b"z", b"1")),
        [[[["__name__", "up"], ["z", "1"]], [[1, 1.0]]]],
    ),
    "unsorted-labels": (field(1, label(b"z", b"1") + UP), [[[["z", "1"], ["__name__", "up"]], []]]),
    "duplicate-labels": (field(1, UP + UP), [[[["__name__", "up"], ["__name__", "up"]], []]]),
    "empty-label-name": (field(1, label(b"", b"x")), [[[["", "x"]], []]]),
    "empty-label": (field(1, field(1, b"")), [[[["", ""]], []]]),
    "repeated-name-last-wins": (
        field(1, field(1, field(1, b"a") + field(2, b"v") + field(1, b"b"))),
        [[[["b", "v"]], []]],
    ),
    "overlong-varints": (
        b"\x8a\x00" + varint(len(PLAIN) + 1) + b"\x8a\x00" + UP[1:] + sample(1.0, 1000),
        [[[["__name__", "up"]], [[1000, 1.0]]]],
    ),
    "unknown-fields": (
        field(9, b"x") + b"\x58\x01" + field(1, PLAIN + field(30, b"y") + b"\xfd\x01abcd"),
        [[[["__name__", "up"]], [[1000, 1.0]]]],
    ),
    "exemplar-and-histogram": (
        field(
            1,
            PLAIN
            + field(3, label(b"trace_id", b"1") + b"\x11" + struct.pack("<d", 1.0))
            + field(4, b"\x08\x03" + field(11, b"\x08\x02\x10\x01") + field(12, b"\x02") + b"\x60\x02\x78\x01"),
        ),
        [[[["__name__", "up"]], [[1000, 1.0]]]],
    ),
    "metadata": (
        field(3, b"\x08\x01" + field(2, b"up") + field(4, b"help")) + field(1, PLAIN),
        [[[["__name__", "up"]], [[1000, 1.0]]]],
    ),
}

# name: (body, error class, offset)
INVALID: dict[str, tuple[bytes, str, int]] = {
    "length-without-body": (b"\x0a\x05", "TruncatedError", 2),
    "tag-only": (b"\x0a", "TruncatedError", 1),
    "half-a-tag": (b"\x8a", "TruncatedError", 0),
    "length-beyond-int64": (b"\x0a" + b"\xff" * 9 + b"\x01", "TruncatedError", 11),
    "varint-of-eleven-bytes": (b"\x58" + b"\x80" * 10 + b"\x01", "VarintError", 1),
    "varint-of-65-bits": (b"\x58" + b"\xff" * 9 + b"\x02", "VarintError", 1),
    "field-zero": (b"\x02\x00", "TagError", 0),
    "field-too-large": (varint(1 << 32 | 2) + b"\x00", "TagError", 0),
    "group": (b"\x0b", "WireTypeError", 0),
    "series-as-number": (b"\x08\x01", "WireTypeError", 0),
    "label-as-number": (field(1, b"\x08\x01"), "WireTypeError", 2),
    "label-name-as-number": (field(1, field(1, b"\x08\x01")), "WireTypeError", 4),
    "label-cut": (field(1, field(1, b"\x0a\x05ab")), "TruncatedError", 6),
    "sample-as-number": (field(1, b"\x10\x01"), "WireTypeError", 2),
    "value-cut": (field(1, field(2, b"\x09abc")), "TruncatedError", 5),
    "timestamp-as-double": (field(1, field(2, b"\x11" + b"\0" * 8)), "WireTypeError", 4),
    "timestamp-of-65-bits": (
        field(1, field(2, b"\x09" + b"\0" * 8 + b"\x10" + b"\xff" * 9 + b"\x02")),
        "VarintError",
        14,
    ),
    "exemplar-label-cut": (field(1, UP + field(3, field(1, b"\x0a\x09"))), "TruncatedError", 24),
    "histogram-packed-doubles": (field(1, field(4, field(10, b"\0" * 9))), "TruncatedError", 14),
    "histogram-packed-varint-cut": (field(1, field(4, field(9, b"\x80"))), "TruncatedError", 6),
    "metadata-name-as-number": (field(3, b"\x10\x01"), "WireTypeError", 2),
    "second-series-broken": (field(1, PLAIN) + b"\x0a\x7f", "TruncatedError", len(field(1, PLAIN)) + 2),
    "version-2-symbols": (field(4, b"") + field(5, b""), "VersionError", 0),
    "too-many-labels": (field(1, label(b"a", b"b") * 1025), "LabelCountError", 0),
}


def write(folder: str, name: str, body: bytes, expected: object) -> None:
    """Write one case."""
    path = HERE / folder / name
    path.with_suffix(".bin").write_bytes(body)
    path.with_suffix(".json").write_text(json.dumps(expected) + "\n")


def main() -> None:
    """Write all cases."""
    for name, (body, series) in VALID.items():
        write("valid", name, body, series)
    for name, (body, error, offset) in INVALID.items():
        write("invalid", name, body, {"error": error, "offset": offset})


if __name__ == "__main__":
    main()
