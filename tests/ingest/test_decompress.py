"""Bounded decompression."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.ingest.decompress import GZIP, ZLIB, DecompressError, TooLargeError, inflate, snappy, zstd
from tocsin.ingest.interface import SizeError


def pack(data):
    return bytes(cramjam.snappy.compress_raw(data))


def pack_zstd(data):
    return bytes(cramjam.zstd.compress(data, 1))


CODECS = {
    "snappy": (pack, snappy),
    "zstd": (pack_zstd, zstd),
    "gzip": (gzip.compress, lambda body, limit: inflate(body, limit, GZIP)),
    "zlib": (zlib.compress, lambda body, limit: inflate(body, limit, ZLIB)),
}


@pytest.fixture(params=CODECS)
def codec(request):
    return CODECS[request.param]


@given(data=st.binary(max_size=5000), name=st.sampled_from(sorted(CODECS)))
def test_round_trip(data, name):
    compress, decompress = CODECS[name]
    assert decompress(compress(data), len(data)) == data


def test_larger_than_the_limit(codec):
    compress, decompress = codec
    data = bytes(range(256)) * 40
    assert decompress(compress(data), len(data)) == data
    with pytest.raises(TooLargeError, match=f"{len(data) - 1}"):
        decompress(compress(data), len(data) - 1)


def test_cut_and_flipped(codec):
    compress, decompress = codec
    body = compress(b"some text, some text, some text")
    for size in range(len(body)):
        with pytest.raises(DecompressError):
            decompress(body[:size], 1000)
    for index in range(len(body)):
        flipped = body[:index] + bytes([body[index] ^ 0x55]) + body[index + 1 :]
        try:
            assert len(decompress(flipped, 1000)) <= 1000
        except DecompressError:
            continue


def test_bombs_take_no_memory():
    """A body that claims or unpacks to a gigabyte is refused within a few megabytes."""
    claim = b"\x80\x80\x80\x80\x04" + b"\x00" * 100
    stream = zlib.compressobj(9, zlib.DEFLATED, GZIP)
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(200)) + stream.flush()
    tracemalloc.start()
    with pytest.raises(DecompressError):
        snappy(claim, 1 << 31)
    with pytest.raises(TooLargeError):
        inflate(bomb, 1 << 20, GZIP)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_gzip_of_several_members():
    assert inflate(gzip.compress(b"a") + gzip.compress(b"b"), 10, GZIP) == b"ab"


def test_data_after_the_end():
    with pytest.raises(DecompressError):
        inflate(gzip.compress(b"a") + b"x", 10, GZIP)
    with pytest.raises(DecompressError, match="data after the end"):
        inflate(zlib.compress(b"a") + b"x", 10, ZLIB)


@pytest.mark.parametrize("size", [0, 1, 2, 5000])
def test_a_buffer_becomes_bytes_of_its_own(wire, size):
    rooms = []

    def write(room):
        rooms.append(memoryview(room))
        rooms[-1][:] = b"x" * size
        return size

    first, second = wire.filled(size, write), wire.filled(size, write)
    assert (type(first), first, second) == (bytes, b"x" * size, b"x" * size)
    assert size == 0 or first is not second


def test_a_buffer_that_is_not_filled_is_given_to_nobody(wire):
    with pytest.raises(SizeError):
        wire.filled(4, lambda room: 3)
    with pytest.raises(SizeError):
        wire.filled(0, lambda room: 1)

    def fail(_room):
        raise LookupError("not now")

    with pytest.raises(LookupError, match="not now"):
        wire.filled(4, fail)
