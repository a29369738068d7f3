"""Go's ``fmt.Sprintf`` for template values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .errors import LimitError
from .show import MAX_TEXT, escape_char, quote, shortest, sorted_keys, special, sprint
from .values import NO_VALUE, Record, type_name

_FLAGS = re.compile(r"[+\-# 0]*")
_DIGITS = re.compile(r"\d*")
_INDEX = re.compile(r"\[(\d*)\]|\[[^\]]*\]?")
_MAX_WIDTH = 100_000


@dataclass(slots=True)
class _Spec:
    """One directive: flags, width, precision, verb."""

    flags: str = ""
    width: int | None = None
    precision: int | None = None
    verb: str = ""
    named: bool = False  # %+v: struct fields with their names
    quoted: bool = False  # %#v: text in quotes

    def pad(self, text: str, sign: str = "", zeros: bool = True) -> str:
        missing = (self.width or 0) - len(sign) - len(text)
        if missing <= 0:
            return sign + text
        if "-" in self.flags:
            return sign + text + " " * missing
        if "0" in self.flags and zeros:
            return sign + "0" * missing + text
        return " " * missing + sign + text


class _Formatter:
    """One call: walks the format and takes arguments in order or by index."""

    def __init__(self, form: str, args: tuple[Any, ...]) -> None:
        self.form = form
        self.args = args
        self.pos = 0
        self.next = 0
        self.reordered = False
        self.bad_index = False
        self.out: list[str] = []
        self.room = MAX_TEXT

    def run(self) -> str:
        form, end = self.form, len(self.form)
        while self.pos < end:
            percent = form.find("%", self.pos)
            if percent < 0:
                percent = end
            self._put(form[self.pos : percent])
            self.pos = percent + 1
            if percent < end:
                self._put(self._directive())
        if not self.reordered and self.next < len(self.args):
            extra = ", ".join(_typed(arg) for arg in self.args[self.next :])
            self._put(f"%!(EXTRA {extra})")
        return "".join(self.out)

    def _put(self, text: str) -> None:
        self.room -= len(text)
        if self.room < 0:
            raise LimitError("formatted text is too long")
        self.out.append(text)

    def _directive(self) -> str:
        spec = _Spec()
        self.bad_index = False
        spec.flags = self._take(_FLAGS)
        complaint = self._width(spec) + self._precision(spec)
        self._index()
        if self.pos >= len(self.form):
            return complaint + "%!(NOVERB)"
        spec.verb = self.form[self.pos]
        self.pos += 1
        if spec.verb == "v":
            spec.named, spec.quoted = "+" in spec.flags, "#" in spec.flags
            spec.flags = spec.flags.replace("+", "").replace("#", "")
        if spec.verb == "%":
            return complaint + "%"
        if self.bad_index:
            return f"{complaint}%!{spec.verb}(BADINDEX)"
        if self.next >= len(self.args):
            return f"{complaint}%!{spec.verb}(MISSING)"
        value = self.args[self.next]
        self.next += 1
        return complaint + format_value(value, spec, 0)

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.form, self.pos)
        text = found[0] if found else ""
        self.pos += len(text)
        return text

    def _index(self) -> None:
        found = _INDEX.match(self.form, self.pos)
        if not found:
            return
        self.pos = found.end()
        self.reordered = True
        number = found[1]
        if number and len(number) < 7 and 1 <= int(number) <= len(self.args):
            self.next = int(number) - 1
        else:
            self.bad_index = True

    def _width(self, spec: _Spec) -> str:
        self._index()
        if self.form.startswith("*", self.pos):
            self.pos += 1
            value = self._star()
            if value is None:
                return "%!(BADWIDTH)"
            if value < 0:
                spec.flags += "-"
            spec.width = abs(value)
            return ""
        digits = self._take(_DIGITS)
        if digits:
            if len(digits) > 6 or int(digits) > _MAX_WIDTH:
                raise LimitError(f"width {digits[:12]} is too large, at most {_MAX_WIDTH}")
            spec.width = int(digits)
        return ""

    def _precision(self, spec: _Spec) -> str:
        if not self.form.startswith(".", self.pos):
            return ""
        self.pos += 1
        self._index()
        if self.form.startswith("*", self.pos):
            self.pos += 1
            value = self._star()
            if value is None:
                return "%!(BADPREC)"
            spec.precision = value if value >= 0 else None
            return ""
        digits = self._take(_DIGITS)
        if len(digits) > 4:
            raise LimitError(f"precision {digits[:12]} is too large, at most 9999")
        spec.precision = int(digits or 0)
        return ""

    def _star(self) -> int | None:
        """The next argument as a width or precision."""
        if self.bad_index or self.next >= len(self.args):
            return None
        value = self.args[self.next]
        self.next += 1
        return value if type(value) is int and abs(value) <= 9999 else None


def sprintf(form: str, *args: Any) -> str:
    """``fmt.Sprintf``: wrong verbs and missing or extra arguments show in the text, as in Go, and never raise."""
    return _Formatter(form, args).run()


def format_value(value: Any, spec: _Spec, depth: int) -> str:
    """One value under one directive."""
    verb = spec.verb
    if verb == "T":
        return spec.pad("<nil>" if value is None else type_name(value))
    if value is None or value is NO_VALUE:
        if depth:
            return "<nil>"
        return spec.pad("<nil>") if verb == "v" else f"%!{verb}(<nil>)"
    if isinstance(value, bool):
        return spec.pad("true" if value else "false") if verb in "tv" else _bad_padded(value, spec)
    if isinstance(value, int) and not (verb in "vs" and value.__class__ is not int):
        return _integer(value, spec)
    if isinstance(value, float):
        return _float(value, spec)
    if isinstance(value, int | str):
        return _string(sprint(value), value, spec)
    if isinstance(value, bytes) and verb in "sqxX":
        return _string(value.decode("utf-8", "replace"), value, spec)
    if isinstance(value, Record) and verb in "vsqxX":
        text = value.printed()
        if text is not None:
            return _string(text, value, spec)
    return _composite(value, spec, depth)


def _composite(value: Any, spec: _Spec, depth: int) -> str:
    if depth > 20:
        raise LimitError("value is nested too deeply")
    if isinstance(value, dict):
        pairs = (
            f"{format_value(key, spec, depth + 1)}:{format_value(value[key], spec, depth + 1)}"
            for key in sorted_keys(value)
        )
        return _joined("map[", pairs, "]")
    if isinstance(value, Record):
        fields = (
            (f"{name}:" if spec.named else "") + format_value(item, spec, depth + 1) for name, item in value.items()
        )
        return _joined("{", fields, "}")
    if isinstance(value, list | tuple | bytes):
        return _joined("[", (format_value(item, spec, depth + 1) for item in value), "]")
    return _bad(value, spec.verb)


def _joined(opening: str, parts: Any, closing: str) -> str:
    kept: list[str] = []
    room = MAX_TEXT
    for part in parts:
        room -= len(part) + 1
        if room < 0:
            raise LimitError("formatted text is too long")
        kept.append(part)
    return opening + " ".join(kept) + closing


def _typed(value: Any) -> str:
    return "<nil>" if value is None else f"{type_name(value)}={sprint(value)}"


def _bad(value: Any, verb: str) -> str:
    return f"%!{verb}({_typed(value)})"


_BASES = {"d": "d", "v": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}
_PREFIXES = {"b": "0b", "o": "0", "x": "0x", "X": "0X"}


def _integer(value: int, spec: _Spec) -> str:
    verb = spec.verb
    if verb in _BASES:
        digits = format(abs(value), _BASES[verb])
        if spec.precision is not None:
            digits = digits.zfill(spec.precision)
        if verb == "O":
            digits = "0o" + digits
        elif "#" in spec.flags and verb in _PREFIXES:
            digits = _PREFIXES[verb] + digits
        return spec.pad(digits, _sign(value < 0, spec), zeros=spec.precision is None)
    char = chr(value) if 0 <= value <= 0x10FFFF and not 0xD800 <= value < 0xE000 else "�"
    if verb == "c":
        return spec.pad(char)
    if verb == "q":
        inner = "\\'" if char == "'" else escape_char(char, "+" in spec.flags)
        return spec.pad(f"'{inner}'")
    if verb == "U":
        return spec.pad(f"U+{value:04X}" + (f" '{char}'" if "#" in spec.flags else ""))
    return _bad_padded(value, spec)


def _sign(negative: bool, spec: _Spec) -> str:
    if negative:
        return "-"
    return "+" if "+" in spec.flags else (" " if " " in spec.flags else "")


def _bad_padded(value: Any, spec: _Spec) -> str:
    """The complaint about a verb; Go applies the directive's width to the value inside it."""
    inner = format_value(value, _Spec(spec.flags, spec.width, spec.precision, "v"), 0)
    return f"%!{spec.verb}({type_name(value)}={inner})"


