"""The values a template may touch, and nothing else.

``None``, ``bool``, ``int``, ``float``, ``str``, ``bytes``, ``list``/``tuple``, ``dict`` and :class:`Record`. Python objects of any
other type have no fields and no methods in a template and print as their type's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


class NoValue:
    """The type of :data:`NO_VALUE`."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "<no value>"


NO_VALUE = NoValue()
"""What a missing map key gives: false, prints ``<no value>`` and has every field as missing again."""


class SafeHTML(str):
    """Text that HTML mode inserts without escaping."""

    __slots__ = ()


class SafeURL(str):
    """Text that HTML mode trusts as a whole URL (no scheme filter)."""

    __slots__ = ()


class StringMap(dict[str, str]):
    """Go's ``map[string]string``: ``index`` of a missing key gives the empty text instead of no value."""

    __slots__ = ()


class NamedInt(int):
    """An integer that prints as a name (a month, a weekday)."""

    label: str

    def __new__(cls, number: int, label: str) -> NamedInt:
        self = super().__new__(cls, number)
        self.label = label
        return self


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method that templates may call.

    ``params`` names the kinds of the leading arguments (see ``KINDS``), ``rest`` the kind of further ones (``None``:
    no more are allowed); at least ``required`` arguments must be given (default: all of ``params``).
    ``cost`` multiplies what a call takes from the allowance of work.
    ``call`` raises :class:`~tocsin.template.errors.CallError` for bad input.
    """

    name: str
    call: Callable[..., Any]
    params: tuple[str, ...] = ()
    rest: str | None = None
    required: int = -1
    cost: int = 1

    def minimum(self) -> int:
        """The least number of arguments."""
        return len(self.params) if self.required < 0 else self.required


class Record:
    """A value with declared fields and methods, the only kind of object templates can look into."""

    __slots__ = ()
    type_name: ClassVar[str] = "record"
    methods: ClassVar[Mapping[str, Function]] = {}

    def field(self, name: str) -> Any:
        """The value of the declared field ``name``; raises :class:`LookupError` for any other name."""
        raise LookupError(name)

    def items(self) -> list[tuple[str, Any]]:
        """Declared fields in order, for printing."""
        return []

    def method(self, name: str) -> Function | None:
        """The declared method ``name``; its first argument is the record."""
        return self.methods.get(name)

    def printed(self) -> str | None:
        """The text of a record that prints as text, ``None`` for one that prints field by field."""
        return None

    def plain(self) -> Any:
        """What JSON output of the record shows."""
        return dict(self.items())


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a :class:`StructType`: where it is in the data, what stands in when it is absent, the struct
    type of its value (or of its items, for a list), and how a value that needs more than that is made."""

    key: str
    zero: Any = None
    struct: StructType | None = None
    convert: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class StructType:
    """A declared view on plain dictionaries: template field name -> key, plus methods.

    One type describes e.g. the event: ``StructType("Event", {"RuleName": Field("rule_name", "")})``; ``wrap(data)``
    gives the value that a template sees. The data is read, never copied or changed.
    """

    name: str
    fields: Mapping[str, Field]
    methods: Mapping[str, Function] = field(default_factory=dict)

    def wrap(self, data: Mapping[str, Any]) -> Struct:
        """``data`` as a template value of this type."""
        return Struct(self, data)


class Struct(Record):
    """A dictionary seen through its :class:`StructType`."""

    __slots__ = ("data", "struct")

    def __init__(self, struct: StructType, data: Mapping[str, Any]) -> None:
        self.struct = struct
        self.data = data

    def field(self, name: str) -> Any:
        spec = self.struct.fields.get(name)
        if spec is None:
            raise LookupError(name)
        value = self.data.get(spec.key)
        if value is None:
            return spec.zero
        if spec.convert is not None:
            return spec.convert(value)
        if spec.struct is None:
            return value
        if isinstance(value, list | tuple):
            wrap = spec.struct.wrap
            return [wrap(item) if isinstance(item, dict) else item for item in value]
        return spec.struct.wrap(value) if isinstance(value, dict) else value

    def items(self) -> list[tuple[str, Any]]:
        return [(name, self.field(name)) for name in self.struct.fields]

    def method(self, name: str) -> Function | None:
        return self.struct.methods.get(name)

    def plain(self) -> Any:
        return dict(self.data)


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "float64",
    str: "string",
    bytes: "[]uint8",
    list: "[]interface {}",
    tuple: "[]interface {}",
    StringMap: "map[string]string",
    dict: "map[string]interface {}",
    SafeHTML: "template.HTML",
    SafeURL: "template.URL",
    NoValue: "nil",
    type(None): "nil",
}


def type_name(value: Any) -> str:
    """The Go name of a value's type, for messages and ``%T``."""
    if isinstance(value, Struct):
        return value.struct.name
    if isinstance(value, Record):
        return value.type_name
    name = _TYPE_NAMES.get(type(value))
    if name is not None:
        return name
    for kind, kind_name in _TYPE_NAMES.items():
        if isinstance(value, kind):
            return kind_name
    return "opaque"


def truth(value: Any) -> bool:
    """Go's truth: false, zero, empty text, list or map, nil and no value are false; records are true."""
    if value is True or value is False:
        return bool(value)
    if isinstance(value, bool | int | float | str | bytes | list | tuple | dict):
        return bool(value)
    return isinstance(value, Record)


KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "float": (int, float),
    "number": (int, float, str),
    "list": (list, tuple),
    "map": (dict,),
    "record": (Record,),
}
"""Kinds of arguments a :class:`Function` may ask for, beside ``any``. ``number`` is a number or numeric text."""

KIND_NAMES = {"float": "float64", "number": "number", "list": "[]interface {}", "map": "map[string]string"}


def check_argument(kind: str, value: Any) -> Any:
    """``value`` as a function of that kind gets it; raises ``TypeError`` with Go's wording if it does not fit."""
    if kind == "any":
        return None if value is NO_VALUE else value
    if isinstance(value, KINDS[kind]) and not isinstance(value, bool):
        return value
    expected = KIND_NAMES.get(kind, kind)
    if value is NO_VALUE or value is None:
        raise TypeError(f"invalid value; expected {expected}")
    raise TypeError(f"wrong type for value; expected {expected}; got {type_name(value)}")
