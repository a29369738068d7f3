"""The syntax tree. Every node knows its place in the query (`span`) and its type (`kind`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from .durationterms import Grid, Term, is_constant, milliseconds
from .interface import Matcher
from .source import Span

Kind: TypeAlias = Literal["scalar", "vector", "matrix", "string"]
At: TypeAlias = int | Literal["start", "end"]
"""Fixed evaluation time: milliseconds, or one of the query's bounds."""

Extension: TypeAlias = Literal["anchored", "smoothed"]
"""How a selector may look beyond the edges of its window."""

KIND_NAMES: dict[Kind, str] = {
    "scalar": "scalar",
    "vector": "instant vector",
    "matrix": "range vector",
    "string": "string",
}

COMPARISONS = frozenset(("==", "!=", ">", "<", ">=", "<="))
SET_OPERATORS = frozenset(("and", "or", "unless"))


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's type. `variadic` 0: exactly `args`; n > 0: the last may be left out or repeated up to n times in
    all; -1: the last may be left out or repeated without limit."""

    name: str
    args: tuple[Kind, ...]
    returns: Kind
    variadic: int = 0


@dataclass(slots=True)
class Node:
    """Common part of all nodes."""

    span: Span


@dataclass(slots=True)
class NumberLiteral(Node):
    """A number; `is_duration` when it was written as one (`5m`), the value is in seconds."""

    value: float
    kind: ClassVar[Kind] = "scalar"
    is_duration: bool = False


@dataclass(slots=True)
class StringLiteral(Node):
    """A quoted text."""

    value: str
    kind: ClassVar[Kind] = "string"


@dataclass(slots=True)
class VectorSelector(Node):
    """`name{matchers} offset o @ t`; `name` is the metric name written before the braces, if any.

    Here and below, a `term` is set where a duration was written as arithmetic. If that depends on the query's times,
    its milliseconds are 0 until `bind`.
    """

    name: str
    matchers: tuple[Matcher, ...]
    offset_ms: int | None = None
    at: At | None = None
    may_match_empty: bool = False
    extension: Extension | None = None
    offset_term: Term | None = None
    kind: ClassVar[Kind] = "vector"


@dataclass(slots=True)
class MatrixSelector(Node):
    """`selector[range]`; `offset` and `@` stand in the selector."""

    selector: VectorSelector
    range_ms: int
    range_term: Term | None = None
    kind: ClassVar[Kind] = "matrix"


@dataclass(slots=True)
class Subquery(Node):
    """`expr[range:step]`; step None means the engine's default."""

    expr: Expr
    range_ms: int
    step_ms: int | None
    offset_ms: int | None = None
    at: At | None = None
    range_term: Term | None = None
    step_term: Term | None = None
    offset_term: Term | None = None
    kind: ClassVar[Kind] = "matrix"


@dataclass(slots=True)
class Call(Node):
    """A function call."""

    function: Signature
    args: list[Expr]

    @property
    def kind(self) -> Kind:
        """The type of the value."""
        return self.function.returns


@dataclass(slots=True)
class Aggregate(Node):
    """`operator by (grouping) (param, expr)`, or `without`; no clause at all is the same as `by ()`."""

    operator: str
    expr: Expr
    param: Expr | None
    grouping: tuple[str, ...]
    without: bool
    kind: ClassVar[Kind] = "vector"


@dataclass(slots=True)
class Matching:
    """How the two sides of a binary operator find each other. `group` names the side with many elements."""

    on: bool = False
    labels: tuple[str, ...] = ()
    explicit: bool = False
    group: Literal["left", "right"] | None = None
    include: tuple[str, ...] = ()
    fill_left: float | None = None
    fill_right: float | None = None


@dataclass(slots=True)
class Binary(Node):
    """`left operator right`; `operator_span` covers the operator and its modifiers."""

    operator: str
    left: Expr
    right: Expr
    operator_span: Span
    return_bool: bool = False
    matching: Matching = field(default_factory=Matching)
    kind: Kind = field(init=False)

    def __post_init__(self) -> None:
        self.kind = "scalar" if self.left.kind == self.right.kind == "scalar" else "vector"


@dataclass(slots=True)
class Unary(Node):
    """A sign before an expression other than a number."""

    operator: str
    expr: Expr

    @property
    def kind(self) -> Kind:
        """The type of the value."""
        return self.expr.kind


@dataclass(slots=True)
class Paren(Node):
    """An expression in parentheses."""

    expr: Expr

    @property
    def kind(self) -> Kind:
        """The type of the value."""
        return self.expr.kind


Expr: TypeAlias = (
    NumberLiteral
    | StringLiteral
    | VectorSelector
    | MatrixSelector
    | Subquery
    | Call
    | Aggregate
    | Binary
    | Unary
    | Paren
)


def unwrap(expr: Expr) -> Expr:
    """Strip parentheses."""
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr


def chain(expr: Binary) -> tuple[Expr, list[Binary]]:
    """Take a chain of operators that groups to the left (`a + b - c`) apart: its first operand, then the operations
    in order. Walking it in a loop keeps long chains from nesting as deep as they are long."""
    operations: list[Binary] = []
    first: Expr = expr
    while isinstance(first, Binary):
        operations.append(first)
        first = first.left
    return first, operations[::-1]


def children(expr: Expr) -> list[Expr]:
    """Return the direct sub-expressions in evaluation order; of a chain of operators, all operands."""
    match expr:
        case Call():
            return expr.args
        case Aggregate():
            return [expr.expr] if expr.param is None else [expr.param, expr.expr]
        case Binary():
            first, operations = chain(expr)
            return [first, *(operation.right for operation in operations)]
        case Subquery() | Unary() | Paren():
            return [expr.expr]
        case MatrixSelector():
            return [expr.selector]
        case _:
            return []


def bind(expr: Expr, query: str, grid: Grid) -> None:
    """Give every duration that depends on the query's times its value. Raises ParseError for one that cannot be."""

    def value(term: Term, *, positive: bool) -> int:
        return milliseconds(term, query, expr.span.start, grid, positive=positive)

    if isinstance(expr, VectorSelector | Subquery) and expr.offset_term and not is_constant(expr.offset_term):
        expr.offset_ms = value(expr.offset_term, positive=False)
    if isinstance(expr, MatrixSelector | Subquery) and expr.range_term and not is_constant(expr.range_term):
        expr.range_ms = value(expr.range_term, positive=True)
    if isinstance(expr, Subquery) and expr.step_term and not is_constant(expr.step_term):
        expr.step_ms = value(expr.step_term, positive=True)
    for child in children(expr):
        bind(child, query, grid)


def depends_on_grid(expr: Expr) -> bool:
    """Tell whether any duration depends on the query's times, so that `bind` would change the tree."""
    terms = []
    if isinstance(expr, VectorSelector | Subquery):
        terms.append(expr.offset_term)
    if isinstance(expr, MatrixSelector | Subquery):
        terms.append(expr.range_term)
    if isinstance(expr, Subquery):
        terms.append(expr.step_term)
    changing = any(term is not None and not is_constant(term) for term in terms)
    return changing or any(depends_on_grid(child) for child in children(expr))
