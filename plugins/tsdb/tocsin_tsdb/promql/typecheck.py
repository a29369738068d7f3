"""What a grammar cannot say: types of operands and arguments, and which modifiers go together."""

from __future__ import annotations

from . import nodes
from .durations import quote
from .interface import METRIC_NAME, ParseError
from .nodes import COMPARISONS, KIND_NAMES, SET_OPERATORS, Expr, Kind, Node
from .regex import matches_empty
from .source import parse_error

_SCALAR_PARAM = frozenset(("topk", "bottomk", "quantile", "limitk", "limit_ratio"))
_OPERAND_KINDS = ("scalar", "vector")


def check(query: str, expr: Expr) -> None:
    """Raise ParseError for the first ill-typed part, inner parts before outer ones."""
    _Checker(query).visit(expr)


class _Checker:
    def __init__(self, query: str) -> None:
        self.query = query

    def _error(self, node: Node, message: str) -> ParseError:
        return parse_error(self.query, node.span.start, message)

    def visit(self, expr: Expr) -> None:
        match expr:
            case nodes.Aggregate():
                self._aggregate(expr)
            case nodes.Binary():
                first, operations = nodes.chain(expr)
                self.visit(first)
                for operation in operations:
                    self.visit(operation.right)
                    self._binary(operation)
            case nodes.Call():
                self._call(expr)
            case nodes.Unary():
                self.visit(expr.expr)
                if expr.expr.kind not in _OPERAND_KINDS:
                    wanted = "unary expression only allowed on expressions of type scalar or instant vector"
                    raise self._error(expr, f"{wanted}, got {quote(KIND_NAMES[expr.expr.kind])}")
            case nodes.Subquery():
                self.visit(expr.expr)
                if expr.expr.kind != "vector":
                    raise self._error(expr, f"subquery is only allowed on instant vector, got {expr.expr.kind} instead")
            case nodes.VectorSelector():
                self._selector(expr)
            case _:
                for child in nodes.children(expr):
                    self.visit(child)

    def _expect(self, expr: Expr, wanted: Kind, context: str) -> None:
        self.visit(expr)
        if expr.kind != wanted:
            raise self._error(expr, f"expected type {KIND_NAMES[wanted]} in {context}, got {KIND_NAMES[expr.kind]}")

    def _aggregate(self, node: nodes.Aggregate) -> None:
        self._expect(node.expr, "vector", "aggregation expression")
        if node.param is not None:
            wanted: Kind = "scalar" if node.operator in _SCALAR_PARAM else "string"
            self._expect(node.param, wanted, "aggregation parameter")

    def _binary(self, node: nodes.Binary) -> None:
        at = node.operator_span.start
        comparison = node.operator in COMPARISONS
        kinds = (node.left.kind, node.right.kind)
        if node.return_bool and not comparison:
            raise parse_error(self.query, at, "bool modifier can only be used on comparison operators")
        if comparison and not node.return_bool and kinds == ("scalar", "scalar"):
            raise parse_error(self.query, at, "comparisons between scalars must use BOOL modifier")
        matching = node.matching
        both = sorted(set(matching.labels) & set(matching.include), key=matching.labels.index)
        if matching.on and both:
            message = f"label {quote(both[0])} must not occur in ON and GROUP clause at once"
            raise parse_error(self.query, at, message)
        for side in (node.left, node.right):
            if side.kind not in _OPERAND_KINDS:
                raise self._error(side, "binary expression must contain only scalar and instant vector types")
        filled = matching.fill_left is not None or matching.fill_right is not None
        if kinds != ("vector", "vector"):
            if matching.labels:
                raise self._error(node, "vector matching only allowed between instant vectors")
            if filled:
                raise self._error(node, "filling in missing series only allowed between instant vectors")
            if node.operator in SET_OPERATORS:
                raise self._error(node, f"set operator {quote(node.operator)} not allowed in binary scalar expression")
        elif node.operator in SET_OPERATORS:
            if matching.group is not None:
                raise self._error(node, f"no grouping allowed for {quote(node.operator)} operation")
            if filled:
                raise self._error(node, "filling in missing series not allowed for set operators")

    def _call(self, node: nodes.Call) -> None:
        signature, count = node.function, len(node.args)
        most = len(signature.args) if signature.variadic == 0 else len(signature.args) - 1 + signature.variadic
        name = quote(signature.name)
        if signature.variadic == 0 and count != most:
            raise self._error(node, f"expected {most} argument(s) in call to {name}, got {count}")
        least = len(signature.args) - (signature.variadic != 0)
        if count < least:
            raise self._error(node, f"expected at least {least} argument(s) in call to {name}, got {count}")
        if signature.variadic > 0 and count > most:
            raise self._error(node, f"expected at most {most} argument(s) in call to {name}, got {count}")
        if signature.name == "info" and count > 1:
            self._info_selector(node.args[1])
        for index, arg in enumerate(node.args):
            wanted = signature.args[min(index, len(signature.args) - 1)]
            self._expect(arg, wanted, f"call to function {name}")

    def _info_selector(self, selector: Expr) -> None:
        if not isinstance(selector, nodes.VectorSelector):
            raise self._error(selector, "expected label selectors only")
        if selector.name:
            raise self._error(selector, "expected label selectors only, got vector selector instead")
        selector.may_match_empty = True

    def _selector(self, node: nodes.VectorSelector) -> None:
        names = [matcher for matcher in node.matchers if matcher.name == METRIC_NAME]
        if node.name:
            if len(names) > 1:
                raise self._error(
                    node, f"metric name must not be set twice: {quote(node.name)} or {quote(names[0].value)}"
                )
        elif not node.may_match_empty and all(matches_empty(matcher) for matcher in node.matchers):
            raise self._error(node, "vector selector must contain at least one non-empty matcher")
