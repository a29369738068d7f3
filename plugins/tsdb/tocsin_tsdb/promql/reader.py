"""The lower half of the parser: tokens, numbers and durations."""

from __future__ import annotations

from .durations import parse_duration, quote
from .durationterms import (
    TERM_PRECEDENCE,
    TERM_SIGN_PRECEDENCE,
    Grid,
    Operation,
    Quantity,
    Term,
    is_constant,
    milliseconds,
)
from .interface import ParseError
from .lexer import Token, tokenize
from .source import parse_error

_MAX_DEPTH = 100
_LEAST = {"min": "min", "max": "max", "min_of": "min", "max_of": "max"}
_NO_GRID = Grid(0, 0)


class Reader:
    """Reads tokens one after the other; `context` and `expected` of its methods are words for error messages."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.tokens = tokenize(query)
        self.index = 0
        self.depth = 0
        self.open_aggregations = 0

    # Tokens

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self.tokens[self.index]

    def _advance(self) -> Token:
        token = self.token
        self.index += 1
        return token

    def _at(self, *kinds: str) -> bool:
        return self.token.kind in kinds

    def _expect(self, kind: str, context: str) -> Token:
        if not self._at(kind):
            raise self._unexpected(context, quote(kind))
        return self._advance()

    def _last_end(self) -> int:
        return self.tokens[self.index - 1].end

    def _unexpected(self, context: str = "", expected: str = "") -> ParseError:
        if self._at("error"):
            return ParseError(self.token.text)
        context = context or ("aggregation" if self.open_aggregations else "")
        message = f"unexpected {self.token.describe(self.query)}"
        message += f" in {context}" if context else ""
        message += f", expected {expected}" if expected else ""
        return self._error(self.token.start, message)

    def _error(self, offset: int, message: str) -> ParseError:
        return parse_error(self.query, offset, message)

    def _descend(self) -> None:
        """Go one level deeper, if that is still allowed; whoever calls this counts `depth` down again."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._error(self.token.start, f"expression nested deeper than {_MAX_DEPTH} levels")

    # Numbers

    def _number(self, token: Token) -> float:
        try:
            if token.kind == "duration":
                return parse_duration(token.text) / 1000
            return parse_number(token.text)
        except ValueError as problem:
            raise self._error(token.start, str(problem)) from None

    def _signed_number(self, context: str, expected: str) -> float:
        negative = self._at("-")
        if self._at("+", "-"):
            self._advance()
        if not self._at("number", "duration"):
            raise self._unexpected(context, expected)
        value = self._number(self._advance())
        return -value if negative else value

    # Durations

    def _offset_term(self) -> tuple[int, Term | None]:
        """Read what follows `offset`: one operand, perhaps with a sign; an operator after it is not part of it."""
        at, context = self.token.start, "offset"
        sign = self._advance() if self._at("+", "-") else None
        term = self._operand(context, "number or duration")
        if sign is not None:
            if isinstance(term, Quantity):
                term = Quantity(-term.seconds if sign.kind == "-" else term.seconds, term.is_duration)
            else:
                term = Operation(sign.kind, (term,), sign.start)
        return self._settled(term, at, positive=False)

    def _positive_term(self, context: str, expected: str) -> tuple[int, Term | None]:
        """Read a range or a step: any arithmetic."""
        at = self.token.start
        return self._settled(self._term(1, context, expected), at, positive=True)

    def _settled(self, term: Term, at: int, *, positive: bool) -> tuple[int, Term | None]:
        """Return milliseconds (0 where they depend on the query's times), and the term unless it is only a number."""
        known = is_constant(term)
        value = milliseconds(term, self.query, at, _NO_GRID, positive=positive) if known else 0
        return value, None if isinstance(term, Quantity) else term

    def _term(self, minimum: int, context: str, expected: str) -> Term:
        depth = self.depth
        self._descend()
        if self._at("+", "-"):
            sign = self._advance()
            inner = self._term(TERM_SIGN_PRECEDENCE, context, expected)
            left: Term = Operation(sign.kind, (inner,), sign.start)
        else:
            left = self._operand(context, expected)
        while (precedence := TERM_PRECEDENCE.get(self.token.kind, 0)) >= minimum:
            self._descend()  # the term so far becomes the left operand, one level down
            operator = self._advance()
            right = self._term(precedence + (operator.kind != "^"), context, expected)
            left = Operation(operator.kind, (left, right), operator.start)
        self.depth = depth
        return left

    def _operand(self, context: str, expected: str) -> Term:
        token = self.token
        if token.kind in ("number", "duration"):
            return Quantity(self._number(self._advance()), token.kind == "duration")
        if token.kind == "(":
            self._advance()
            inner = self._term(1, context, expected)
            self._expect(")", context)
            return Operation("(", (inner,), token.start)
        if token.kind in ("step", "range"):
            self._advance()
            self._expect("(", context)
            self._expect(")", context)
            return Operation(token.kind, (), token.start)
        if token.text.lower() in _LEAST and token.kind in ("identifier", "min", "max"):
            self._advance()
            self._expect("(", context)
            left = self._term(1, context, expected)
            self._expect(",", context)
            right = self._term(1, context, expected)
            self._expect(")", context)
            return Operation(_LEAST[token.text.lower()], (left, right), token.start)
        raise self._unexpected(context, expected)


def parse_number(text: str) -> float:
    """Read a number literal: decimal, hexadecimal, octal (leading 0), `_` between digits, Inf and NaN in any case."""
    lower = text.lower()
    digits = lower.replace("_", "")
    if "__" in lower or lower.endswith("_"):
        raise ValueError(f"error parsing number: strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
    if digits.startswith("0x"):
        return float(int(digits, 16))
    if len(digits) > 1 and digits[0] == "0" and set(digits) <= set("01234567"):
        return float(int(digits, 8))
    return float(digits)
