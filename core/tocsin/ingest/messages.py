"""The protobuf messages of remote write, as tables for the validators of both twins.

Facts of the published remote-write 1.0 and 2.0 specifications. A field that no table names only has to be well-formed.
"""

from __future__ import annotations

from enum import IntEnum

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types that occur; groups are refused."""


class Kind(IntEnum):
    """What a field holds when it is no message."""

    VARINT = 1
    DOUBLE = 2
    STRING = 3
    VARINTS = 4
    """Repeated, packed or not."""
    DOUBLES = 5
    """Repeated, packed or not."""


WIRE_TYPES = {
    Kind.VARINT: VARINT,
    Kind.DOUBLE: FIXED64,
    Kind.STRING: BYTES,
    Kind.VARINTS: VARINT,
    Kind.DOUBLES: FIXED64,
}
"""Wire type of each kind, when it is not packed."""

Schema = dict[int, "Kind | Schema"]
"""Field number to kind or nested message."""

LABEL: Schema = {1: Kind.STRING, 2: Kind.STRING}
SAMPLE: Schema = {1: Kind.DOUBLE, 2: Kind.VARINT}
EXEMPLAR: Schema = {1: LABEL, 2: Kind.DOUBLE, 3: Kind.VARINT}
SPAN: Schema = {1: Kind.VARINT, 2: Kind.VARINT}
METADATA: Schema = {1: Kind.VARINT, 2: Kind.STRING, 4: Kind.STRING, 5: Kind.STRING}
HISTOGRAM: Schema = {
    1: Kind.VARINT,
    2: Kind.DOUBLE,
    3: Kind.DOUBLE,
    4: Kind.VARINT,
    5: Kind.DOUBLE,
    6: Kind.VARINT,
    7: Kind.DOUBLE,
    8: SPAN,
    9: Kind.VARINTS,
    10: Kind.DOUBLES,
    11: SPAN,
    12: Kind.VARINTS,
    13: Kind.DOUBLES,
    14: Kind.VARINT,
    15: Kind.VARINT,
    16: Kind.DOUBLES,
}
SERIES: Schema = {1: Kind.STRING, 2: SAMPLE, 3: EXEMPLAR, 4: HISTOGRAM}
"""Labels count as strings here: they are decoded, and validated, only when the label cache does not know them."""

EXEMPLAR_V2: Schema = {1: Kind.VARINTS, 2: Kind.DOUBLE, 3: Kind.VARINT}
METADATA_V2: Schema = {1: Kind.VARINT, 3: Kind.VARINT, 4: Kind.VARINT}
SERIES_V2: Schema = {1: Kind.VARINTS, 2: SAMPLE, 3: HISTOGRAM, 4: EXEMPLAR_V2, 5: METADATA_V2, 6: Kind.VARINT}

MESSAGES: tuple[Schema, ...] = (
    SERIES, LABEL, SAMPLE, EXEMPLAR, SPAN, METADATA, HISTOGRAM, EXEMPLAR_V2, METADATA_V2, SERIES_V2,
)  # fmt: skip
"""Every message; the compiled twin numbers them by this order."""
