"""The settings of a process that has no database in common with a center."""

from __future__ import annotations

from tocsin.plugin import at_least, key, section


@section("CenterApi")
class CenterApiSettings:
    """The center's service API, for a gateway that does not share the center's database."""

    addresses: list[str] = key(
        "Addrs", [], "base addresses of centers, each of which can do; empty shares the database"
    )
    user: str = key("BasicAuthUser", "", "account of the center's HTTP.APIForService")
    password: str = key("BasicAuthPass", "", "its password", secret=True)
    timeout: int = key("Timeout", 9000, "milliseconds to wait for an answer; 0 means 5000", check=at_least(0))
