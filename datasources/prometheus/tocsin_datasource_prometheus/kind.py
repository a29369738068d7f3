"""What the service knows of the type before anything is connected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tocsin.plugin import Datasource, DatasourceConfig, DatasourceError, DatasourceType, check_url

if TYPE_CHECKING:
    from marshmallow import Schema


class PrometheusType(DatasourceType):
    """Prometheus itself, Thanos, VictoriaMetrics, M3, Mimir and the embedded store."""

    name = "prometheus"
    title = "Prometheus Like"
    category = "timeseries"
    number = 1
    capabilities = frozenset(("metrics", "proxy", "alerting", "dashboard", "variable"))

    def settings_schema(self) -> type[Schema]:
        """Return the schema of the keys in the README."""
        from tocsin_datasource_prometheus.schema import SettingsSchema

        return SettingsSchema

    def connect(self, config: DatasourceConfig) -> Datasource:
        """Return a datasource at ``http.url``, or at the internal address when an edge asks."""
        from tocsin_datasource_prometheus.datasource import Prometheus

        url = _like(config.settings, "internal_addr") if config.from_edge else ""
        url = url or str(config.http.get("url") or "")
        try:
            check_url(url, config.denied_networks)
        except ValueError as error:
            raise DatasourceError(str(error), refused=True) from None
        return Prometheus(config.client([url]), config)

    def addresses(self, config: DatasourceConfig) -> Mapping[str, str]:
        """Return the query address, the internal one, and the addresses that recording rules write to."""
        found = dict(super().addresses(config))
        for key in ("internal_addr", "write_addr"):
            urls = [url.strip() for url in _like(config.settings, key).split(",") if url.strip()]
            found |= {f"settings.{key}" + (f"[{i}]" if len(urls) > 1 else ""): url for i, url in enumerate(urls)}
        return found

    def public_settings(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings whose keys begin with ``prometheus.``, without that, and the two addresses."""
        prefix = "prometheus."
        shown = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
        return {**shown, **{key: settings[key] for key in ("write_addr", "internal_addr") if key in settings}}


def _like(settings: Mapping[str, Any], name: str) -> str:
    """Return the value of the first setting whose key holds ``name``, which clients prefix as they like."""
    return next((str(value) for key, value in settings.items() if name in key and isinstance(value, str)), "")
