"""The datasource type ``prometheus``: every metric store with the Prometheus HTTP API."""

from tocsin.plugin import DatasourceType, hookimpl
from tocsin_datasource_prometheus.kind import PrometheusType


@hookimpl
def tocsin_datasource_types() -> list[DatasourceType]:
    """Return the one type of this plugin."""
    return [PrometheusType()]
