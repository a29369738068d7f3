"""Parsed expressions, kept because rules and dashboards ask the same thing again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from .durationterms import Grid
from .nodes import Expr, bind, depends_on_grid
from .parser import parse

_MOST_CHARS = 1 << 18
_LONGEST = 1 << 13


@dataclass(slots=True)
class CacheCounts:
    """What a cache has done so far, and what it holds."""

    hits: int = 0
    misses: int = 0
    entries: int = 0


class Expressions:
    """Checked syntax trees by their text; those used least recently leave first. May be used from any thread.

    most_chars bounds the texts kept, all together: a tree takes memory in proportion to its text. What is longer than
    `longest`, and what has durations that depend on the query's grid, is parsed every time.
    """

    def __init__(self, most_chars: int = _MOST_CHARS, longest: int = _LONGEST) -> None:
        self._most_chars = most_chars
        self._longest = longest
        self._trees: OrderedDict[str, Expr] = OrderedDict()
        self._chars = 0
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    @property
    def counts(self) -> CacheCounts:
        """What the cache has done so far."""
        with self._lock:
            return CacheCounts(self._hits, self._misses, len(self._trees))

    def parsed(self, query: str, step_ms: int = 0, range_ms: int = 0) -> Expr:
        """Return the tree of a query whose grid has this step and length. It must not be changed. Raises ParseError."""
        with self._lock:
            tree = self._trees.get(query)
            if tree is not None:
                self._hits += 1
                self._trees.move_to_end(query)
                return tree
            self._misses += 1
        tree = parse(query)
        if depends_on_grid(tree):
            bind(tree, query, Grid(step_ms, range_ms))
        else:
            self._keep(query, tree)
        return tree

    def _keep(self, query: str, tree: Expr) -> None:
        if len(query) > self._longest:
            return
        with self._lock:
            if query not in self._trees:
                self._chars += len(query)
            self._trees[query] = tree
            while self._chars > self._most_chars:
                self._chars -= len(self._trees.popitem(last=False)[0])
