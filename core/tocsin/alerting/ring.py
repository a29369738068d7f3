"""Consistent hashing: which engine owns which rule, the same on every member without a word between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

REPLICAS = 500
MASK = 0xFFFFFFFF


def murmur3(data: bytes, seed: int = 0) -> int:
    """Return the 32-bit MurmurHash3 of ``data``."""
    value, end = seed, len(data) & ~3
    for start in range(0, end, 4):
        block = int.from_bytes(data[start : start + 4], "little") * 0xCC9E2D51 & MASK
        value ^= (block << 15 | block >> 17) * 0x1B873593 & MASK
        value = ((value << 13 | value >> 19) & MASK) * 5 + 0xE6546B64 & MASK
    if len(data) > end:
        tail = int.from_bytes(data[end:], "little") * 0xCC9E2D51 & MASK
        value ^= (tail << 15 | tail >> 17) * 0x1B873593 & MASK
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & MASK
    return value ^ value >> 16


class Ring:
    """The members of one ring; each stands at 500 points, a key belongs to the first point after its hash."""

    def __init__(self, members: Iterable[str]) -> None:
        self.members = tuple(sorted(set(members)))
        points = {murmur3(f"{i}{member}".encode()): member for member in self.members for i in range(REPLICAS)}
        self._hashes = sorted(points)
        self._owners = [points[value] for value in self._hashes]

    def owner(self, key: int) -> str | None:
        """Return the member that owns ``key``, ``None`` when the ring is empty."""
        if not self._owners:
            return None
        place = bisect_right(self._hashes, murmur3(str(key).encode()))
        return self._owners[place % len(self._owners)]
