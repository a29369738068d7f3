"""How the C library's allocator treats the blocks of a worker: request bodies and batches of some hundred kilobytes.

By default glibc returns such memory to the kernel as soon as it is freed, and has it zeroed and mapped again a moment later for
the next request, which costs a tenth of the CPU that a gateway spends. And it lets every thread keep memory of its own, so that
what one has just freed, and the processor still holds, is not what the next is given.
"""

from __future__ import annotations

import ctypes

KEPT_BYTES = 32 << 20
"""Free memory at the end of an arena that stays with the process."""
MAPPED_BYTES = 4 << 20
"""Size from which a block is mapped, and returned when it is freed; larger bodies are rare."""
ARENAS = 2

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # <malloc.h>


def keep_freed_memory() -> None:
    """Set up the allocator of this process, where it is glibc's; call it before there are threads."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in ((_MMAP_THRESHOLD, MAPPED_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES), (_ARENA_MAX, ARENAS)):
            mallopt(name, value)
