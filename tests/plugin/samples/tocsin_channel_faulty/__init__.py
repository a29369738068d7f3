"""A channel plugin whose hook fails."""

from typing import Any

from tocsin.plugin import hookimpl


@hookimpl
def tocsin_channels() -> list[Any]:
    """Fail."""
    raise RuntimeError("no channels today")
