"""What a handler sees of a request, and what it may return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import falcon
import orjson

from tocsin.http.access import Caller
from tocsin.http.errors import ApiError, forbidden, invalid, unauthorized

if TYPE_CHECKING:
    from tocsin.app.core import Core
    from tocsin.http.routes import Route

TRUE = frozenset(("true", "1", "on", "checked", "yes", "Y"))
FALSE = frozenset(("false", "0", "off", "no", "N"))
INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
"""Python itself takes more for a number: spaces around it, underscores inside, digits of other scripts."""
NO_NUL = "got a text with the character U+0000, expected one without it"


def parse_bool(value: str) -> bool:
    """Return the truth value of a query parameter's text; raise :class:`ValueError` for a text that has none."""
    if value in TRUE or value in FALSE:
        return value in TRUE
    raise ValueError(value)


@dataclass(frozen=True)
class Raw:
    """An answer without envelope: bytes (or an iterable of them) with a content type and a status."""

    body: bytes | Iterable[bytes]
    content_type: str = "application/json; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Null:
    """Stands for a JSON null in ``dat``, where ``None`` would leave the member out."""


NULL = Null()


def text(body: str, status: int = 200) -> Raw:
    """Return a plain-text answer."""
    return Raw(body.encode(), "text/plain; charset=utf-8", status)


class Context:
    """One request: parameters, body, caller and the core's services.

    ``aliased`` is true for a request that came in through a configured path alias; only the response layer looks at it.
    """

    def __init__(self, core: Core, request: falcon.Request, route: Route, params: dict[str, str]) -> None:
        self.core = core
        self.request = request
        self.route = route
        self.params = params
        self.request_id: str = request.env["tocsin.request_id"]
        self.aliased = "tocsin.alias" in request.env
        self.body: Any = None
        self._raw_body: bytes | None = None
        self.caller: Caller | None = None
        self.service_user = ""
        self.response_headers: dict[str, str] = {}
        self.beside: dict[str, Any] = {}
        """Members that a success envelope carries beside ``dat``."""

    @property
    def user(self) -> Caller:
        """The logged-in caller; only for routes whose access asks for a login."""
        if self.caller is None:
            raise unauthorized()
        return self.caller

    @property
    def operator(self) -> str:
        """The name written into ``create_by`` and ``update_by``."""
        return self.caller.username if self.caller else self.service_user

    @property
    def remote(self) -> str:
        """Address of the TCP peer."""
        return str(self.request.env.get("REMOTE_ADDR", ""))

    @cached_property
    def language(self) -> str:
        """Language of messages: ``en``, ``zh_CN``, ``zh_HK`` or the header's own value; no header means English."""
        value = self.request.get_header("X-Language") or "en"
        for prefix, language in (("zh_HK", "zh_HK"), ("zh", "zh_CN"), ("en", "en")):
            if value.startswith(prefix):
                return language
        return value

    @property
    def raw_body(self) -> bytes:
        """The body's bytes, at most the route's limit; longer raises ``too_large``."""
        # Not a cached_property: before Python 3.12 that lets one request at a time read, so a slow sender would hold up all.
        if self._raw_body is None:
            self._raw_body = self._whole_body()
        return self._raw_body

    def _whole_body(self) -> bytes:
        limit = self.route.max_body or self.core.http.max_content_length
        length = self.request.content_length
        if length is not None and length > limit:
            raise ApiError(f"body of {length} bytes is over the limit of {limit}", "too_large")
        data = self._read(limit + 1, whole=length is None)
        if len(data) > limit:
            raise ApiError(f"body is over the limit of {limit} bytes", "too_large")
        if length is not None and len(data) < length:
            # Senders of samples throw away what is answered with 400; this one may be sent again.
            raise ApiError(f"body ended after {len(data)} of {length} bytes", status=408)
        return data

    def _read(self, size: int, *, whole: bool) -> bytes:
        """Return up to ``size`` bytes of the body; ``whole`` says that only the server knows where it ends."""
        stream = self.request.env["wsgi.input"] if whole else self.request.bounded_stream
        try:
            return bytes(stream.read(size))
        except Exception as error:
            # Every server has exceptions of its own for a connection that broke and for chunks that are none.
            raise invalid(f"body cannot be read: {error}") from error

    def json(self) -> Any:
        """Return the body parsed as JSON, whatever its type."""
        return self.parsed_json(self.raw_body)

    @staticmethod
    def parsed_json(data: bytes) -> Any:
        """Return bytes parsed as JSON with the checks and errors of a body, for bodies that came compressed."""
        if not data.strip():
            raise invalid("json body invalid: EOF")
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise invalid(f"json body invalid: {error}") from None
        if b"\\u0000" in data and _has_nul(value):
            raise invalid(f"json body invalid: {NO_NUL}")
        return value

    def param_int(self, name: str) -> int:
        """Return path parameter ``name`` as integer."""
        return self._integer(self.params[name], "cannot convert {0} to int64")

    def query(self, name: str, default: str = "") -> str:
        """Return query parameter ``name``; several values of it give the first."""
        found = self.request.get_param_as_list(name)
        value: str = found[0] if found else default
        if "\0" in value:
            raise invalid(f"query param[{name}]: {NO_NUL}")
        return value

    def query_required(self, name: str) -> str:
        """Return query parameter ``name`` and raise when it is missing or empty."""
        value = self.query(name)
        if not value:
            raise invalid(f"query param[{name}] is necessary")
        return value

    def query_int(self, name: str, default: int) -> int:
        """Return query parameter ``name`` as integer."""
        value = self.query(name)
        return self._integer(value, "cannot convert [{0}] to int64") if value else default

    def query_bool(self, name: str, default: bool = False) -> bool:
        """Return query parameter ``name`` as truth value."""
        value = self.query(name)
        if not value:
            return default
        try:
            return parse_bool(value)
        except ValueError:
            raise invalid(f"unknown arg[{name}] value: {value}") from None

    def query_ids(self, name: str) -> list[int]:
        """Return query parameter ``name``, ids separated by commas, as integers."""
        return [self._integer(part, "cannot convert {0} to int64") for part in self.query(name).split(",") if part]

    def page(self, limit: int = 20) -> tuple[int, int]:
        """Return ``(limit, offset)`` from the query parameters ``limit`` and ``p``."""
        size = self.query_int("limit", limit)
        if size < 1:
            raise invalid(f"limit: got {size}, expected at least 1")
        number = max(self.query_int("p", 1), 1)
        if number * size >= 1 << 63:
            raise invalid(f"p: got {number}, expected a page that can exist")
        return size, (number - 1) * size

    @staticmethod
    def _integer(value: str, message: str) -> int:
        number = int(value) if INTEGER.fullmatch(value) else 1 << 63
        if not -(1 << 63) <= number < 1 << 63:
            raise invalid(message.format(value))
        return number

    def require_group(self, group_id: int, *, write: bool) -> None:
        """Check the caller against a business group that stands in an object or body, as a row's check would."""
        if not self.user.is_admin and not self.core.gatekeeper.in_group(self.user, group_id, write=write):
            raise forbidden()
        if self.user.is_admin:
            self.core.gatekeeper.in_group(self.user, group_id, write=write)


def _has_nul(value: Any) -> bool:
    """Return whether a text anywhere in a JSON value, keys included, has the character that no database stores."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if "\0" in part:
                return True
        elif isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            waiting += part
    return False


Guard = Callable[[Context], None]
