"""The route table: one row per endpoint says method, path, who may call, the input and the handler.

Everything else, the middleware chain, the envelope, ``tocsin routes`` and the tests against the permission matrix, is
derived from these rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from tocsin.http.access import Access

if TYPE_CHECKING:
    from marshmallow import Schema

    from tocsin.http.context import Context

Handler = Callable[["Context"], Any]


class Surface(Enum):
    """A family of routes that share a prefix and a way of answering."""

    PAGE = "/api/svc"
    SERVICE = "/v1/svc"
    ROOT = ""


@dataclass(frozen=True)
class Body:
    """What a route accepts as JSON body.

    ``schema`` checks one object (``None`` accepts any object); ``many`` asks for an array of them; ``name`` is how
    the element is called in the error for a body that is no array.  ``item`` is the type of the elements of an array
    without schema (``str`` for an array of texts).
    """

    schema: type[Schema] | None = None
    many: bool = False
    name: str = "object"
    optional: bool = False
    item: type = dict


@dataclass(frozen=True)
class Route:
    """One row of the table.

    ``path`` is written like ``/busi-group/:id`` relative to the surface's prefix; ``/*rest`` at the end takes the
    remainder, which may be empty.  ``handler`` gets a :class:`~tocsin.http.context.Context` and returns a JSON value, ``None`` or a
    :class:`~tocsin.http.context.Raw`.  ``max_body`` overrides the general limit in bytes.
    ``data_and_error`` adds these two members to answers through a path alias, where clients of compatible services look
    for them.  ``metric`` is the histogram of its latency, ``metric_labels`` what all routes of that metric have in common.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    surface: Surface = Surface.PAGE
    body: Body | None = None
    max_body: int | None = None
    data_and_error: bool = False
    feature: str = ""
    metric: str = "svc_center_http_request_duration_seconds"
    metric_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_path(self) -> str:
        """The path with the prefix of its surface."""
        return self.surface.value + self.path

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the path parameters in order."""
        return tuple(re.findall(r"[:*](\w+)", self.path))


def _row(method: str, surface: Surface) -> Callable[..., Route]:
    def make(path: str, handler: Handler, access: Access, **more: Any) -> Route:
        return Route(method, path, handler, access, surface, **more)

    make.__doc__ = f"Make a {method} row on the {surface.name.lower()} surface."
    return make


class Rows:
    """Short row makers for one surface: ``page.get("/roles", list_roles, LOGIN)``."""

    def __init__(self, surface: Surface) -> None:
        self.get = _row("GET", surface)
        self.post = _row("POST", surface)
        self.put = _row("PUT", surface)
        self.delete = _row("DELETE", surface)


page = Rows(Surface.PAGE)
service = Rows(Surface.SERVICE)
root = Rows(Surface.ROOT)


class RouteClash(Exception):
    """Two rows claim one method and path."""


@dataclass
class RouteTable:
    """All rows of a process, each with the name of the feature that brought it."""

    _rows: dict[tuple[str, str], Route] = field(default_factory=dict)

    def add(self, feature: str, routes: Iterable[Route]) -> None:
        """Add the rows of a feature; raise :class:`RouteClash` naming both owners of a doubled row."""
        for route in routes:
            shape = re.sub(r":\w+", ":", route.full_path)
            other = self._rows.get((route.method, shape))
            if other is not None:
                raise RouteClash(
                    f"{route.method} {route.full_path} is claimed by both {other.feature!r} and {feature!r}"
                )
            self._rows[route.method, shape] = replace(route, feature=feature)

    def __iter__(self) -> Iterator[Route]:
        return iter(sorted(self._rows.values(), key=lambda r: (r.full_path, r.method)))

    def __len__(self) -> int:
        return len(self._rows)
