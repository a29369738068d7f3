"""The base of request bodies and the fields that all of them share."""

from __future__ import annotations

import json
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, pre_load, validate

from tocsin.http.errors import invalid

INT64 = validate.Range(min=-(1 << 63), max=(1 << 63) - 1)
"""What a 64-bit column or parameter holds."""
INT32 = validate.Range(min=-(1 << 31), max=(1 << 31) - 1)
"""What an ordinary integer column holds."""
ROW_ID = validate.Range(min=0, max=(1 << 31) - 1)
"""Ids of configuration objects; 0 means none."""
MOST_IDS = 50_000
"""Ids that one request may name: as many as a list of events shows at once."""


class Loose(Schema):
    """Ignores what it does not know and takes null for "not sent"."""

    class Meta:
        unknown = EXCLUDE

    @pre_load
    def only_given(self, data: Any, **_: Any) -> Any:
        """Leave out members that are null, but for required ones, whose error is then about what was sent."""
        if not isinstance(data, dict):
            return data
        needed = {field.data_key or name for name, field in self.fields.items() if field.required}
        return {name: value for name, value in data.items() if value is not None or name in needed}


class Whole(fields.Integer):
    """A JSON number without fraction that a database can hold; ``true``, for Python a one, is none."""

    def __init__(self, bounds: validate.Range = INT64, **more: Any) -> None:
        super().__init__(strict=True, **{"validate": bounds, **more})

    def _deserialize(self, value: Any, *arguments: Any, **more: Any) -> Any:
        if isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return super()._deserialize(value, *arguments, **more)


def integer(default: int = 0, bounds: validate.Range = INT64) -> Whole:
    """Return a field for an integer that may be left out."""
    return Whole(bounds, load_default=default)


def identifier(bounds: validate.Range = ROW_ID) -> Whole:
    """Return a field for an id; 0 when it is left out."""
    return Whole(bounds, load_default=0)


def ids(bounds: validate.Range = INT64) -> fields.List[Any]:
    """Return a field for a list of ids."""
    return fields.List(Whole(bounds), load_default=list, validate=validate.Length(max=MOST_IDS))


def text(limit: int = 0, default: str = "") -> fields.String:
    """Return a text field, of at most ``limit`` characters when that is not 0."""
    return fields.String(load_default=default, validate=validate.Length(max=limit) if limit else None)


def texts() -> fields.List[str]:
    """Return a field for a list of texts."""
    return fields.List(fields.String(), load_default=list)


class Truth(fields.Boolean):
    """``true`` or ``false``, nothing that means them."""

    def _deserialize(self, value: Any, *arguments: Any, **more: Any) -> Any:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


def truth() -> Truth:
    """Return a field for a truth value that may be left out."""
    return Truth(load_default=False)


class IdsSchema(Loose):
    """``{"ids": [1, 2]}``."""

    ids = ids()


def checked(schema: Schema, value: Any, what: str = "json body invalid", *, many: bool = False) -> Any:
    """Return ``value`` as a schema takes it; raise ``invalid`` with the first complaint after ``what``."""
    try:
        return schema.load(value, many=many)
    except ValidationError as error:
        raise invalid(f"{what}: {first_fault(error)}") from None


KINDS = {
    "Not a valid string.": "a text",
    "Not a valid integer.": "an integer",
    "Not a valid number.": "a number",
    "Not a valid boolean.": "true or false",
    "Not a valid list.": "an array",
    "Not a valid mapping type.": "an object",
    "Invalid input type.": "an object",
}
LIMITS = {"Must be one of: ": "one of ", "Must be ": "a number "}
LENGTHS = {
    "Length must be ": "",
    "Longer than maximum length ": "at most ",
    "Shorter than minimum length ": "at least ",
}
LONGEST_SHOWN = 80


def first_fault(error: ValidationError) -> str:
    """Return the first complaint of a marshmallow error: the path of the field, what came and what was expected."""
    messages: Any = error.messages
    value, path = error.data, []
    while not isinstance(messages, str):
        if isinstance(messages, list):
            messages = messages[0]
            continue
        name, messages = next(iter(messages.items()))
        if name != "_schema":
            path.append(str(name))
            value = _member(value, name)
    return ": ".join(filter(None, (".".join(path), _worded(messages, value))))


def _member(value: Any, name: Any) -> Any:
    """Return a part of what was sent; the steps into a mapping's key and value lead nowhere further."""
    try:
        return value[name]
    except (LookupError, TypeError):
        return value


def _worded(message: str, value: Any) -> str:
    if message in KINDS:
        return f"got {_kind(value)}, expected {KINDS[message]}"
    for start, wanted in LIMITS.items():
        if message.startswith(start):
            return f"got {_shown(value)}, expected {wanted}{message[len(start) :].rstrip('.')}"
    for start, wanted in LENGTHS.items():
        if message.startswith(start):
            return f"got a length of {len(value)}, expected {wanted}{message[len(start) :].rstrip('.')}"
    return message


def _kind(value: Any) -> str:
    """Return what sort of value came; texts are not repeated, they may be secret."""
    names: dict[type, str] = {str: "a text", dict: "an object", list: "an array"}
    return names.get(type(value)) or _shown(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)  # also integers of any size
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."
