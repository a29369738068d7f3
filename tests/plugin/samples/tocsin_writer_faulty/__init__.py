"""A writer plugin whose hook fails."""

from typing import Any

from tocsin.plugin import hookimpl


@hookimpl
def tocsin_writers() -> list[Any]:
    """Fail."""
    raise RuntimeError("no writers today")
