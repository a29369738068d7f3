"""The wire format for protocols and writers: decode the bytes of a request with bounds, encode series.

A protocol that starts from anything but remote write encodes each label set once with :func:`encode_labels` and each
series with :func:`encode_series`; the concatenation of these is the body of a :class:`~tocsin.plugin.Decoded`.
"""

from __future__ import annotations

from tocsin.ingest.decode import DecodedSeries, decode_chunk
from tocsin.ingest.decompress import GZIP, ZLIB, ZSTD_MAGIC, DecompressError, TooLargeError, inflate, snappy, zstd
from tocsin.ingest.interface import WireError
from tocsin.ingest.wire import wire

decode_v2 = wire.decode_v2
encode_labels = wire.encode_labels
encode_series = wire.encode_series
tally = wire.tally

__all__ = [
    "GZIP",
    "ZLIB",
    "ZSTD_MAGIC",
    "DecodedSeries",
    "DecompressError",
    "TooLargeError",
    "WireError",
    "decode_chunk",
    "decode_v2",
    "encode_labels",
    "encode_series",
    "inflate",
    "snappy",
    "tally",
    "zstd",
]
