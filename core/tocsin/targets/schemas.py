"""Bodies of the host endpoints; keys that are not named here are ignored."""

from __future__ import annotations

from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, pre_load, validate

from tocsin.targets.models import IDENT_LENGTH

LARGEST = 1 << 53
"""Largest whole number that every JSON reader keeps exactly."""
MOST_LABELS = 100


class Object(Schema):
    """Base of all bodies: null is the same as nothing."""

    class Meta:
        unknown = EXCLUDE

    @pre_load
    def _without_nulls(self, data: Any, **_: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


class Number(fields.Field[float]):
    """A JSON number."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValidationError("expected a number")
        return value


def text(length: int) -> fields.String:
    """Return a text of so many characters at most."""
    return fields.String(
        load_default="", validate=validate.Length(max=length, error="expected at most {max} characters")
    )


def whole(**more: Any) -> fields.Integer:
    """Return an integer given as a JSON number."""
    return fields.Integer(strict=True, validate=validate.Range(-LARGEST, LARGEST), **more)


def texts() -> fields.List[str]:
    """Return a list of texts."""
    return fields.List(fields.String(), load_default=list)


class HeartbeatBody(Object):
    """What a collector says; everything but the name of the host may be left out."""

    hostname = text(IDENT_LENGTH)
    agent_version = text(255)
    os = text(31)
    arch = text(31)
    cpu_num = whole(load_default=0)
    cpu_util = Number(load_default=0)
    mem_util = Number(load_default=0)
    unixtime = whole(load_default=0)
    host_ip = text(64)
    global_labels = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        load_default=dict,
        validate=validate.Length(max=MOST_LABELS, error="expected at most {max} labels"),
    )
    extend_info = fields.Dict(load_default=None)
    config = fields.Raw()
    offset = whole(load_default=0)
    remote_addr = text(255)
    engine_name = text(255)


class HostsBody(Object):
    """Some hosts, by name or by address."""

    idents = texts()
    host_ips = texts()


class TagsBody(HostsBody):
    """Hosts and tags."""

    tags = fields.List(fields.String(), required=True, validate=validate.Length(min=1, error="expected at least one"))


class NoteBody(HostsBody):
    """Hosts and a note."""

    note = text(255)


def group_id() -> fields.Integer:
    """Return the id of a business group."""
    return fields.Integer(strict=True, validate=validate.Range(1, (1 << 31) - 1))


class GroupsBody(HostsBody):
    """Hosts and business groups."""

    bgids = fields.List(group_id(), load_default=list)
    action = text(16)
    tags = texts()


class GroupBody(HostsBody):
    """Hosts and the one business group they shall be in; 0 for none."""

    bgid = fields.Integer(strict=True, load_default=0, validate=validate.Range(0, (1 << 31) - 1))


class SeenBody(Object):
    """Names of hosts, and when they were seen (Unix seconds)."""

    lst = fields.List(
        fields.String(validate=validate.Length(1, IDENT_LENGTH, error="expected 1 to {max} characters")),
        load_default=list,
    )
    now = whole(load_default=0)


class HostQueryBody(Object):
    """One clause of a host query."""

    key = fields.String(load_default="")
    op = fields.String(load_default="")
    values = fields.List(fields.Raw(allow_none=True), load_default=list)


class HostListBody(Object):
    """A host query and the page of its result that is wanted."""

    queries = fields.List(fields.Nested(HostQueryBody), load_default=list)
    p = whole(load_default=1)
    limit = whole(load_default=0)
