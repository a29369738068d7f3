"""Creating and changing a datasource: what is checked before it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marshmallow import ValidationError

from tocsin.datasources.queries import as_api_error
from tocsin.datasources.records import AUTH_DEFAULTS, with_http_defaults
from tocsin.http.schemas import first_fault
from tocsin.plugin import DatasourceConfig, DatasourceType, PluginCallError, check_url, invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from tocsin.datasources.catalog import Catalog
    from tocsin.datasources.pool import DatasourcePool

FORBIDDEN_IN_NAMES = frozenset("<>&'\"")
UNVERIFIED = "saved without a connectivity check, as force_save asked"


@dataclass(frozen=True)
class Verification:
    """What is known of a saved datasource: ``verified`` by a query, or ``saved_unverified``."""

    state: str
    stage: str
    latency_ms: int = 0
    message: str = ""


class Saver:
    """Checks and stores datasources."""

    def __init__(
        self,
        catalog: Catalog,
        pool: DatasourcePool,
        types: Mapping[str, DatasourceType],
        *,
        complete: Callable[[DatasourceConfig], DatasourceConfig],
        check_timeout: float,
    ) -> None:
        self._catalog = catalog
        self._pool = pool
        self._types = types
        self._complete = complete
        self._check_timeout = check_timeout

    def upsert(self, body: Mapping[str, Any], operator: str) -> tuple[int, Verification]:
        """Create (``id`` 0) or update a datasource and return its id and how far it was verified.

        Settings that cannot work are refused always; a datasource that does not answer is refused unless
        ``force_save`` is set.  The type of an existing datasource never changes.
        """
        values = dict(body)
        force = values.pop("force_save")
        datasource_id = values.pop("id")
        if datasource_id:
            values["plugin_type"] = self._catalog.find(datasource_id).plugin_type
        _check_name(values["name"])
        values["cluster_name"] = _cluster_name(values["settings"]) or values["cluster_name"]
        config = self._config(datasource_id, values)
        verification = self._verify(config, force=force)
        if datasource_id:
            self._catalog.update(datasource_id, values, operator)
            return datasource_id, verification
        return self._catalog.create(values, operator), verification

    def _config(self, datasource_id: int, values: Mapping[str, Any]) -> DatasourceConfig:
        name = str(values["plugin_type"]).removesuffix(".logging")
        kind = self._types.get(name)
        if kind is None:
            installed = ", ".join(sorted(self._types)) or "none: no datasource plugin is installed"
            raise invalid(f"plugin_type: got {values['plugin_type']!r}, expected one of {installed}")
        _check_settings(kind, values["settings"])
        config = self._complete(
            DatasourceConfig(
                datasource_id,
                values["name"],
                name,
                values["settings"],
                with_http_defaults(values["http"]),
                {**AUTH_DEFAULTS, **values["auth"]},
            )
        )
        for field, url in kind.addresses(config).items():
            try:
                check_url(url, config.denied_networks, name=field)
            except ValueError as error:
                raise invalid(str(error)) from None
        return config

    def _verify(self, config: DatasourceConfig, *, force: bool) -> Verification:
        try:
            if force:
                self._pool.connect(config).close()
                return Verification("saved_unverified", "none", message=UNVERIFIED)
            millis = self._pool.check(config, self._check_timeout)
        except PluginCallError as error:
            raise as_api_error(error) from None
        return Verification("verified", "query", round(millis))


def _check_name(name: str) -> None:
    if FORBIDDEN_IN_NAMES & set(name):
        raise invalid("Name has invalid characters")


def _cluster_name(settings: Mapping[str, Any]) -> str:
    """Return the engine cluster that a type's own settings name."""
    found = (value for name, value in settings.items() if "cluster_name" in name and isinstance(value, str))
    return next((value for value in found if value), "")


def _check_settings(kind: DatasourceType, settings: Mapping[str, Any]) -> None:
    schema = kind.settings_schema()
    if schema is None:
        return
    try:
        schema(unknown="include").load(settings)
    except ValidationError as error:
        raise invalid("settings." + first_fault(error)) from None
