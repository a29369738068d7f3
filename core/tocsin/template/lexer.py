"""Source text to tokens."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from .errors import Reason, TemplateError, locate
from .show import escape_char

SPACES = " \t\r\n"


class Kind(Enum):
    """What a token is."""

    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    SPACE = auto()
    KEYWORD = auto()
    IDENTIFIER = auto()
    BOOL = auto()
    NIL = auto()
    FIELD = auto()
    VARIABLE = auto()
    DOT = auto()
    NUMBER = auto()
    CHAR = auto()
    STRING = auto()
    RAW = auto()
    DECLARE = auto()
    ASSIGN = auto()
    PIPE = auto()
    COMMA = auto()
    LPAREN = auto()
    RPAREN = auto()
    OTHER = auto()
    EOF = auto()


class Token(NamedTuple):
    """A token: kind, its text and where it starts."""

    kind: Kind
    text: str
    pos: int


KEYWORDS = frozenset(("if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"))
_WORDS = {"true": Kind.BOOL, "false": Kind.BOOL, "nil": Kind.NIL}
_CLOSE = re.compile(r"[ \t\r\n]-\}\}|\}\}")
_COMMENT_CLOSE = re.compile(r"[ \t\r\n]-\}\}|\}\}")
_TERMINATOR = re.compile(r"[ \t\r\n.,|:()]|\}\}|\Z")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]+)?|0[oO][0-7_]*|0[bB][01_]*"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]+)?)i?"
)
_TOKEN = re.compile(
    r"(?P<SPACE>[ \t\r\n]+)|(?P<FIELD>\.(?!\d)\w+)|(?P<VARIABLE>\$\w*)|(?P<WORD>[^\W\d]\w*)|(?P<NUMBER>[+-]|\.?\d)"
    r"|(?P<DOT>\.)|(?P<DECLARE>:=)|(?P<ASSIGN>=)|(?P<PIPE>\|)|(?P<COMMA>,)|(?P<LPAREN>\()|(?P<RPAREN>\))"
    r"|(?P<STRING>\")|(?P<RAW>`)|(?P<CHAR>')|(?P<OTHER>[!-~])"
)
_QUOTED = {
    Kind.STRING: (re.compile(r'"(?:[^"\\\n]|\\[^\n])*"'), "unterminated quoted string"),
    Kind.RAW: (re.compile(r"`[^`]*`"), "unterminated raw quoted string"),
    Kind.CHAR: (re.compile(r"'(?:[^'\\\n]|\\[^\n])*'"), "unterminated character constant"),
}


class Lexer:
    """Splits one source into tokens; :meth:`run` returns them all, the last one :attr:`Kind.EOF`."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source
        self.tokens: list[Token] = []
        self.pos = 0
        self.depth = 0

    def run(self) -> list[Token]:
        """All tokens; raises :class:`TemplateError` at the first one that is malformed."""
        source = self.source
        trim = False
        while True:
            start = source.find("{{", self.pos)
            end = len(source) if start < 0 else start
            self._text(end, trim, trim_right=start >= 0 and self._has_trim_marker(start))
            if start < 0:
                self.tokens.append(Token(Kind.EOF, "", len(source)))
                return self.tokens
            trim = self._action(start)

    def _has_trim_marker(self, start: int) -> bool:
        return self.source.startswith("-", start + 2) and self.source[start + 3 : start + 4] in tuple(SPACES)

    def _text(self, end: int, trim_left: bool, trim_right: bool) -> None:
        begin = self.pos
        text = self.source[begin:end]
        if trim_left:
            stripped = text.lstrip(SPACES)
            begin += len(text) - len(stripped)
            text = stripped
        if trim_right:
            text = text.rstrip(SPACES)
        if text:
            self.tokens.append(Token(Kind.TEXT, text, begin))

    def _action(self, start: int) -> bool:
        """Lex one action or comment; true when its end trims the text after it."""
        inner = start + (4 if self._has_trim_marker(start) else 2)
        if self.source.startswith("/*", inner):
            return self._comment(start, inner)
        self.tokens.append(Token(Kind.OPEN, "{{", start))
        self.pos = inner
        self.depth = 0
        while True:
            close = _CLOSE.match(self.source, self.pos)
            if close:
                if self.depth:
                    raise self.error("unclosed left paren", self.pos)
                self.tokens.append(Token(Kind.CLOSE, "}}", close.end() - 2))
                self.pos = close.end()
                return len(close[0]) > 2
            if self.pos >= len(self.source):
                raise self.error("unclosed action", start)
            self._token()

    def _comment(self, start: int, inner: int) -> bool:
        end = self.source.find("*/", inner)
        if end < 0:
            raise self.error("unclosed comment", start)
        close = _COMMENT_CLOSE.match(self.source, end + 2)
        if not close:
            raise self.error("comment ends before closing delimiter", start)
        self.pos = close.end()
        return len(close[0]) > 2

    def _token(self) -> None:
        found = _TOKEN.match(self.source, self.pos)
        if not found:
            raise self.error(f"unrecognized character in action: {_rune(self.source[self.pos])}", self.pos)
        group = found.lastgroup or "OTHER"
        text = found[0]
        if group == "SPACE":
            self._space(found.end())
            return
        if group == "WORD":
            kind = _WORDS.get(text) or (Kind.KEYWORD if text in KEYWORDS else Kind.IDENTIFIER)
        else:
            kind = Kind[group]
        if kind in _QUOTED:
            text = self._quoted(kind)
        elif kind is Kind.NUMBER:
            text = self._number()
        elif kind is Kind.LPAREN:
            self.depth += 1
        elif kind is Kind.RPAREN:
            self._close_paren()
        self.tokens.append(Token(kind, text, self.pos))
        self.pos += len(text)
        if kind in (Kind.FIELD, Kind.VARIABLE, Kind.IDENTIFIER, Kind.KEYWORD, Kind.BOOL, Kind.NIL):
            self._expect_terminator()

    def _space(self, end: int) -> None:
        # The last blank belongs to a right trim marker when one follows.
        if self.source.startswith("-}}", end):
            end -= 1
        if end > self.pos:
            self.tokens.append(Token(Kind.SPACE, " ", self.pos))
            self.pos = end

    def _close_paren(self) -> None:
        self.depth -= 1
        if self.depth < 0:
            raise self.error("unexpected right paren", self.pos)

    def _quoted(self, kind: Kind) -> str:
        pattern, complaint = _QUOTED[kind]
        found = pattern.match(self.source, self.pos)
        if not found:
            raise self.error(complaint, self.pos)
        return found[0]

    def _number(self) -> str:
        found = _NUMBER.match(self.source, self.pos)
        text = found[0] if found else ""
        after = self.source[self.pos + len(text) : self.pos + len(text) + 1]
        if after == "_" or after.isalnum() or after in ("-", "+"):
            raise self.error(f'bad number syntax: "{text}{after}"', self.pos)
        return text

    def _expect_terminator(self) -> None:
        if not _TERMINATOR.match(self.source, self.pos):
            raise self.error(f"bad character {_rune(self.source[self.pos])}", self.pos)

    def error(self, message: str, pos: int) -> TemplateError:
        """A syntax error at a character offset."""
        return TemplateError(self.name, locate(self.source, pos)[0], None, message, Reason.SYNTAX)


def _rune(char: str) -> str:
    shown = f" '{escape_char(char)}'" if char.isprintable() else ""
    return f"U+{ord(char):04X}{shown}"
