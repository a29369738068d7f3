"""Which installed channel plugin serves a channel, and what it says about the channel's configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from marshmallow import ValidationError

from tocsin.http.schemas import first_fault
from tocsin.plugin import ChannelType, invalid

T = TypeVar("T")
log = logging.getLogger(__name__)
NOTHING: Sequence[Any] = ()
"""What a plugin brings along that fails to say what it brings along."""


class Providers:
    """The installed channel types."""

    def __init__(self, types: Mapping[str, ChannelType]) -> None:
        self._types = types

    def serving(self, ident: str, request_type: str, config: Mapping[str, Any] | None) -> ChannelType:
        """Return the type that serves a channel; raise ``invalid`` with what is wrong with the channel.

        It is the type of the ident when that finds nothing wrong, else the general one of the request type.
        """
        offered = sorted({kind.request_type for kind in self._types.values()})
        if request_type not in offered:
            known = ", ".join(offered) or "none: no channel plugin is installed"
            raise invalid(f"invalid request type, must be one of {known}; got {request_type!r}")
        own = self._types.get(ident)
        if own is not None and own.request_type == request_type:
            fault = fault_of(own, config)
            if not fault or self._general(request_type) in (None, own):
                return _unless(fault, own)
        general = self._general(request_type)
        if general is None:
            raise invalid(f"unsupported channel: ident={ident} request_type={request_type}")
        return _unless(fault_of(general, config), general)

    def of_ident(self, ident: str) -> ChannelType | None:
        """Return the type that claims an ident."""
        return self._types.get(ident)

    def contact_key(self, key: str) -> str:
        """Return the key of a user's contacts that a channel's ``contact_key`` means."""
        kind = self._types.get(key)
        return kind.contact_key if kind is not None and kind.contact_key else key

    def all(self) -> Iterable[ChannelType]:
        """Return every installed type, by ident."""
        return (self._types[ident] for ident in sorted(self._types))

    def _general(self, request_type: str) -> ChannelType | None:
        found = (kind for kind in self.all() if kind.general and kind.request_type == request_type)
        return next(found, None)


def _unless(fault: str, kind: ChannelType) -> ChannelType:
    if fault:
        raise invalid(fault)
    return kind


def fault_of(kind: ChannelType, config: Mapping[str, Any] | None) -> str:
    """Return why a channel type cannot work with a ``request_config``, an empty text when it can."""
    if config is None:
        return "request_config: got nothing, expected an object"
    schema = kind.config_schema()
    try:
        if schema is not None:
            schema(unknown="include").load(config)
        kind.check(config)
    except ValidationError as error:
        return "request_config." + first_fault(error)
    except ValueError as error:
        return str(error)
    except Exception as error:
        log.exception("channel type %s failed in check", kind.ident)
        return f"channel type {kind.ident} failed in check: {type(error).__name__}"
    return ""


def guarded(kind: ChannelType, operation: str, work: Callable[[], T], otherwise: T) -> T:
    """Return what a plugin's ``work`` returns, ``otherwise`` when it raises: one faulty plugin harms no other channel."""
    try:
        return work()
    except Exception:
        log.exception("channel type %s failed in %s", kind.ident, operation)
        return otherwise
