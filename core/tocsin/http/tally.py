"""A counter by one label with thousands of values, which are added to together.

PERF: the client library makes an object for each value, which takes longer than to handle all that a host sends in a request.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.mmap_dict import MmapedDict


class Tally:
    """Registered as a collector for a process of its own; with several, in a file as the client library's other values.

    It is a gauge to the library, since its name lacks ``_total`` (see :meth:`~tocsin.http.metrics.Metrics.bare_counter`).
    Not to be added to by several threads at once.
    """

    def __init__(self, name: str, doc: str, label: str) -> None:
        self._name, self._doc, self._label = name, doc, label
        self._values: dict[str, int] = {}
        self._file: Any = None
        self._pid = 0

    def add(self, counts: Mapping[str, int]) -> None:
        """Add to the values of some labels."""
        if self._pid != os.getpid():
            self._open()
        for value, count in counts.items():
            known = self._values.get(value)
            total = self._values[value] = count + (self._found(value) if known is None else known)
            if self._file is not None:
                self._file.write_value(self._key(value), float(total), 0.0)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the values of this process (the registry's protocol)."""
        family = GaugeMetricFamily(self._name, self._doc, labels=(self._label,))
        for value, total in list(self._values.items()):  # a thread may be adding
            family.add_metric((value,), total)
        yield family

    def _open(self) -> None:
        """Begin in a process, which may be the child of one that had values."""
        self._pid, self._values, self._file = os.getpid(), {}, None
        if directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            name = (
                f"gauge_sum_{self._pid}-{self._name.replace('_', '-')}.db"  # the library takes it apart at underscores
            )
            self._file = MmapedDict(str(Path(directory, name)))  # type: ignore[no-untyped-call]
            weakref.finalize(self, self._file.close)

    def _found(self, value: str) -> int:
        """Return what the file has for a value: an earlier process may have had this one's number."""
        return 0 if self._file is None else int(self._file.read_value(self._key(value))[0])

    def _key(self, value: str) -> str:
        """Return what the library's files call a value."""
        return orjson.dumps([self._name, self._name, {self._label: value}, self._doc]).decode()
