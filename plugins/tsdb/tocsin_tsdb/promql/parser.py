"""From tokens to a checked syntax tree: precedence climbing over the grammar of Prometheus 3."""

from __future__ import annotations

import math
from typing import cast

from . import nodes
from .durations import quote
from .interface import METRIC_NAME, Matcher, MatchOp
from .lexer import AGGREGATORS, MODIFIER_WORDS, PREPROCESSORS, WORD_OPERATORS
from .nodes import COMPARISONS, SET_OPERATORS, Expr
from .reader import Reader
from .regex import predicate
from .signatures import FUNCTIONS
from .source import Span
from .typecheck import check

_PRECEDENCE = {
    "or": 1,
    **dict.fromkeys(("and", "unless"), 2),
    **dict.fromkeys(COMPARISONS, 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%", "atan2"), 5),
    "^": 6,
}
_UNARY_PRECEDENCE = 6  # binds like multiplication: -1^2 is -(1^2)
_MATCH_OPS = frozenset(("=", "!=", "=~", "!~"))
_NOT_METRICS = frozenset(("bool", "on", "ignoring", "group_left", "group_right", "atan2"))
_METRIC_KEYWORDS = (AGGREGATORS | WORD_OPERATORS | MODIFIER_WORDS | PREPROCESSORS) - _NOT_METRICS
_LABEL_KEYWORDS = AGGREGATORS | WORD_OPERATORS | MODIFIER_WORDS | PREPROCESSORS
_EXPRESSION_STARTS = _METRIC_KEYWORDS | {"number", "duration", "string", "identifier", "metric", *"({+-", "error"}
_PARAMETRIC = frozenset(("bottomk", "count_values", "limit_ratio", "limitk", "quantile", "topk"))
_MAX_TIMESTAMP_MS = 1 << 62  # leaves room for offsets within 64 bits


def parse(query: str) -> Expr:
    """Parse and type-check an expression. Raises ParseError with the position of what is wrong."""
    parser = _Parser(query)
    expr = parser.whole()
    check(query, expr)
    return expr


def parse_matchers(query: str) -> tuple[Matcher, ...]:
    """Parse a series selector (`name{label="value"}`) into its matchers, as `match[]` parameters need it. Raises ParseError."""
    return _Parser(query).lone_selector()


class _Parser(Reader):
    # Expressions

    def whole(self) -> Expr:
        if self._at("eof"):
            raise self._error(0, "no expression found in input")
        expr = self.expression(1)
        if not self._at("eof"):
            raise self._unexpected()
        return expr

    def lone_selector(self) -> tuple[Matcher, ...]:
        token = self.token
        if not self._at("{", "identifier", "metric", *_METRIC_KEYWORDS):
            raise self._unexpected()
        selector = self._selector("" if token.kind == "{" else self._advance().text, token.start)
        if not self._at("eof"):
            raise self._unexpected()
        return selector.matchers

    def expression(self, minimum: int) -> Expr:
        """Parse operators of at least the given precedence."""
        self._descend()
        left = self._unary()
        while (precedence := _PRECEDENCE.get(self.token.kind, 0)) >= minimum:
            left = self._binary(left, precedence)
        self.depth -= 1
        return left

    def _unary(self) -> Expr:
        if not self._at("+", "-"):
            return self._postfix(self._primary())
        sign = self._advance()
        operand = self.expression(_UNARY_PRECEDENCE)
        span = Span(sign.start, operand.span.end)
        if isinstance(operand, nodes.NumberLiteral):
            value = -operand.value if sign.kind == "-" else operand.value
            return nodes.NumberLiteral(span, value, operand.is_duration)
        return nodes.Unary(span, sign.kind, operand)

    def _binary(self, left: Expr, precedence: int) -> Expr:
        operator = self._advance()
        return_bool = self._at("bool")
        if return_bool:
            self._advance()
        matching = self._matching()
        modifiers_end = self._last_end()
        right = self.expression(precedence if operator.kind == "^" else precedence + 1)
        return nodes.Binary(
            Span(left.span.start, right.span.end),
            operator.kind,
            left,
            right,
            Span(operator.start, modifiers_end),
            return_bool,
            matching,
        )

    def _matching(self) -> nodes.Matching:
        matching = nodes.Matching()
        if self._at("on", "ignoring"):
            matching.explicit = True
            matching.on = self._advance().kind == "on"
            matching.labels = self._label_list()
            if self._at("group_left", "group_right"):
                matching.group = "left" if self._advance().kind == "group_left" else "right"
                if not self._at(*_EXPRESSION_STARTS, "fill", "fill_left", "fill_right"):
                    raise self._unexpected("grouping opts", quote("("))
                matching.include = self._label_list() if self._at("(") else ()
        while self._at("fill", "fill_left", "fill_right") and self.tokens[self.index + 1].kind == "(":
            self._fill(matching)
        return matching

    def _fill(self, matching: nodes.Matching) -> None:
        keyword = self._advance()
        self._expect("(", "fill modifier")
        value = self._signed_number("fill modifier", "number")
        self._expect(")", "fill modifier")
        if keyword.kind in ("fill", "fill_left"):
            matching.fill_left = value
        if keyword.kind in ("fill", "fill_right"):
            matching.fill_right = value

    def _label_list(self) -> tuple[str, ...]:
        if not self._at("("):
            raise self._unexpected("grouping opts", quote("("))
        self._advance()
        names: list[str] = []
        while not self._at(")"):
            if not self._at("identifier", "string", *_LABEL_KEYWORDS):
                raise self._unexpected("grouping opts", "label")
            if self._at("string") and not self.token.text:
                raise self._error(self.token.start, "invalid label name for grouping: " + quote(""))
            names.append(self._advance().text)
            if self._at(","):
                self._advance()
            elif not self._at(")"):
                raise self._unexpected("grouping opts", '"," or ")"')
        self._advance()
        return tuple(names)

    def _primary(self) -> Expr:
        token = self.token
        if token.kind in ("number", "duration"):
            self._advance()
            return nodes.NumberLiteral(Span(token.start, token.end), self._number(token), token.kind == "duration")
        if token.kind == "string":
            self._advance()
            return nodes.StringLiteral(Span(token.start, token.end), token.text)
        if token.kind == "(":
            return self._paren()
        if token.kind == "{":
            return self._selector("", token.start)
        following = self.tokens[self.index + 1].kind if self.index + 1 < len(self.tokens) else "eof"
        if token.kind in AGGREGATORS and following in ("(", "by", "without"):
            return self._aggregate()
        if following == "(" and (token.kind == "identifier" or token.kind in PREPROCESSORS):
            return self._call()
        if token.kind in ("identifier", "metric") or token.kind in _METRIC_KEYWORDS:
            self._advance()
            return self._selector(token.text, token.start)
        raise self._unexpected()

    def _paren(self) -> Expr:
        start = self._advance().start
        inner = self.expression(1)
        if not self._at(")"):
            raise self._unexpected()
        return nodes.Paren(Span(start, self._advance().end), inner)

    # Calls and aggregations

    def _arguments(self) -> list[Expr]:
        self._advance()
        args: list[Expr] = []
        while not self._at(")"):
            args.append(self.expression(1))
            if self._at(","):
                comma = self._advance()
                if not self._at(*_EXPRESSION_STARTS):
                    raise self._error(comma.start, "trailing commas not allowed in function call args")
            elif not self._at(")"):
                raise self._unexpected()
        self._advance()
        return args

    def _call(self) -> Expr:
        name = self._advance()
        args = self._arguments()
        signature = FUNCTIONS.get(name.text)
        if signature is None:
            raise self._error(name.start, f"unknown function with name {quote(name.text)}")
        return nodes.Call(Span(name.start, self._last_end()), signature, args)

    def _aggregate(self) -> Expr:
        operator = self._advance()
        grouping: tuple[str, ...] | None = None
        without = False
        if self._at("by", "without"):
            without = self._advance().kind == "without"
            grouping = self._label_list()
        self.open_aggregations += 1
        if not self._at("("):
            raise self._unexpected()
        args = self._arguments()
        self.open_aggregations -= 1
        if grouping is None and self._at("by", "without"):
            without = self._advance().kind == "without"
            grouping = self._label_list()
        span = Span(operator.start, self._last_end())
        expected = 2 if operator.kind in _PARAMETRIC else 1
        if not args:
            raise self._error(span.start, "no arguments for aggregate expression provided")
        if len(args) != expected:
            message = "wrong number of arguments for aggregate expression provided"
            raise self._error(span.start, f"{message}, expected {expected}, got {len(args)}")
        param = args[0] if expected == 2 else None
        return nodes.Aggregate(span, operator.kind, args[-1], param, grouping or (), without)

    # Selectors

    def _selector(self, name: str, start: int) -> nodes.VectorSelector:
        matchers: list[Matcher] = []
        if self._at("{"):
            self._advance()
            while not self._at("}"):
                matchers.append(self._matcher())
                if self._at(","):
                    self._advance()
                elif not self._at("}"):
                    raise self._unexpected("label matching", '"," or "}"')
            self._advance()
        if name:
            matchers.append(Matcher(METRIC_NAME, "=", name))
        return nodes.VectorSelector(Span(start, self._last_end()), name, tuple(matchers))

    def _matcher(self) -> Matcher:
        if not self._at("identifier", "string"):
            raise self._unexpected("label matching", 'identifier or "}"')
        label = self._advance()
        if not self._at(*_MATCH_OPS):
            if label.kind == "string":
                return Matcher(METRIC_NAME, "=", label.text)
            raise self._unexpected("label matching", "label matching operator")
        operator = self._advance()
        if not self._at("string"):
            raise self._unexpected("label matching", "string")
        matcher = Matcher(label.text, cast(MatchOp, operator.kind), self._advance().text)
        try:
            predicate(matcher)
        except ValueError as problem:
            raise self._error(label.start, str(problem)) from None
        return matcher

    def _postfix(self, expr: Expr) -> Expr:
        while True:
            if self._at("["):
                expr = self._range(expr)
            elif self._at("offset"):
                self._advance()
                self._set_offset(expr)
            elif self._at("@"):
                self._advance()
                self._set_at(expr)
            elif self._at("anchored", "smoothed"):
                self._set_extension(expr)
            else:
                return expr

    def _range(self, expr: Expr) -> Expr:
        bracket = self._advance()
        range_ms, range_term = self._positive_term("subquery or range selector", "number or duration")
        if self._at(":"):
            self._advance()
            step_ms, step_term = None, None
            if not self._at("]"):
                step_ms, step_term = self._positive_term("subquery selector", 'number, duration, or "]"')
            if not self._at("]"):
                raise self._unexpected("subquery selector", quote("]"))
            span = Span(expr.span.start, self._advance().end)
            return nodes.Subquery(span, expr, range_ms, step_ms, range_term=range_term, step_term=step_term)
        if not self._at("]"):
            raise self._unexpected("subquery or range", '":" or "]"')
        end = self._advance().end
        if not isinstance(expr, nodes.VectorSelector):
            raise self._error(bracket.start, "ranges only allowed for vector selectors")
        if expr.offset_ms or expr.offset_term:
            raise self._error(bracket.start, "no offset modifiers allowed before range")
        if expr.extension is not None:
            raise self._error(bracket.start, f"no {expr.extension} modifier allowed before range")
        if expr.at is not None:
            raise self._error(bracket.start, "no @ modifiers allowed before range")
        return nodes.MatrixSelector(Span(expr.span.start, end), expr, range_ms, range_term)

    def _modified(self, expr: Expr, modifier: str) -> nodes.VectorSelector | nodes.Subquery:
        if isinstance(expr, nodes.MatrixSelector):
            return expr.selector
        if isinstance(expr, nodes.VectorSelector | nodes.Subquery):
            return expr
        where = "an instant vector selector or range vector selector or a subquery"
        raise self._error(expr.span.start, f"{modifier} modifier must be preceded by {where}")

    def _set_offset(self, expr: Expr) -> None:
        offset_ms, term = self._offset_term()
        target = self._modified(expr, "offset")
        if target.offset_ms or target.offset_term:
            raise self._error(expr.span.start, "offset may not be set multiple times")
        target.offset_ms, target.offset_term = offset_ms, term
        expr.span = Span(expr.span.start, self._last_end())

    def _set_extension(self, expr: Expr) -> None:
        extension: nodes.Extension = "anchored" if self._advance().kind == "anchored" else "smoothed"
        target = expr.selector if isinstance(expr, nodes.MatrixSelector) else expr
        if not isinstance(target, nodes.VectorSelector):
            raise self._error(expr.span.start, f"{extension} modifier must be preceded by a selector")
        if target.extension not in (None, extension):
            raise self._error(expr.span.start, "anchored and smoothed modifiers cannot be used together")
        target.extension = extension
        expr.span = Span(expr.span.start, self._last_end())

    def _set_at(self, expr: Expr) -> None:
        if self._at("start", "end"):
            at: nodes.At = "start" if self._advance().kind == "start" else "end"
            for mark in "()":
                if not self._at(mark):
                    raise self._unexpected("@", "timestamp")
                self._advance()
        else:
            seconds = self._signed_number("@", "timestamp")
            if not abs(seconds) * 1000 < _MAX_TIMESTAMP_MS:  # NaN included
                raise self._error(expr.span.start, f"timestamp out of bounds for @ modifier: {seconds:f}")
            at = math.floor(abs(seconds) * 1000 + 0.5) * (-1 if seconds < 0 else 1)
        target = self._modified(expr, "@")
        if target.at is not None:
            raise self._error(expr.span.start, "@ <timestamp> may not be set multiple times")
        target.at = at
        expr.span = Span(expr.span.start, self._last_end())


assert not SET_OPERATORS - _PRECEDENCE.keys()
