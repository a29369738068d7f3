"""What the two twins of the wire functions share: types, errors, limits and the rules both must follow.

**Format.** A *chunk* is a concatenation of fields `0x0a <length> <TimeSeries message>`, which is at once a valid
remote-write 1.0 `WriteRequest` body. An *entry* is one such field: a series with all its samples. Counts are entries.

**Rules.** Both twins produce equal bytes for equal input:

- The label fields of a series come first, encoded canonically in the order that the resolver returned; everything else
  follows verbatim, unknown fields included, in its original order.
- `server_ms` replaces the timestamp of the first sample of each series and of no other.
- A request is refused whole: the first malformed byte raises and nothing of the request is returned.

**Offsets.** `WireError.offset` is the position in the body of the first byte of the item that could not be read: a tag,
a varint, or the payload whose bytes ran out. Both twins raise the same class with the same offset.

**Ownership.** Input buffers are only read during the call and never kept. Results own their bytes.

The message layouts are facts of the published remote-write 1.0 and 2.0 specifications.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

MAX_LABELS = 1024
"""Labels that one series may carry; more refuse the request."""

MAX_CACHED_LABELS = 8192
"""Longest label encoding, in bytes, that the label cache keeps; longer ones are resolved each time."""

MAX_DEBUG_SERIES = 100
"""Debug samples that one call of `rewrite` returns at most."""

Labels = Sequence[tuple[bytes, bytes]]
"""Label names and values in order."""


class WireError(ValueError):
    """A body that is not what it should be; `offset` says where.

    :ivar offset: byte position in the decompressed body.
    """

    reason = "malformed"

    def __init__(self, offset: int) -> None:
        super().__init__(f"{self.reason} at byte {offset}")
        self.offset = offset


class TruncatedError(WireError):
    """The bytes end inside an item."""

    reason = "the body ends inside a value"


class VarintError(WireError):
    """A varint has more than 64 bits."""

    reason = "a number has more than 64 bits"


class TagError(WireError):
    """A field number outside 1 to 2^29-1."""

    reason = "impossible field number"


class WireTypeError(WireError):
    """A wire type that does not fit the field, or a group."""

    reason = "the field has a wire type that does not fit"


class LabelCountError(WireError):
    """A series with more than `MAX_LABELS` labels; the offset is the series."""

    reason = f"a series has more than {MAX_LABELS} labels"


class VersionError(WireError):
    """A remote-write 2.0 body read as 1.0, or the other way round."""

    reason = "the body is of another remote-write version than announced"


class SymbolError(WireError):
    """A 2.0 symbol reference that points nowhere or lacks its partner, or a table whose first symbol is not empty."""

    reason = "a symbol reference is wrong"


class SizeError(WireError):
    """The decoded form would be larger than allowed."""

    reason = "the decoded body is larger than allowed"


class LabelError(WireError):
    """A label that cannot be encoded; the offset is its index."""

    reason = "a label has an empty name or is not UTF-8"


class SampleError(WireError):
    """A sample that cannot be encoded; the offset is its index."""

    reason = "a sample has a timestamp outside 64 bits or lacks its partner"


class Verdict(NamedTuple):
    """What becomes of a label set. A pure function of the labels until targets or rules change."""

    labels: Labels
    """The labels to forward, in output order."""
    ident: str = ""
    """Host identity, empty when there is none."""
    drop: str = ""
    """Why the series is dropped; empty keeps it."""
    debug: bool = False
    """The series is to be logged."""
    register: bool = False
    """The series announces its host."""


Resolver = Callable[[list[tuple[bytes, bytes]]], Verdict]
"""The slow path behind a label cache."""


class CacheStats(NamedTuple):
    """Counters of a label cache since it was made; `entries` may include some that were invalidated."""

    hits: int
    misses: int
    evictions: int
    entries: int


class Chunk(NamedTuple):
    """Encoded series, how many they are, and how many samples and histograms they carry."""

    data: bytes
    series: int
    samples: int


class Rewritten(NamedTuple):
    """Outcome of one pass over a request."""

    chunks: list[Chunk]
    """What to forward, each with at most `cut` entries."""
    received: int
    """Entries in the request, dropped ones included."""
    dropped: dict[str, int]
    """Entries dropped, by reason."""
    idents: dict[str, int]
    """Entries per host identity, dropped ones included."""
    registered: list[str]
    """Identities announced by at least one series, sorted."""
    debug: list[bytes]
    """Rewritten `TimeSeries` messages to log, at most `MAX_DEBUG_SERIES`."""
    metadata: bytes
    """The metadata fields of the request, `0x1a <length> <MetricMetadata>` each."""
    metadata_count: int


class LabelCacheLike(Protocol):
    """Remembers the verdict on each distinct label encoding, bounded.

    Two generations of half the capacity each: entries that were not asked for during a whole generation are evicted.
    """

    def __init__(self, resolve: Resolver, capacity: int) -> None:
        """Keep at most `capacity` verdicts (at least 2) of `resolve`."""

    def clear(self) -> None:
        """Forget everything: the rules have changed."""

    def invalidate(self, idents: Collection[str]) -> None:
        """Forget the verdicts that name one of these hosts: their targets have changed."""

    def stats(self) -> CacheStats:
        """Return the counters."""


class Wire(Protocol):
    """The wire functions, as a module."""

    IMPLEMENTATION: str
    LabelCache: type[LabelCacheLike]

    def rewrite(self, body: bytes, cache: LabelCacheLike, server_ms: int | None = None, cut: int = 0) -> Rewritten:
        """Validate a remote-write 1.0 body and apply the label work to each series.

        :param body: `WriteRequest` message, uncompressed.
        :param cache: label cache of the same twin.
        :param server_ms: Unix milliseconds for the first sample of each series; None keeps what came.
        :param cut: entries per returned chunk; 0 makes one chunk of all.
        :raises WireError: the body is malformed; nothing was taken.
        """

    def decode_v2(self, body: bytes, limit: int) -> bytes:
        """Turn a remote-write 2.0 `Request` into a 1.0 body with the same series, samples and metadata.

        :param limit: bytes that references to symbols may expand to, since one symbol can be referenced many times.
        :raises WireError: the body is malformed or expands beyond the limit.
        """

    def skip(self, chunk: bytes, offset: int, count: int) -> tuple[int, int]:
        """Return the offset behind `count` entries of a chunk that start at `offset`, and the samples in these.

        :raises WireError: the chunk ends before.
        """

    def tally(self, chunk: bytes) -> tuple[int, int, int]:
        """Return how many samples, exemplars and histograms the entries of a chunk hold; other fields are passed over.

        :raises WireError: the chunk is malformed.
        """

    def filled(self, size: int, write: Callable[[Any], int]) -> bytes:
        """Return bytes of a known size that a function writes into a buffer; it returns how many it wrote.

        PERF: what a decompressor returns is otherwise zeroed at first and copied at last.

        :raises SizeError: it wrote fewer.
        """

    def encode_labels(self, labels: Labels) -> bytes:
        """Encode labels once for use with `encode_series`.

        :raises LabelError: an empty name, or a name or value that is not UTF-8.
        """

    def encode_series(self, labels: bytes, timestamps: Sequence[int], values: Sequence[float]) -> bytes:
        """Encode one entry from encoded labels and columns of equal length.

        :param timestamps: Unix milliseconds.
        :raises SampleError: columns of unequal length or a timestamp outside 64 bits.
        """
