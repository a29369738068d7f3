"""The list of datasource types that this installation can serve."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tocsin.plugin import DatasourceType

if TYPE_CHECKING:
    from tocsin.datasources.records import DatasourceRecord

FIRST_DERIVED = 1000


def listed_types(types: Mapping[str, DatasourceType]) -> list[dict[str, Any]]:
    """Return the types as the list of plugins shows them, by their number."""
    found = [
        {
            "id": number_of(kind),
            "category": kind.category,
            "plugin_type": kind.name,
            "plugin_type_name": kind.title or kind.name,
            "capabilities": sorted(kind.capabilities),
        }
        for kind in types.values()
    ]
    return sorted(found, key=lambda item: (item["id"], item["plugin_type"]))


def number_of(kind: DatasourceType) -> int:
    """Return a type's own number, or one that depends on its name only and so survives new plugins."""
    return kind.number or FIRST_DERIVED + zlib.crc32(kind.name.encode()) % 1_000_000


def brief(record: DatasourceRecord, types: Mapping[str, DatasourceType]) -> dict[str, Any]:
    """Return what everybody may see of a datasource."""
    kind = types.get(record.type)
    public = kind.public_settings(record.settings) if kind is not None else None
    return {**record.redacted(), "settings": dict(public) if public is not None else None}
