"""Trigger expressions like ``$A > 10 && $B.region in ["eu", "us"]``: arithmetic, comparison, logic, texts, lists.

Numbers are floats, values have the types number, text, bool, list and nil.  An expression is compiled once; using it can
fail with :class:`ExpressionError` for unknown variables and operands that do not fit, never with anything else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import re2

MAX_LENGTH = 4096
MAX_DEPTH = 60
TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<variable>\$[A-Za-z_]\w*(?:\.\w+)*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<operator>\*\*|==|!=|<=|>=|&&|\|\||[-+*/%^<>!?:()\[\],])
    )""",
    re.VERBOSE,
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
Variables = Mapping[str, Any]
Node = Callable[[Variables], Any]


class ExpressionError(ValueError):
    """An expression that cannot be parsed or applied; the text says where or why."""


@lru_cache(maxsize=4096)
def compile_expression(text: str) -> Node:
    """Return the function of variables that ``text`` describes; raise :class:`ExpressionError` for a syntax error."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"expression has {len(text)} characters, at most {MAX_LENGTH} are allowed")
    return _Parser(_tokens(text)).parse()


def evaluate(expression: Node, variables: Variables) -> Any:
    """Return the value of a compiled expression; raise :class:`ExpressionError`."""
    try:
        return expression(variables)
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise error if isinstance(error, ExpressionError) else ExpressionError(str(error)) from None


def is_true(value: Any) -> bool:
    """Return whether a result triggers: true, or a number above 0."""
    return value if isinstance(value, bool) else isinstance(value, float) and value > 0


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found, place = [], 0
    text = text.rstrip()
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise ExpressionError(f"unexpected {text[place:].strip()[:1]!r} at position {place}")
        kind = match.lastgroup or ""
        found.append((kind, match.group(kind), match.start(kind)))
        place = match.end()
    return [*found, ("end", "", len(text))]


class _Parser:
    """Precedence climbing over the tokens."""

    LEVELS: tuple[frozenset[str], ...] = (
        frozenset(("||", "or")),
        frozenset(("&&", "and")),
        frozenset(("==", "!=", "<", "<=", ">", ">=", "in", "not", "contains", "startsWith", "endsWith", "matches")),
        frozenset(("+", "-")),
        frozenset(("*", "/", "%")),
    )

    def __init__(self, tokens: list[tuple[str, str, int]]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0

    def parse(self) -> Node:
        node = self.ternary()
        self.expect("end", "")
        return node

    def ternary(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExpressionError(f"nested more than {MAX_DEPTH} levels deep")
        node = self.binary(0)
        if self.accept("?"):
            yes = self.ternary()
            self.expect("operator", ":")
            no = self.ternary()
            test = node
            node = lambda v: yes(v) if _bool(test(v)) else no(v)  # noqa: E731 - a node is a function
        self.depth -= 1
        return node

    def binary(self, level: int) -> Node:
        if level == len(self.LEVELS):
            return self.unary()
        node = self.binary(level + 1)
        while self.text in self.LEVELS[level] and self.kind in ("operator", "word"):
            operator = self.take()
            if operator == "not":
                self.expect("word", "in")
                operator = "not in"
            node = _apply(operator, node, self.binary(level + 1))
        return node

    def unary(self) -> Node:
        if self.kind in ("operator", "word") and self.text in ("-", "+", "!", "not"):
            operator = self.take()
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise ExpressionError(f"nested more than {MAX_DEPTH} levels deep")
            inner = self.unary()
            self.depth -= 1
            if operator in ("!", "not"):
                return lambda v: not _bool(inner(v))
            return lambda v: -_number(inner(v)) if operator == "-" else _number(inner(v))
        return self.power()

    def power(self) -> Node:
        base = self.primary()
        if self.text in ("**", "^") and self.kind == "operator":
            self.take()
            exponent = self.unary()
            return lambda v: _power(_number(base(v)), _number(exponent(v)))
        return base

    def primary(self) -> Node:
        kind, text, place = self.tokens[self.place]
        self.place += 1
        if kind == "number":
            number = float(text)
            return lambda v: number
        if kind == "text":
            literal = re.sub(r"\\(.)", lambda found: ESCAPES.get(found.group(1), found.group(1)), text[1:-1])
            return lambda v: literal
        if kind == "variable":
            return lambda v: _variable(v, text)
        if kind == "word":
            return self.word(text, place)
        if text == "(":
            node = self.ternary()
            self.expect("operator", ")")
            return node
        if text == "[":
            items = self.arguments("]")
            return lambda v: [item(v) for item in items]
        raise ExpressionError(f"unexpected {text or 'end'!r} at position {place}")

    def word(self, text: str, place: int) -> Node:
        if text in CONSTANTS:
            constant = CONSTANTS[text]
            return lambda v: constant
        if not self.accept("("):
            raise ExpressionError(f"unknown name {text} at position {place}")
        arguments = self.arguments(")")
        if text not in FUNCTIONS:
            raise ExpressionError(f"unknown function {text} at position {place}")
        count, function = FUNCTIONS[text]
        if count is not None and len(arguments) != count:
            raise ExpressionError(f"{text} takes {count} arguments, got {len(arguments)}")
        return lambda v: function(*(argument(v) for argument in arguments))

    def arguments(self, closing: str) -> list[Node]:
        found: list[Node] = []
        while not self.accept(closing):
            if found:
                self.expect("operator", ",")
            found.append(self.ternary())
        return found

    @property
    def kind(self) -> str:
        return self.tokens[self.place][0]

    @property
    def text(self) -> str:
        return self.tokens[self.place][1]

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1][1]

    def accept(self, operator: str) -> bool:
        found = self.kind == "operator" and self.text == operator
        self.place += found
        return found

    def expect(self, kind: str, text: str) -> None:
        if self.kind != kind or self.text != text:
            place = self.tokens[self.place][2]
            raise ExpressionError(f"expected {text or kind!r} at position {place}, got {self.text or 'end'!r}")
        self.place += 1


def _apply(operator: str, left: Node, right: Node) -> Node:
    if operator in ("&&", "and"):
        return lambda v: _bool(left(v)) and _bool(right(v))
    if operator in ("||", "or"):
        return lambda v: _bool(left(v)) or _bool(right(v))
    function = OPERATORS[operator]
    return lambda v: function(left(v), right(v))


def _variable(variables: Variables, name: str) -> Any:
    if name not in variables:
        raise ExpressionError(f"no value for {name}")
    return variables[name]


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ExpressionError(f"expected true or false, got {value!r}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, float):
        raise ExpressionError(f"expected a number, got {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ExpressionError(f"expected a text, got {value!r}")
    return value


def _add(a: Any, b: Any) -> Any:
    return a + b if isinstance(a, str) and isinstance(b, str) else _number(a) + _number(b)


def _divide(a: Any, b: Any) -> float:
    over, under = _number(a), _number(b)
    if under:
        return over / under
    return math.nan if not over or math.isnan(over) else math.copysign(math.inf, over)


def _power(base: float, exponent: float) -> float:
    result = base**exponent
    if isinstance(result, complex):
        return math.nan
    return float(result)


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(a: Any, b: Any) -> bool:
        if isinstance(a, str) and isinstance(b, str):
            return test(a, b)
        return test(_number(a), _number(b))

    return compare


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _contained(item: Any, items: Any) -> bool:
    if not isinstance(items, list):
        raise ExpressionError(f"expected a list, got {items!r}")
    return any(_equal(item, other) for other in items)


def _matches(value: Any, pattern: Any) -> bool:
    try:
        options = re2.Options()
        options.log_errors = False
        return re2.compile(_text(pattern), options).search(_text(value)) is not None
    except re2.error as error:
        raise ExpressionError(f"bad regular expression: {error}") from None


def _between(value: Any, bounds: Any) -> bool:
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise ExpressionError("between needs a list of two numbers")
    return _number(bounds[0]) <= _number(value) <= _number(bounds[1])


OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": _add,
    "-": lambda a, b: _number(a) - _number(b),
    "*": lambda a, b: _number(a) * _number(b),
    "/": _divide,
    "%": lambda a, b: math.fmod(_number(a), _number(b)),
    "==": _equal,
    "!=": lambda a, b: not _equal(a, b),
    "<": _ordered(lambda a, b: a < b),
    "<=": _ordered(lambda a, b: a <= b),
    ">": _ordered(lambda a, b: a > b),
    ">=": _ordered(lambda a, b: a >= b),
    "in": _contained,
    "not in": lambda a, b: not _contained(a, b),
    "contains": lambda a, b: _text(b) in _text(a),
    "startsWith": lambda a, b: _text(a).startswith(_text(b)),
    "endsWith": lambda a, b: _text(a).endswith(_text(b)),
    "matches": _matches,
}
FUNCTIONS: Mapping[str, tuple[int | None, Callable[..., Any]]] = {
    "between": (2, _between),
    "abs": (1, lambda a: abs(_number(a))),
    "ceil": (1, lambda a: float(math.ceil(_number(a)))),
    "floor": (1, lambda a: float(math.floor(_number(a)))),
    "round": (1, lambda a: float(math.floor(abs(_number(a)) + 0.5)) * math.copysign(1.0, a)),
    "max": (None, lambda *values: max(_number(value) for value in values)),
    "min": (None, lambda *values: min(_number(value) for value in values)),
    "len": (1, lambda a: float(len(a))),
    "lower": (1, lambda a: _text(a).lower()),
    "upper": (1, lambda a: _text(a).upper()),
    "trim": (1, lambda a: _text(a).strip()),
    "int": (1, lambda a: float(math.trunc(float(a)))),
    "float": (1, float),
}
CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "nil": None}
