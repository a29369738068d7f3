"""A datasource plugin whose hook returns something else."""

from typing import Any

from tocsin.plugin import hookimpl


@hookimpl
def tocsin_datasource_types() -> list[Any]:
    """Return what is no type."""
    return ["sample"]
