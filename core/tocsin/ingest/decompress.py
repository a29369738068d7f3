"""Decompression with a bound that holds before memory is taken.

Every protocol uses these functions and no codec of its own, so a body of a few kilobytes cannot become gigabytes.
"""

from __future__ import annotations

import mmap
import zlib

import cramjam

from tocsin.ingest.interface import SizeError
from tocsin.ingest.wire import wire

GZIP, ZLIB = 31, 15
"""Window arguments for `inflate`."""
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""How zstd data begins. No snappy block does: after this length it would have to begin with literals, not with a copy."""

_STEP = 1 << 20
_SNAPPY_YIELD = 64  # bytes that a snappy element yields at most,
_SNAPPY_ELEMENT = 3  # and the size of the shortest element that does


class DecompressError(ValueError):
    """The body is not what its encoding says."""


class TooLargeError(DecompressError):
    """The body is larger, once decompressed, than the limit."""


def snappy(body: bytes, limit: int) -> bytes:
    """Decompress a snappy block.

    :param limit: largest accepted result in bytes; the block names its size up front.
    :raises DecompressError: corrupt, or larger than `limit`.
    """
    try:
        size = cramjam.snappy.decompress_raw_len(body)
    except cramjam.DecompressionError as error:
        raise DecompressError("snappy: corrupt input") from error
    if size > limit:
        raise TooLargeError(f"snappy: {size} bytes decompressed, limit {limit}")
    if size * _SNAPPY_ELEMENT > len(body) * _SNAPPY_YIELD:
        raise DecompressError("snappy: corrupt input")
    try:
        return wire.filled(size, lambda room: cramjam.snappy.decompress_raw_into(body, room))
    except (cramjam.DecompressionError, SizeError) as error:
        raise DecompressError("snappy: corrupt input") from error


def zstd(body: bytes, limit: int) -> bytes:
    """Decompress zstd data (one or more frames).

    :param limit: largest accepted result in bytes.
    :raises DecompressError: corrupt, cut off, followed by something else, or larger than `limit`.
    """
    # Frames need not say how large they are. Pages of a mapping cost nothing until they are written to.
    with mmap.mmap(-1, limit + 1) as room:
        try:
            size = cramjam.zstd.decompress_into(body, room)
        except cramjam.DecompressionError as error:
            if "whole buffer" in str(error):
                raise TooLargeError(f"zstd: more than {limit} bytes decompressed") from error
            raise DecompressError("zstd: corrupt input") from error
        if size > limit:
            raise TooLargeError(f"zstd: more than {limit} bytes decompressed")
        return room[:size]


def inflate(body: bytes, limit: int, window: int) -> bytes:
    """Decompress gzip (one or more members) or zlib data.

    :param limit: largest accepted result in bytes; decompression stops there.
    :param window: `GZIP` or `ZLIB`.
    :raises DecompressError: corrupt, cut off, followed by something else, or larger than `limit`.
    """
    name = "gzip" if window == GZIP else "deflate"
    parts: list[bytes] = []
    size = 0
    while True:
        stream = zlib.decompressobj(window)
        while not stream.eof:
            try:
                part = stream.decompress(body, min(_STEP, limit - size + 1))
            except zlib.error as error:
                raise DecompressError(f"{name}: corrupt input") from error
            body = stream.unconsumed_tail
            size += len(part)
            parts.append(part)
            if size > limit:
                raise TooLargeError(f"{name}: more than {limit} bytes decompressed")
            if not part and not stream.eof and not body:
                raise DecompressError(f"{name}: unexpected end of input")
        body = stream.unused_data
        if not body:
            return b"".join(parts)
        if window != GZIP:
            raise DecompressError(f"{name}: data after the end")
