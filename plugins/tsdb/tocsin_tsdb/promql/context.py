"""What all nodes of one query share: times, limits, annotations."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from .frames import Frame
from .interface import Float64Array, Int64Array, Queryable, QueryCanceled, QueryTimeout, SampleStats, TooManySamples
from .nodes import Node
from .numbers import format_general
from .source import place

_MOST_ANNOTATIONS = 10


@dataclass(slots=True)
class Budget:
    """Samples in memory, against a limit. A cell of a (series x steps) matrix counts as a sample."""

    limit: int
    held: int = 0
    peak: int = 0
    total: int = 0

    @property
    def left(self) -> int:
        """Samples that may still be loaded."""
        return self.limit - self.held

    def hold(self, samples: int) -> None:
        """Account for samples about to be kept. Raises TooManySamples."""
        self.held += samples
        self.peak = max(self.peak, self.held)
        if self.held > self.limit:
            raise TooManySamples

    def keep(self, held_before: int, samples: int) -> None:
        """Account for the end of a piece of work that leaves so many samples behind and nothing else."""
        self.held = held_before
        self.hold(samples)

    def stats(self) -> SampleStats:
        """Return what the query used."""
        return SampleStats(self.total, self.peak)


@dataclass(slots=True)
class Notes:
    """Annotations of a query, each text once, in order."""

    query: str
    warnings: dict[str, None] = field(default_factory=dict)
    infos: dict[str, None] = field(default_factory=dict)

    def warn(self, node: Node, text: str) -> None:
        """Something is wrong with the query or the data; the answer may mislead."""
        self.warnings[f"PromQL warning: {text} ({place(self.query, node.span.start)})"] = None

    def info(self, node: Node, text: str) -> None:
        """Something looks odd."""
        self.infos[f"PromQL info: {text} ({place(self.query, node.span.start)})"] = None

    def warn_about_quantiles(self, node: Node, quantiles: Float64Array) -> None:
        """Warn about every quantile outside of [0, 1]."""
        for q in np.unique(quantiles[~((quantiles >= 0) & (quantiles <= 1))]).tolist():
            self.warn(node, f"quantile value should be between 0 and 1, got {format_general(q)}")

    def listed(self, texts: dict[str, None], kind: str) -> tuple[str, ...]:
        """Return the first few texts, and how many more there were."""
        shown = list(texts)[:_MOST_ANNOTATIONS]
        if len(texts) > len(shown):
            shown.append(f"{len(texts) - len(shown)} more {kind} annotations omitted")
        return tuple(shown)


@dataclass(frozen=True, slots=True)
class Control:
    """When a running query has to stop."""

    cancelled: Callable[[], bool]
    deadline: float
    clock: Callable[[], float] = time.monotonic

    def check(self) -> None:
        """Raise QueryCanceled or QueryTimeout when it is time to stop."""
        if self.cancelled():
            raise QueryCanceled
        if self.clock() > self.deadline:
            raise QueryTimeout


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One query being evaluated at `times` (equidistant, ascending, [steps]).

    `start_ms`, `end_ms` and `step_ms` are those of the whole query, which `@ start()`, `@ end()`, `step()` and
    `range()` refer to also inside a subquery.
    """

    queryable: Queryable
    times: Int64Array
    start_ms: int
    end_ms: int
    step_ms: int
    lookback_ms: int
    subquery_step_ms: int
    budget: Budget
    notes: Notes
    control: Control

    @property
    def steps(self) -> int:
        """Number of evaluation times."""
        return len(self.times)

    def at(self, times: Int64Array) -> Evaluation:
        """Return the same evaluation at other times."""
        return replace(self, times=times)

    def spread(self, frame: Frame) -> Frame:
        """Repeat a one-step frame over all steps."""
        shape = (len(frame.labels), self.steps)
        return Frame(frame.labels, np.broadcast_to(frame.values, shape), np.broadcast_to(frame.present, shape))
