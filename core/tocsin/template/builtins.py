"""The functions that every template has: Go's predefined ones (``and`` and ``or`` are compiled, not called)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import quote_plus

from .errors import CallError
from .html import escape_plain
from .printf import sprintf
from .show import MAX_TEXT, sprint
from .values import NO_VALUE, Function, NamedInt, Record, StringMap, truth, type_name

_JS_ESCAPES = {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}


def print_values(*values: Any) -> str:
    """``fmt.Sprint``: a space between two operands when neither is text."""
    parts: list[str] = []
    previous_text = True
    for number, value in enumerate(values):
        is_text = isinstance(value, str)
        if number and not is_text and not previous_text:
            parts.append(" ")
        parts.append(sprint(value))
        previous_text = is_text
    return bounded("".join(parts))


def bounded(text: str) -> str:
    """``text`` unless it is longer than any function may return."""
    if len(text) > MAX_TEXT:
        raise CallError(f"result is longer than {MAX_TEXT} characters")
    return text


def _println(*values: Any) -> str:
    return bounded(" ".join(map(sprint, values)) + "\n")


def _joined(values: tuple[Any, ...]) -> str:
    if len(values) == 1 and isinstance(values[0], str):
        return str(values[0])
    return print_values(*("<no value>" if value is None else value for value in values))


def _html(*values: Any) -> str:
    return bounded(escape_plain(_joined(values)).replace("&#43;", "+"))


def _js(*values: Any) -> str:
    return bounded("".join(map(_js_char, _joined(values))))


def _js_char(char: str) -> str:
    known = _JS_ESCAPES.get(char)
    if known is not None:
        return known
    code = ord(char)
    if code < 0x20 or (code >= 0x80 and not char.isprintable()):
        return f"\\u{code:04X}"
    return char


def _urlquery(*values: Any) -> str:
    return bounded(quote_plus(_joined(values), safe="", errors="replace"))


def _len(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, list | tuple | dict | bytes):
        return len(value)
    if value is None:
        raise CallError("len of nil pointer")
    raise CallError(f"len of type {type_name(value)}")


def _position(value: Any, size: int) -> int:
    if type(value) is not int:
        if value is None:
            raise CallError("cannot index slice/array with nil")
        raise CallError(f"cannot index slice/array with type {type_name(value)}")
    if not 0 <= value < size:
        raise CallError(f"index out of range: {value}")
    return value


def _index(value: Any, *keys: Any) -> Any:
    if value is None:
        raise CallError("index of untyped nil")
    for key in keys:
        if isinstance(value, dict):
            value = _map_item(value, key)
        elif isinstance(value, list | tuple):
            value = value[_position(key, len(value))]
        elif isinstance(value, str | bytes):
            raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            value = raw[_position(key, len(raw))]
        elif value is None or value is NO_VALUE:
            raise CallError("index of nil pointer")
        else:
            raise CallError(f"can't index item of type {type_name(value)}")
    return value


def _map_item(mapping: dict[Any, Any], key: Any) -> Any:
    sample = next(iter(mapping), "")
    if key is None:
        raise CallError(f"value is nil; should be of type {type_name(sample)}")
    if isinstance(key, bool) or not isinstance(key, str | int) or isinstance(key, str) != isinstance(sample, str):
        raise CallError(f"value has type {type_name(key)}; should be {type_name(sample)}")
    return mapping.get(key, "" if isinstance(mapping, StringMap) else NO_VALUE)


def _slice(value: Any, *indexes: Any) -> Any:
    if value is None:
        raise CallError("slice of untyped nil")
    if len(indexes) > 3:
        raise CallError(f"too many slice indexes: {len(indexes)}")
    if not isinstance(value, str | list | tuple | bytes):
        raise CallError(f"can't slice item of type {type_name(value)}")
    if isinstance(value, str):
        if len(indexes) == 3:
            raise CallError("cannot 3-index slice a string")
        return _cut(value.encode("utf-8", "surrogatepass"), indexes).decode("utf-8", "replace")
    return _cut(value, indexes)


def _cut(value: Any, indexes: tuple[Any, ...]) -> Any:
    places = [_position(index, len(value) + 1) for index in indexes]
    for first, second in pairwise(places):
        if first > second:
            raise CallError(f"invalid slice index: {first} > {second}")
    return value[slice(*places[:2])] if len(places) > 1 else value[places[0] if places else 0 :]


def _call(function: Any, *_: Any) -> Any:
    if function is None:
        raise CallError("call of nil")
    raise CallError(f"non-function of type {type_name(function)}")


# -- comparison ----------------------------------------------------------------------------------------------------------


def _basic(value: Any) -> str | None:
    """The comparable family of a value: bool, int, float64, string; ``None`` for nil and everything else."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | NamedInt):
        return "int"
    if isinstance(value, float):
        return "float64"
    return "string" if isinstance(value, str) else None


def _eq(first: Any, *others: Any) -> bool:
    if not others:
        raise CallError("missing argument for comparison")
    return any(_same(first, other) for other in others)


_PLAIN = frozenset((str, int, float, bool))


def _same(first: Any, other: Any) -> bool:
    if first.__class__ is other.__class__ and first.__class__ in _PLAIN:
        return bool(first == other)
    family, other_family = _basic(first), _basic(other)
    if first is None or other is None:
        return first is other
    if family != other_family:
        raise CallError(f"incompatible types for comparison: {type_name(first)} and {type_name(other)}")
    if family is None:
        if isinstance(first, Record) and isinstance(other, Record):
            return first == other
        raise CallError(f"non-comparable type {sprint(first)[:80]}: {type_name(first)}")
    return bool(first == other)


def _lt(first: Any, second: Any) -> bool:
    family, other_family = _basic(first), _basic(second)
    if family in (None, "bool") or other_family in (None, "bool"):
        raise CallError("invalid type for comparison")
    if family != other_family:
        raise CallError(f"incompatible types for comparison: {type_name(first)} and {type_name(second)}")
    return bool(first < second)


def _le(first: Any, second: Any) -> bool:
    return _lt(first, second) or _same(first, second)


BUILTINS: dict[str, Function] = {
    function.name: function
    for function in (
        Function("and", truth, ("any",), "any"),
        Function("or", truth, ("any",), "any"),
        Function("not", lambda value: not truth(value), ("any",)),
        Function("len", _len, ("any",)),
        Function("index", _index, ("any",), "any"),
        Function("slice", _slice, ("any",), "any"),
        Function("print", print_values, (), "any"),
        Function("println", _println, (), "any"),
        Function("printf", sprintf, ("string",), "any"),
        Function("html", _html, (), "any"),
        Function("js", _js, (), "any"),
        Function("urlquery", _urlquery, (), "any"),
        Function("call", _call, ("any",), "any"),
        Function("eq", _eq, ("any",), "any"),
        Function("ne", lambda first, second: not _same(first, second), ("any", "any")),
        Function("lt", _lt, ("any", "any")),
        Function("le", _le, ("any", "any")),
        Function("gt", lambda first, second: not _le(first, second), ("any", "any")),
        Function("ge", lambda first, second: not _lt(first, second), ("any", "any")),
    )
}
"""Go's predefined functions by name."""
