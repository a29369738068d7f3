"""Go's number, character and string literals."""

from __future__ import annotations

import re

_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<hex>0[xX](?:_?[0-9a-fA-F])+)|(?P<oct>0[oO](?:_?[0-7])+)|(?P<bin>0[bB](?:_?[01])+)"
    r"|(?P<hexfloat>0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?\d+)"
    r"|(?P<float>(?:\d(?:_?\d)*)?\.(?:\d(?:_?\d)*)?(?:[eE][+-]?\d(?:_?\d)*)?|\d(?:_?\d)*[eE][+-]?\d(?:_?\d)*)"
    r"|(?P<int>\d(?:_?\d)*))"
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.?))", re.S
)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"'}
_BASES = {"hex": 16, "oct": 8, "bin": 2}


def parse_number(text: str) -> int | float:
    """The value of a number literal; raises ``ValueError`` with Go's wording."""
    found = _NUMBER.fullmatch(text)
    if not found:
        if text.endswith("i"):
            raise ValueError(f'complex numbers are not supported: "{text}"')
        raise ValueError(f'illegal number syntax: "{text}"')
    kind = found.lastgroup or "int"
    digits = text.replace("_", "").lstrip("+-")
    sign = -1 if found["sign"] == "-" else 1
    if kind == "float":
        return sign * _bounded_float(float(digits), text)
    if kind == "hexfloat":
        return sign * _bounded_float(float.fromhex(digits), text)
    if len(digits) > 80:
        raise ValueError(f'integer overflow: "{text}"')
    if kind == "int":
        octal = len(digits) > 1 and digits[0] == "0"
        if octal and set(digits) & {"8", "9"}:
            raise ValueError(f'illegal number syntax: "{text}"')
        number = sign * int(digits, 8 if octal else 10)
    else:
        number = sign * int(digits[2:], _BASES[kind])
    if not -(2**63) <= number < 2**63:
        raise ValueError(f'integer overflow: "{text}"')
    return number


def _bounded_float(value: float, text: str) -> float:
    if value == float("inf"):
        raise ValueError(f'illegal number syntax: "{text}"')
    return value


def parse_char(text: str) -> int:
    """The code point of a quoted character; raises ``ValueError``."""
    try:
        inner = unquote(text)
    except ValueError:
        inner = ""
    if len(inner) != 1 or text == "'''":
        raise ValueError(f"malformed character constant: {text}")
    return ord(inner)


def unquote(text: str) -> str:
    """The value of a double-quoted, back-quoted or character literal; raises ``ValueError("invalid syntax")``."""
    inner = text[1:-1]
    if text[0] == "`":
        return inner.replace("\r", "")
    if "\\" not in inner:
        return inner
    wrong = "'" if text[0] == '"' else '"'

    def replace(found: re.Match[str]) -> str:
        named, *codes = found.groups()[:4]
        if named:
            if named == wrong:
                raise ValueError("invalid syntax")
            return _NAMED[named]
        octal = found[5]
        code = int(octal, 8) if octal else next((int(c, 16) for c in codes if c), -1)
        surrogate = 0xD800 <= code < 0xE000
        if code < 0 or code > 0x10FFFF or surrogate or (octal and code > 255):
            raise ValueError("invalid syntax")
        return chr(code)

    return _ESCAPE.sub(replace, inner)
