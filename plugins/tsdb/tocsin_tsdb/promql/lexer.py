"""From query text to tokens with positions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .durations import quote
from .interface import ParseError
from .source import parse_error

AGGREGATORS = frozenset(
    [
        "avg",
        "bottomk",
        "count",
        "count_values",
        "group",
        "limit_ratio",
        "limitk",
        "max",
        "min",
        "quantile",
        "stddev",
        "stdvar",
        "sum",
        "topk",
    ]
)
WORD_OPERATORS = frozenset(("and", "or", "unless", "atan2"))
MODIFIER_WORDS = frozenset(
    [
        "bool",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "offset",
        "fill",
        "fill_left",
        "fill_right",
        "anchored",
        "smoothed",
    ]
)
PREPROCESSORS = frozenset(("start", "end", "step", "range"))
_LITERALS = frozenset(("string", "number", "duration"))
_PUNCTUATION = frozenset("(){}[],=:")
_SHOWN = 10
_NUMBER_WORDS = frozenset(("inf", "nan"))
_KEYWORDS = AGGREGATORS | WORD_OPERATORS | MODIFIER_WORDS | PREPROCESSORS

_SPACE = re.compile(r"[ \t\n\r]+")
_COMMENT = re.compile(r"#[^\r\n]*")
_WORD = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F_]*|[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?[\d_]*)?")
_DURATION_REST = re.compile(r"[smhdwy]s?(?:\d+[smhdw]s?)*")
_MORE_DIGITS = re.compile(r"\d+")
_WORD_CHARACTER = re.compile(r"[A-Za-z0-9_]")
_OPERATORS = re.compile(r"==|!=|>=|<=|[-+*/%^<>=@,]")
_BRACES_OPERATORS = re.compile(r"=~|!~|!=|=|,")
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class Token:
    """One lexical item.

    `kind` is `identifier`, `metric`, `number`, `duration`, `string`, `eof`, `error`, or the operator or (lower-case)
    keyword itself. `text` is the source text; of strings it is the unquoted value, of errors the whole message.
    """

    kind: str
    text: str
    start: int
    end: int

    def describe(self, query: str) -> str:
        """Name the token the way error messages do."""
        source = query[self.start : self.end]
        if self.kind == "eof":
            return "end of input"
        if self.kind == "identifier":
            return f"identifier {quote(source)}"
        if self.kind == "metric":
            return f"metric identifier {quote(source)}"
        if self.kind in AGGREGATORS:
            return f"<aggr:{source}>"
        if self.kind in MODIFIER_WORDS:
            return f"<{source}>"
        if self.kind in _LITERALS or self.kind in PREPROCESSORS or self.kind in _PUNCTUATION:
            text = quote(source[:_SHOWN]) + ("..." if len(source) > _SHOWN else "")
            return f"{self.kind} {text}" if self.kind in _LITERALS else text
        return f"<op:{source}>"


def tokenize(query: str) -> list[Token]:
    """Return all tokens; the last one is of kind `eof`, or `error` at the first character that fits nowhere.

    An error is a token because something before it may be wrong too, and what comes first is what should be reported.
    """
    lexer = _Lexer(query)
    try:
        lexer.run()
    except ParseError as problem:
        lexer.tokens.append(Token("error", str(problem), lexer.pos, len(query)))
    return lexer.tokens


class _Lexer:
    def __init__(self, query: str) -> None:
        self.query = query
        self.pos = 0
        self.parens = 0
        self.in_bracket = False
        self.in_braces = False
        self.tokens: list[Token] = []

    def run(self) -> None:
        while self._skip_blank():
            if self.in_braces:
                self._inside_braces()
            else:
                self._statement()
        self._check_closed()
        self.tokens.append(Token("eof", "", self.pos, self.pos))

    def _skip_blank(self) -> bool:
        while self.pos < len(self.query):
            blank = _SPACE.match(self.query, self.pos) or _COMMENT.match(self.query, self.pos)
            if blank is None:
                return True
            self.pos = blank.end()
        return False

    def _check_closed(self) -> None:
        if self.in_braces:
            raise self._error("unexpected end of input inside braces")
        if self.parens:
            raise self._error("unclosed left parenthesis")
        if self.in_bracket:
            raise self._error("unclosed left bracket")

    def _error(self, message: str) -> ParseError:
        return parse_error(self.query, self.pos, message)

    def _emit(self, kind: str, end: int, text: str | None = None) -> None:
        value = self.query[self.pos : end] if text is None else text
        self.tokens.append(Token(kind, value, self.pos, end))
        self.pos = end

    def _statement(self) -> None:
        char = self.query[self.pos]
        following = self.query[self.pos + 1 : self.pos + 2]
        if char.isascii() and (char.isdigit() or (char == "." and following.isdigit())):
            self._number_or_duration()
        elif char in "\"'`":
            self._string(char)
        elif char == ":" and self.in_bracket:
            self._emit(":", self.pos + 1)
        elif word := _WORD.match(self.query, self.pos):
            self._word(word.group(), word.end())
        elif char in "()[]{":
            self._bracket(char)
        elif char == "=" and following == "~":
            raise self._error("unexpected character after '=': '~'")
        elif operator := _OPERATORS.match(self.query, self.pos):
            self._emit(operator.group(), operator.end())
        elif char == "!":
            raise self._error(f"unexpected character after '!': {_rune(following)}")
        else:
            raise self._error(f"unexpected character: {_rune(char)}")

    def _word(self, word: str, end: int) -> None:
        lower = word.lower()
        if lower in _NUMBER_WORDS:
            self._emit("number", end)
        elif lower in _KEYWORDS:
            self._emit(lower, end)
        else:
            self._emit("metric" if ":" in word else "identifier", end)

    def _bracket(self, char: str) -> None:
        if char == "(":
            self.parens += 1
        elif char == ")":
            self.parens -= 1
            if self.parens < 0:
                self.pos += 1  # reported where the parenthesis ends, as by the reference
                raise self._error(f"unexpected right parenthesis {_rune(char)}")
        elif char == "[":
            if self.in_bracket:
                raise self._error(f"unexpected left bracket {_rune(char)}")
            self.in_bracket = True
        elif char == "]":
            if not self.in_bracket:
                raise self._error(f"unexpected right bracket {_rune(char)}")
            self.in_bracket = False
        else:
            self.in_braces = True
        self._emit(char, self.pos + 1)

    def _inside_braces(self) -> None:
        char = self.query[self.pos]
        if char == "}":
            self.in_braces = False
            self._emit(char, self.pos + 1)
        elif char in "\"'`":
            self._string(char)
        elif label := _LABEL.match(self.query, self.pos):
            self._emit("identifier", label.end())
        elif operator := _BRACES_OPERATORS.match(self.query, self.pos):
            self._emit(operator.group(), operator.end())
        elif char == "{":
            raise self._error(f"unexpected left brace {_rune(char)}")
        elif char == "!":
            following = self.query[self.pos + 1 : self.pos + 2]
            raise self._error(f"unexpected character after '!' inside braces: {_rune(following)}")
        else:
            raise self._error(f"unexpected character inside braces: {_rune(char)}")

    def _number_or_duration(self) -> None:
        """Read as much as can be a number; if a letter follows, it must be the unit of a duration."""
        number = _NUMBER.match(self.query, self.pos)
        end = number.end() if number else self.pos
        if not _WORD_CHARACTER.match(self.query, end) and self.query[end - 1] not in "eExX+-_":
            self._emit("number", end)
            return
        rest = _DURATION_REST.match(self.query, end)
        if rest:
            digits = _MORE_DIGITS.match(self.query, rest.end())
            end = digits.end() if digits else rest.end()
            if not _WORD_CHARACTER.match(self.query, end) and not digits:
                self._emit("duration", end)
                return
            end += not digits
        raise self._error(f"bad number or duration syntax: {quote(self.query[self.pos : end])}")

    def _string(self, mark: str) -> None:
        start = self.pos
        if mark == "`":
            end = self.query.find("`", start + 1)
            if end < 0:
                raise self._error("unterminated raw string")
            self._emit("string", end + 1, self.query[start + 1 : end])
            return
        out: list[str] = []
        at = start + 1
        while True:
            char = self.query[at : at + 1]
            if char in ("", "\n"):
                raise self._error("unterminated quoted string")
            if char == mark:
                break
            if char == "\\":
                text, at = self._escape(at + 1, mark)
                out.append(text)
            else:
                out.append(char)
                at += 1
        raw = "".join(out)
        self._emit("string", at + 1, _from_bytes(raw) if any("\udc80" <= c <= "\udcff" for c in raw) else raw)

    def _escape(self, at: int, mark: str) -> tuple[str, int]:
        char = self.query[at : at + 1]
        if char == "":
            raise self._error("escape sequence not terminated")
        if char == mark:
            return char, at + 1
        if char in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[char], at + 1
        if char in "01234567":
            digits, base, at = self.query[at : at + 3], 8, at + 3
            wanted = 3
        elif char in _HEX_ESCAPES:
            wanted = _HEX_ESCAPES[char]
            digits, base, at = self.query[at + 1 : at + 1 + wanted], 16, at + 1 + wanted
        else:
            raise self._error(f"unknown escape sequence {_code_point(char)}")
        if len(digits) < wanted or not all(c in "0123456789abcdefABCDEF"[: 8 if base == 8 else 22] for c in digits):
            bad = next((c for c in digits if c not in "0123456789abcdefABCDEF"), "")
            raise self._error(
                f"illegal character {_code_point(bad)} in escape sequence" if bad else "escape sequence not terminated"
            )
        code = int(digits, base)
        if char in "uU" and (code > 0x10FFFF or 0xD800 <= code < 0xE000):
            raise self._error(f"escape sequence is an invalid Unicode code point {code:#x}")
        if char not in "uU" and code >= 0x80:  # a raw byte: kept as a surrogate until the whole string is decoded
            return chr(0xDC00 + (code & 0xFF)), at
        return chr(code), at


def _from_bytes(text: str) -> str:
    """Join bytes written as escapes to characters where they are valid UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _rune(char: str) -> str:
    if not char:
        return "'\\ufffd'"
    return "'\\''" if char == "'" else f"'{quote(char)[1:-1] if char != chr(34) else char}'"


def _code_point(char: str) -> str:
    return f"U+{ord(char):04X} '{char}'" if char else "U+FFFD"