def _float(value: float, spec: _Spec) -> str:
    verb = spec.verb
    if verb not in "vgGfFeExX":
        return _bad_padded(value, spec)
    odd = special(value)
    if odd is not None:
        if odd == "NaN":
            return spec.pad(odd, _sign(False, spec), zeros=False)
        sign = " " if odd[0] == "+" and " " in spec.flags and "+" not in spec.flags else odd[0]
        return spec.pad(odd[1:], sign, zeros=False)
    text = _float_digits(abs(value), verb, spec.precision)
    negative = value < 0 or (value == 0 and str(value)[0] == "-")
    return spec.pad(text, _sign(negative, spec))


def _float_digits(value: float, verb: str, precision: int | None) -> str:
    lower = verb.lower()
    if lower == "x":
        # Hexadecimal: the shortest mantissa and an exponent of at least two digits; precision is not applied.
        mantissa, _, power = value.hex().partition("p")
        text = f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{power[0]}{power[1:]:0>2}"
        return text.upper() if verb == "X" else text
    if lower in "vg" and precision is None:
        # Without a precision %g and %v print the shortest text.
        text = shortest(value)
    elif lower == "f":
        text = format(value, f".{6 if precision is None else precision}f")
    elif lower == "e":
        text = format(value, f".{6 if precision is None else precision}e")
    else:
        text = format(value, f".{precision or 1}g")
    return text.upper() if verb in "GE" else text


def _string(text: str, value: Any, spec: _Spec) -> str:
    verb = spec.verb
    if spec.precision is not None and verb in "vsq":
        text = text[: spec.precision]
    if verb in "vs":
        if spec.quoted:
            return spec.pad(quote(text))
        return spec.pad(text)
    if verb == "q":
        if "#" in spec.flags and "`" not in text and all(c == "\t" or c.isprintable() for c in text):
            return spec.pad(f"`{text}`")
        return spec.pad(quote(text, "+" in spec.flags))
    if verb in "xX":
        raw = value if isinstance(value, bytes) else text.encode("utf-8", "replace")
        if spec.precision is not None:
            raw = raw[: spec.precision]
        digits = raw.hex(" ") if " " in spec.flags else raw.hex()
        return spec.pad(digits.upper() if verb == "X" else digits)
    return _bad_padded(value, spec)
