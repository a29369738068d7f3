"""Series as Python values, for people and for backends that want text. Not on the hot path."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tocsin.ingest._wire_read_py import Field, fields, read_varint

_MINUS = 1 << 63


class DecodedSeries(NamedTuple):
    """A series: label names and values, and samples as Unix milliseconds and value."""

    labels: list[tuple[str, str]]
    samples: list[tuple[int, float]]

    def __str__(self) -> str:
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels)
        samples = " ".join(f"{value:g}@{time_ms}" for time_ms, value in self.samples)
        return f"{{{labels}}} {samples}".rstrip()


def decode_series(message: bytes) -> DecodedSeries:
    """Decode a valid `TimeSeries` message; bytes that are not UTF-8 become U+FFFD, histograms are left out."""
    labels, samples = [], []
    for field in fields(message, 0, len(message)):
        if field.number == 1:
            labels.append(_label(message, field))
        elif field.number == 2:
            samples.append(_sample(message, field))
    return DecodedSeries(labels, samples)


def decode_chunk(chunk: bytes) -> Iterator[DecodedSeries]:
    """Decode the entries of a chunk one after another."""
    for field in fields(chunk, 0, len(chunk)):
        yield decode_series(chunk[field.start : field.end])


def _label(message: bytes, field: Field) -> tuple[str, str]:
    parts = {1: "", 2: ""}
    for part in fields(message, field.start, field.end):
        parts[part.number] = message[part.start : part.end].decode(errors="replace")
    return parts[1], parts[2]


def _sample(message: bytes, field: Field) -> tuple[int, float]:
    value, time_ms = 0.0, 0
    for part in fields(message, field.start, field.end):
        if part.number == 1:
            (value,) = struct.unpack_from("<d", message, part.start)
        elif part.number == 2:
            time_ms = (read_varint(message, part.start, part.end)[0] + _MINUS) % (1 << 64) - _MINUS
    return time_ms, value
