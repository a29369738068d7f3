"""The state of one rendering, and what compiled code shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .errors import LimitError, Limits, Reason, TemplateError, locate
from .nodes import Node
from .values import NO_VALUE, Function, Record, check_argument, type_name

_SIZED = (str, bytes, list, tuple, dict)
_STEP_SIZE = 16


class Run:
    """Output, variables and remaining allowances of one rendering."""

    __slots__ = ("calls", "extra", "out", "room", "steps", "vars")

    def __init__(self, limits: Limits, extra: Mapping[str, Callable[..., Any]]) -> None:
        self.out: list[str] = []
        self.room = limits.output
        self.steps = limits.steps
        self.calls = limits.calls
        self.vars: list[Any] = []
        self.extra = extra

    def charge(self, values: Iterable[Any], cost: int = 1) -> None:
        """Pay for work on these values, ``cost`` times the usual price; :class:`LimitError` once the allowance is used up."""
        steps = 1
        for value in values:
            if isinstance(value, _SIZED):
                steps += len(value) // _STEP_SIZE
        self.steps -= steps * cost
        if self.steps < 0:
            raise LimitError("template does too much work")


Expression = Callable[[Run, Any], Any]
"""Compiled operand or pipeline: (run, dot) -> value."""

Step = Callable[[Run, Any], int]
"""Compiled item of a body: (run, dot) -> 0, or BREAK or CONTINUE."""

BREAK = 1
CONTINUE = 2


class Place:
    """A spot in the source that run-time errors name: template, executing definition, node."""

    __slots__ = ("definition", "name", "node", "source")

    def __init__(self, name: str, source: str, definition: str, node: Node) -> None:
        self.name = name
        self.source = source
        self.definition = definition
        self.node = node

    def fault(self, message: str, reason: Reason = Reason.EXECUTION) -> TemplateError:
        """The error to raise here, in Go's wording."""
        line, column = locate(self.source, self.node.pos)
        text = f'executing "{self.definition}" at <{self.node.source()}>: {message}'
        return TemplateError(self.name, line, column, text, reason)

    def failed(self, error: Exception, what: str = "") -> TemplateError:
        """The error to raise here for an exception of a function or of the printer."""
        if isinstance(error, TemplateError):
            return error
        reason = Reason.LIMIT if isinstance(error, LimitError | RecursionError | MemoryError) else Reason.EXECUTION
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return self.fault(f"{what}{message}", reason)


def member(value: Any, name: str, place: Place) -> Any:
    """``value.name`` without arguments: a map's item, or a record's field or method."""
    if isinstance(value, dict):
        return value.get(name, NO_VALUE)
    if value is NO_VALUE:
        return NO_VALUE
    if value is None:
        raise place.fault(f"nil pointer evaluating interface {{}}.{name}")
    if isinstance(value, Record):
        method = value.method(name)
        if method is not None:
            return invoke(value, name, (), place)
        try:
            return value.field(name)
        except LookupError:
            pass
    raise place.fault(f"can't evaluate field {name} in type {type_name(value)}")


def invoke(value: Any, name: str, args: tuple[Any, ...], place: Place) -> Any:
    """``value.name args``: a record's declared method."""
    method = value.method(name) if isinstance(value, Record) else None
    if method is None:
        if isinstance(value, Record) and not _has_field(value, name):
            raise place.fault(f"can't evaluate field {name} in type {type_name(value)}")
        raise place.fault(f"{name} is not a method but has arguments")
    wanted = method.minimum()
    if len(args) < wanted or (method.rest is None and len(args) > len(method.params)):
        raise place.fault(f"wrong number of args for {name}: want {wanted} got {len(args)}")
    checked = check_all(method, args, place)
    try:
        return method.call(value, *checked)
    except Exception as error:
        raise place.failed(error, f"error calling {name}: ") from error


def _has_field(record: Record, name: str) -> bool:
    try:
        record.field(name)
    except LookupError:
        return False
    return True


def check_all(method: Function, args: tuple[Any, ...], place: Place) -> list[Any]:
    """Arguments converted to the kinds a method declares."""
    kinds = [*method.params, *[method.rest or "any"] * len(args)]
    try:
        return [check_argument(kind, arg) for kind, arg in zip(kinds, args, strict=False)]
    except TypeError as error:
        raise place.fault(str(error)) from None
