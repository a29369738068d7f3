"""The set of blocks that the store serves: opening, setting aside what is torn, swapping old for new under running readers."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tocsin_tsdb.storage.block import META, Block, FileReader, Meta, SeriesRows, load_block
from tocsin_tsdb.storage.build import UNFINISHED, Built
from tocsin_tsdb.storage.errors import CorruptBlock
from tocsin_tsdb.storage.index import INVALID, SeriesIndex
from tocsin_tsdb.storage.memtable import NEVER
from tocsin_tsdb.storage.metrics import StoreMetrics

log = logging.getLogger(__name__)


class BlockSet:
    """The open blocks in the order of `by_time`. Readers get a consistent set that stays readable while they hold it."""

    def __init__(self, directory: Path, files: FileReader, index: SeriesIndex, metrics: StoreMetrics) -> None:
        """Open every block below the directory; torn ones are moved to `corrupt/` and counted."""
        self._directory = directory
        self._files = files
        self._index = index
        self._metrics = metrics
        self._lock = threading.Lock()
        self._blocks: tuple[Block, ...] = ()
        self._load()

    @property
    def current(self) -> tuple[Block, ...]:
        """The blocks at this moment, for looking at their descriptions; use `reading` to read samples."""
        return self._blocks

    @property
    def max_time(self) -> int:
        """Newest sample in blocks (ms); `-NEVER` when there is none."""
        return max((block.meta.max_time for block in self._blocks), default=-NEVER)

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next block that is not a merge."""
        return max((block.meta.sequence for block in self._blocks), default=0) + 1

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(block.size for block in self._blocks)

    @contextlib.contextmanager
    def reading(self) -> Iterator[tuple[Block, ...]]:
        """Hold the current blocks open."""
        with contextlib.ExitStack() as held:
            with self._lock:
                blocks = tuple(held.enter_context(block) for block in self._blocks)
            yield blocks

    def replace(self, old: Sequence[Block], new: Sequence[Built]) -> None:
        """Serve new blocks in place of old ones, which are deleted when their readers have left."""
        opened = [self._open(built.path, built.meta, built.sids, built.rows) for built in new]
        with self._lock:
            kept = [block for block in self._blocks if block not in old]
            self._blocks = by_time([*kept, *opened])
        self._metrics.reloads.inc()
        for block in old:
            block.drop()

    def set_aside(self, block: Block, reason: CorruptBlock) -> None:
        """Stop serving a torn block and keep its files for inspection."""
        with self._lock:
            if block not in self._blocks:
                return
            self._blocks = tuple(each for each in self._blocks if each is not block)
        self._quarantine(block.path, reason)

    def _quarantine(self, path: Path, reason: CorruptBlock) -> None:
        self._metrics.block_corruptions.inc()
        target = self._directory / "corrupt" / path.name
        log.error("a block is torn and set aside as %s: %s", target, reason)
        try:
            target.parent.mkdir(exist_ok=True)
            path.rename(target)
        except OSError as error:
            log.error("block %s cannot be moved: %s", path, error)

    def _open(self, path: Path, meta: Meta, sids: np.typing.NDArray[np.int32], rows: SeriesRows) -> Block:
        return Block(path, meta, sids, rows, self._files)

    def _load(self) -> None:
        self._directory.mkdir(exist_ok=True)
        found: list[Block] = []
        for path in sorted(self._directory.iterdir()):
            if path.name.endswith(UNFINISHED):
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != "corrupt" and path.is_dir():
                block = self._load_one(path)
                if block is not None:
                    found.append(block)
        replaced = {source for block in found for source in block.meta.sources}
        for block in found:
            if block.meta.id in replaced:  # the merge was complete, the clean-up was not
                block.drop()
        self._blocks = by_time([block for block in found if block.meta.id not in replaced])

    def _load_one(self, path: Path) -> Block | None:
        if not (path / META).exists():
            self._quarantine(path, CorruptBlock(f"{path.name}: no {META}"))
            return None
        try:
            meta, rows = load_block(path, self._files.parquet)
            sids = np.array(self._index.register(rows.keys), np.int32)
            if len(sids) != meta.series or (sids == INVALID).any():
                raise CorruptBlock(f"{path.name}: labels cannot be read")
            return self._open(path, meta, sids, rows)
        except CorruptBlock as error:
            self._quarantine(path, error)
            return None


def by_time(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return blocks with the oldest samples first, so that their samples need no sorting.

    Those that overlap, directly or through others, come in the order of writing, for the first is right where they disagree.
    """
    groups: list[list[Block]] = []
    end = -NEVER
    for block in sorted(blocks, key=lambda block: block.meta.min_time):
        if not groups or block.meta.min_time > end:
            groups.append([])
        groups[-1].append(block)
        end = max(end, block.meta.max_time)
    return tuple(block for group in groups for block in sorted(group, key=lambda block: block.meta.sequence))
