"""Reading and validating wire-format messages in plain Python: what `_wire_read.pxi` does in the compiled twin."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.ingest.interface import TagError, TruncatedError, VarintError, WireTypeError
from tocsin.ingest.messages import BYTES, FIXED32, FIXED64, VARINT, WIRE_TYPES, Kind, Schema


def read_varint(body: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read a varint of at most 64 bits; return it and the position behind it."""
    value = shift = 0
    for index in range(pos, min(end, pos + 10)):
        byte = body[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise VarintError(pos)
            return value, index + 1
        shift += 7
    if end - pos < 10:
        raise TruncatedError(pos)
    raise VarintError(pos)


class Field:
    """One field of a message: where its tag, its payload and its end are."""

    __slots__ = ("end", "number", "start", "tag", "wire")

    def __init__(self, body: bytes, pos: int, end: int) -> None:
        self.tag = pos
        tag, pos = read_varint(body, pos, end)
        self.number, self.wire = tag >> 3, tag & 7
        if not 0 < self.number < 1 << 29:
            raise TagError(self.tag)
        if self.wire == VARINT:
            self.start, size = pos, read_varint(body, pos, end)[1] - pos
        elif self.wire == BYTES:
            size, self.start = read_varint(body, pos, end)
        elif self.wire in (FIXED64, FIXED32):
            self.start, size = pos, 8 if self.wire == FIXED64 else 4
        else:
            raise WireTypeError(self.tag)
        if end - self.start < size:
            raise TruncatedError(self.start)
        self.end = self.start + size


def fields(body: bytes, pos: int, end: int) -> Iterator[Field]:
    """Walk the fields of the message between two positions."""
    while pos < end:
        field = Field(body, pos, end)
        yield field
        pos = field.end


def check(body: bytes, field: Field, kind: Kind | Schema) -> None:
    """Validate a field of a known kind, messages to their full depth."""
    if isinstance(kind, dict):
        if field.wire != BYTES:
            raise WireTypeError(field.tag)
        validate(body, field.start, field.end, kind)
    elif kind is Kind.VARINTS and field.wire == BYTES:
        pos = field.start
        while pos < field.end:
            pos = read_varint(body, pos, field.end)[1]
    elif kind is Kind.DOUBLES and field.wire == BYTES:
        if (field.end - field.start) % 8:
            raise TruncatedError(field.end - (field.end - field.start) % 8)
    elif field.wire != WIRE_TYPES[kind]:
        raise WireTypeError(field.tag)


def validate(body: bytes, pos: int, end: int, schema: Schema) -> None:
    """Validate a message; fields that the schema does not know only need to be well-formed."""
    for field in fields(body, pos, end):
        if field.number in schema:
            check(body, field, schema[field.number])
