"""Where the store is reached: on the service's own port."""

from __future__ import annotations

import socket
from typing import Any

from tocsin.plugin import DatasourceConfig
from tocsin_tsdb.settings import StoreSettings

PREFIX = "/prometheus"
BASE = f"{PREFIX}/api/v1"
WILDCARDS = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 - compared with, not listened on
PLUGIN_ID = 1
"""The number that user interfaces know this type of datasource by."""


def own_address(http: Any, host: str = "") -> str:
    """Return scheme, host and port of the service's HTTP server (`http`: its settings), as seen from this host."""
    name = host or ("127.0.0.1" if http.host in WILDCARDS else http.host)
    scheme = "https" if _is_tls(http) else "http"
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{http.port}"


def _is_tls(http: Any) -> bool:
    return bool(http.cert_file and http.key_file)


def datasource(settings: StoreSettings, http: Any) -> DatasourceConfig:
    """Return the datasource that the store registers."""
    host = outbound_address() if settings.basic_auth is not None and http.host in WILDCARDS else ""
    url = settings.datasource_url or own_address(http, host) + PREFIX
    user, password = settings.basic_auth or ("", "")
    return DatasourceConfig(
        PLUGIN_ID,
        "embedded-tsdb",
        "prometheus",
        {"prometheus.tsdb_type": "Prometheus"},
        {
            "url": url,
            "timeout": 10_000,
            "dial_timeout": 3_000,
            "max_idle_conns_per_host": 100,
            "tls": {"skip_tls_verify": _is_tls(http) and not settings.datasource_url},
        },
        {"basic_auth": bool(user), "basic_auth_user": user, "basic_auth_password": password},
    )


def outbound_address() -> str:
    """Return the address of this host that other hosts would see; loopback when there is no route. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address reserved for documentation; connecting UDP sends no packet
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
