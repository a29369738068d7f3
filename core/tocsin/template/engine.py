"""The front door: function table, preambles and the cache of compiled templates."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import nodes
from .builtins import BUILTINS
from .compiler import Compiler, Mode, Template
from .errors import Limits, Reason, TemplateError
from .expressions import Expressions
from .parser import Parser
from .runtime import Expression
from .values import Function

Preamble = Sequence[tuple[str, str]]
"""Variables declared before a text, in order: ``(("$labels", ".TagsMap"), ("$value", ".TriggerValue"))``."""


class CacheInfo(NamedTuple):
    """Counts of the cache of compiled templates since the engine was made."""

    hits: int
    misses: int
    evictions: int
    size: int
    capacity: int


class TemplateEngine:
    """Compiles templates against one table of functions.

    ``functions`` come on top of Go's predefined ones and may replace them. ``cache_size`` compiled templates are kept,
    the least recently used one goes first. Safe for use from several threads.
    """

    def __init__(
        self, functions: Mapping[str, Function] | None = None, limits: Limits | None = None, cache_size: int = 2048
    ) -> None:
        self.functions: Mapping[str, Function] = {**BUILTINS, **(functions or {})}
        self.limits = limits or Limits()
        self._capacity = cache_size
        self._cache: OrderedDict[tuple[Any, ...], Template] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = self._evictions = 0

    def compile(
        self,
        name: str,
        text: str,
        mode: Mode = Mode.TEXT,
        preamble: Preamble = (),
        extra: frozenset[str] = frozenset(),
        builtin_only: bool = False,
    ) -> Template:
        """The compiled template, from the cache if it is there.

        ``name`` appears in errors. ``preamble`` variables do not move the positions in errors. ``extra`` names functions that each
        ``render`` brings along. ``builtin_only`` leaves Go's own functions only. Raises :class:`TemplateError`.
        """
        key = (name, text, mode, tuple(preamble), extra, builtin_only)
        with self._lock:
            known = self._cache.get(key)
            if known is not None:
                self._cache.move_to_end(key)
                self._hits += 1
                return known
            self._misses += 1
        template = self._build(name, text, mode, preamble, extra, BUILTINS if builtin_only else self.functions)
        with self._lock:
            self._cache[key] = template
            while len(self._cache) > self._capacity:
                self._cache.popitem(last=False)
                self._evictions += 1
        return template

    def render(
        self,
        name: str,
        text: str,
        data: Any,
        mode: Mode = Mode.TEXT,
        preamble: Preamble = (),
        extra: Mapping[str, Callable[..., Any]] | None = None,
    ) -> str:
        """Compile (or take from the cache) and render in one go; text without actions is returned as it is."""
        if "{{" not in text and mode is Mode.TEXT and len(text) <= self.limits.source:
            return text
        return self.compile(name, text, mode, preamble, frozenset(extra or ())).render(data, extra)

    def cache_info(self) -> CacheInfo:
        """Hits, misses, evictions, size and capacity."""
        with self._lock:
            return CacheInfo(self._hits, self._misses, self._evictions, len(self._cache), self._capacity)

    def _build(
        self,
        name: str,
        text: str,
        mode: Mode,
        preamble: Preamble,
        extra: frozenset[str],
        functions: Mapping[str, Function],
    ) -> Template:
        if len(text) > self.limits.source:
            message = f"template has {len(text)} characters, at most {self.limits.source} are allowed"
            raise TemplateError(name, 1, None, message, Reason.LIMIT)
        names = functions.keys() | extra
        usable = {key: function for key, function in functions.items() if key not in extra}
        try:
            unit = Parser(name, text, names, [variable for variable, _ in preamble]).parse()
            body = Compiler(unit, usable, mode).main()
            prepare = self._prepare(name, preamble, names, usable)
        except RecursionError:
            raise TemplateError(name, 1, None, "nested too deeply", Reason.LIMIT) from None
        return Template(unit, body, self.limits, prepare, extra)

    def _prepare(
        self, name: str, preamble: Preamble, names: set[str], functions: Mapping[str, Function]
    ) -> list[Expression]:
        """Compile the preamble's expressions; each sees the variables before it."""
        prepared: list[Expression] = []
        for place, (variable, expression) in enumerate(preamble):
            known = [earlier for earlier, _ in preamble[:place]]
            unit = Parser(name, f"{{{{{expression}}}}}", names, known).parse()
            action = unit.main.body[0]
            if not isinstance(action, nodes.Action):
                raise TemplateError(name, 1, None, f"preamble {variable}: not an expression", Reason.SYNTAX)
            prepared.append(Expressions(unit, name, functions).pipeline(action.pipe))
        return prepared
