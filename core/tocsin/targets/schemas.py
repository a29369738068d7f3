"""Bodies of the host endpoints; keys that are not named here are ignored."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validate

from tocsin.http.schemas import ROW_ID, Loose, Whole, identifier, integer, text, texts
from tocsin.targets.models import IDENT_LENGTH

EXACT = validate.Range(-(1 << 53), 1 << 53)
"""Whole numbers that every JSON reader keeps exactly."""
GROUP_ID = validate.Range(1, ROW_ID.max)
MOST_LABELS = 100
LONGEST_LABELS = 8192
"""Characters of all labels that a collector gives its host: each series gets them, and every database holds them."""


class Number(fields.Field[float]):
    """A JSON number."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValidationError("Not a valid number.")
        return value


def _not_too_long(labels: dict[str, str]) -> None:
    length = sum(len(name) + len(value) for name, value in labels.items())
    if length > LONGEST_LABELS:
        raise ValidationError(f"got {length} characters, expected at most {LONGEST_LABELS}")


class HeartbeatBody(Loose):
    """What a collector says; everything but the name of the host may be left out."""

    hostname = text(IDENT_LENGTH)
    agent_version = text(255)
    os = text(31)
    arch = text(31)
    cpu_num = integer(bounds=EXACT)
    cpu_util = Number(load_default=0)
    mem_util = Number(load_default=0)
    unixtime = integer(bounds=EXACT)
    host_ip = text(64)
    global_labels = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        load_default=dict,
        validate=[validate.Length(max=MOST_LABELS), _not_too_long],
    )
    extend_info = fields.Dict(load_default=None)
    config = fields.Raw()
    offset = integer(bounds=EXACT)
    remote_addr = text(255)
    engine_name = text(255)


class HostsBody(Loose):
    """Some hosts, by name or by address."""

    idents = texts()
    host_ips = texts()


class TagsBody(HostsBody):
    """Hosts and tags."""

    tags = fields.List(fields.String(), required=True, validate=validate.Length(min=1))


class NoteBody(HostsBody):
    """Hosts and a note."""

    note = text(255)


class GroupsBody(HostsBody):
    """Hosts and business groups."""

    bgids = fields.List(Whole(GROUP_ID), load_default=list)
    action = text(16)
    tags = texts()


class GroupBody(HostsBody):
    """Hosts and the one business group they shall be in; 0 for none."""

    bgid = identifier()


class SeenBody(Loose):
    """Names of hosts, and when they were seen (Unix seconds)."""

    lst = fields.List(fields.String(validate=validate.Length(1, IDENT_LENGTH)), load_default=list)
    now = integer(bounds=EXACT)


class HostQueryBody(Loose):
    """One clause of a host query."""

    key = text()
    op = text()
    values = fields.List(fields.Raw(allow_none=True), load_default=list)


class HostListBody(Loose):
    """A host query and the page of its result that is wanted."""

    queries = fields.List(fields.Nested(HostQueryBody), load_default=list)
    p = integer(1, EXACT)
    limit = integer(bounds=EXACT)
