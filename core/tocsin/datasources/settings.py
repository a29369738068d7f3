"""Settings of the datasource capability."""

from __future__ import annotations

import ipaddress
from typing import Any

from tocsin.plugin import at_least, key, section


def _networks(value: list[str]) -> str | None:
    for text in value:
        try:
            ipaddress.ip_network(text)
        except ValueError:
            return f"networks like 10.0.0.0/8, which {text!r} is not"
    return None


@section("Center.AnonymousAccess")
class AnonymousAccess:
    """What may be read without login."""

    prom_querier: bool = key("PromQuerier", False, "data queries and the brief list of datasources need no login")
    alert_detail: bool = key("AlertDetail", False, "details of single alert events need no login")


@section("Datasource")
class DatasourceSettings:
    """How datasources are reached."""

    denied_networks: list[str] = key(
        "DeniedNetworks",
        ["169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32", "0.0.0.0/32", "::/128"],
        "networks that no datasource may be in: the metadata services of clouds and what is no address of a server",
        check=_networks,
    )
    check_timeout: int = key("CheckTimeout", 10, "seconds a connectivity check may take", check=at_least(1))
    max_query_timeout: int = key(
        "MaxQueryTimeout", 300, "seconds a query may take, whatever the datasource's own timeout", check=at_least(1)
    )
    max_overdue: int = key(
        "MaxOverdueCalls", 8, "calls past their time at one datasource before it is given no more", check=at_least(1)
    )
    proxy_timeout: int = key("ProxyTimeout", 300, "seconds a request through the proxy may take", check=at_least(1))
    max_points: int = key(
        "MaxPoints", 1000, "points per series of a range query that names no max_points", check=at_least(1)
    )

    def networks(self) -> tuple[Any, ...]:
        """Return the denied networks in a form that addresses can be looked up in."""
        return tuple(ipaddress.ip_network(text) for text in self.denied_networks)
