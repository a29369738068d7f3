"""Bringing in samples of any age: straight into blocks, past the head and its out-of-order window."""

from __future__ import annotations

import numpy as np

from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.build import Plan
from tocsin_tsdb.storage.errors import MalformedWrite
from tocsin_tsdb.storage.index import INVALID
from tocsin_tsdb.storage.memtable import Memtable
from tocsin_tsdb.storage.planner import spans_of
from tocsin_tsdb.storage.store import Store


class Importer:
    """Collects samples and writes them as blocks. The store must not be in use otherwise."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._memtable = Memtable(store.options.tail_samples)
        self.samples = 0
        self.invalid = 0
        self.blocks = 0

    def add(self, body: bytes) -> None:
        """Take an uncompressed write request. Raises MalformedWrite, OSError."""
        index = self._store.index
        try:
            packed_sids, packed_times, packed_values, unknown, metadata, _ = wire.decode(body, index.ids)
            families = [wire.metadata_of(message) for message in metadata]
        except ValueError as error:
            raise MalformedWrite(f"malformed write request: {error}") from error
        self._store.metadata.update(families)
        sids = np.frombuffer(packed_sids, np.int32).copy()
        missing = sids < 0
        if unknown:
            sids[missing] = np.array(index.register(unknown), np.int32)[-sids[missing] - 1]
        valid = sids != INVALID
        self.invalid += int(len(sids) - valid.sum())
        if valid.any():
            times, values = np.frombuffer(packed_times, np.int64), np.frombuffer(packed_values, np.float64)
            self._memtable.append(sids[valid], times[valid], values[valid])
        if self._memtable.samples >= self._store.options.memtable_samples:
            self.flush()

    def flush(self) -> None:
        """Write what was collected as blocks. Raises OSError."""
        store, memtable, options = self._store, self._memtable, self._store.options
        if memtable.samples == 0:
            return
        sequence = store.blocks.next_sequence
        built = [
            store.builder.build(Plan([memtable], span.start, span.end, 1, sequence, []))
            for span in spans_of(memtable, options.block_range, options.largest_block)
        ]
        new = [each for each in built if each is not None]
        store.blocks.replace([], new)
        self.samples += sum(each.meta.samples for each in new)
        self.blocks += len(new)
        self._memtable = Memtable(options.tail_samples)
