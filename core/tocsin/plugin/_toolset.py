"""Tools for AI clients: each one is a call of the page API with the caller's own credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class ApiCall:
    """One request to the page API; ``path`` is relative to ``/api/svc``."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Any = None


@dataclass(frozen=True)
class Tool:
    """One tool.

    ``input_schema`` is a JSON Schema of type object; types and required names are checked before ``call`` turns the
    arguments into a page-API call (raise ``ValueError`` for arguments that no schema can refuse).  ``shape`` may
    condense the answer's ``dat``; it gets the arguments too.
    """

    name: str
    title: str
    description: str
    call: Callable[[Mapping[str, Any]], ApiCall]
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    write: bool = False
    shape: Callable[[Any, Mapping[str, Any]], Any] | None = None


class Toolset:
    """A named set of tools; operators choose sets by name."""

    name: ClassVar[str] = ""

    def tools(self) -> Sequence[Tool]:
        """Return the set's tools."""
        return ()
