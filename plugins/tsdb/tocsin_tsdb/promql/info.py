"""The `info` function: adding the labels of info series (`target_info` and the like) to other series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from . import nodes, selectors
from .context import Evaluation
from .frames import Frame, label_value, make_labels, merge_same_labels
from .interface import METRIC_NAME, BoolArray, ExecutionError, Float64Array, Int64Array, Labels, Matcher
from .labeltext import labels_text
from .regex import matches_empty, predicate
from .source import Span

_IDENTIFYING = ("instance", "job")
_DEFAULT_NAME = Matcher(METRIC_NAME, "=", "target_info")
_ANY_INFO_NAME = Matcher(METRIC_NAME, "=~", ".+_info")
_NEGATIVE = frozenset(("!=", "!~"))


def enrich(ev: Evaluation, base: Frame, selector: nodes.VectorSelector | None) -> Frame:
    """Join every series of `base` with the info series of the same instance and job, per step."""
    matchers = selector.matchers if selector else ()
    names = [matcher for matcher in matchers if matcher.name == METRIC_NAME]
    data = [matcher for matcher in matchers if matcher.name != METRIC_NAME]
    searched = names or [_DEFAULT_NAME]
    own = searched if names or selector is None else []  # what makes a series of `base` an info series itself
    if all(matcher.op in _NEGATIVE for matcher in searched):
        searched, own = [_ANY_INFO_NAME, *searched], []
    tests = [predicate(matcher) for matcher in own]
    span = selector.span if selector else Span(0, 0)
    found = selectors.instant(ev, nodes.VectorSelector(span, "", (*searched, *data), may_match_empty=True), stamps=True)
    if not base.labels:
        return base
    wanted = {matcher.name for matcher in data}
    optional = all(matches_empty(matcher) for matcher in data)
    index = _InfoIndex(found, wanted)
    parts = [_enrich_row(base, row, tests, index, optional) for row in range(len(base.labels))]
    labels = [each for part in parts for each in part[0]]
    present = np.concatenate([part[1] for part in parts])
    counts = [len(part[0]) for part in parts]
    return merge_same_labels(labels, np.repeat(base.values, counts, axis=0), present)


def _enrich_row(
    base: Frame, row: int, tests: list[Callable[[str], bool]], index: _InfoIndex, optional: bool
) -> tuple[list[Labels], BoolArray]:
    """Split one series into the series it becomes, each with the steps at which it does."""
    labels, present = base.labels[row], base.present[row]
    name = label_value(labels, METRIC_NAME)
    if tests and all(test(name) for test in tests):
        return [labels], present[None, :]
    chosen = index.newest(labels)
    out: dict[Labels, BoolArray] = {}
    for combination in np.unique(chosen, axis=1).T:
        steps = present & (chosen == combination[:, None]).all(axis=0)
        rows = [int(each) for each in combination if each >= 0]
        if steps.any() and (rows or optional):
            extended = index.extend(labels, rows)
            out[extended] = out.get(extended, np.zeros_like(present)) | steps
    if not out:
        return [], np.empty((0, base.steps), dtype=np.bool_)
    return list(out), np.stack(list(out.values()))


class _InfoIndex:
    """Info series by metric name and identifying labels; their values are the samples' times."""

    def __init__(self, found: Frame, wanted: set[str]) -> None:
        self.found = found
        self.wanted = wanted
        self.names = sorted({label_value(labels, METRIC_NAME) for labels in found.labels})
        self.rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for row, labels in enumerate(found.labels):
            self.rows[label_value(labels, METRIC_NAME), *_identity(labels)].append(row)

    def newest(self, labels: Labels) -> Int64Array:
        """Return for each info metric and step the row that belongs to a series, -1 for none."""
        steps = self.found.steps
        result = np.full((max(1, len(self.names)), steps), -1, dtype=np.int64)
        identity = _identity(labels)
        if not any(identity):
            return result
        for line, name in enumerate(self.names):
            rows = self.rows.get((name, *identity), [])
            if rows:
                stamps = np.where(self.found.present[rows], self.found.values[rows], -np.inf)
                self._refuse_ties(rows, stamps)
                best = stamps.argmax(axis=0)
                result[line] = np.where(np.isfinite(stamps.max(axis=0)), np.array(rows)[best], -1)
        return result

    def _refuse_ties(self, rows: list[int], stamps: Float64Array) -> None:
        if len(rows) < 2:
            return
        ordered = np.sort(stamps, axis=0)
        tie = np.isfinite(ordered[-1]) & (ordered[-1] == ordered[-2])
        if not tie.any():
            return
        step = int(np.flatnonzero(tie)[0])
        when = int(ordered[-1, step])
        first, second = np.flatnonzero(stamps[:, step] == when)[:2]
        texts = [labels_text(self.found.labels[rows[each]]) for each in (first, second)]
        raise ExecutionError(
            f"found duplicate series for info metric: existing {texts[0]} @ {when}, new {texts[1]} @ {when}"
        )

    def extend(self, labels: Labels, rows: list[int]) -> Labels:
        """Add the data labels of info series to a label set; its own labels win."""
        own = dict(labels)
        added: dict[str, str] = {}
        for row in rows:
            for name, value in self.found.labels[row]:
                if name == METRIC_NAME or (self.wanted and name not in self.wanted):
                    continue
                if added.get(name, value) != value:
                    raise ExecutionError(f"conflicting label: {name}")
                if name not in own:
                    added[name] = value
        return make_labels({**own, **added}.items()) if added else labels


def _identity(labels: Labels) -> tuple[str, ...]:
    return tuple(label_value(labels, name) for name in _IDENTIFYING)
