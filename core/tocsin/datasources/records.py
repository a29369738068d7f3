"""A datasource in memory, and the forms in which different people may see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tocsin.plugin import DatasourceConfig

Json = dict[str, Any]
HTTP_DEFAULTS: Mapping[str, Any] = {
    "timeout": 10_000,
    "dial_timeout": 10_000,
    "max_idle_conns_per_host": 100,
    "url": "",
    "urls": None,
    "headers": None,
}
TLS_DEFAULTS: Mapping[str, Any] = {
    "skip_tls_verify": False,
    "ca_cert": "",
    "client_cert": "",
    "client_key": "",
    "client_key_password": "",
    "server_name": "",
    "min_version": "",
    "max_version": "",
}
AUTH_DEFAULTS: Mapping[str, Any] = {"basic_auth": False, "basic_auth_user": "", "basic_auth_password": ""}
TLS_SECRETS = ("ca_cert", "client_cert", "client_key", "client_key_password")


def with_http_defaults(http: Mapping[str, Any]) -> Json:
    """Return an ``http`` object with every key; zero and missing timeouts get their defaults."""
    given = {name: value for name, value in http.items() if value or name not in HTTP_DEFAULTS}
    return {**HTTP_DEFAULTS, **given, "tls": {**TLS_DEFAULTS, **(http.get("tls") or {})}}


@dataclass(frozen=True)
class DatasourceRecord:
    """One datasource as stored, secrets in clear; ``http`` and ``auth`` have every key."""

    id: int
    name: str
    plugin_type: str
    identifier: str = ""
    description: str = ""
    plugin_id: int = 0
    plugin_type_name: str = ""
    category: str = ""
    cluster_name: str = ""
    settings: Json = field(default_factory=dict, repr=False)
    http: Json = field(default_factory=dict, repr=False)
    auth: Json = field(default_factory=dict, repr=False)
    status: str = "enabled"
    is_default: bool = False
    weight: int = 0
    created_at: int = 0
    created_by: str = ""
    updated_at: int = 0
    updated_by: str = ""
    fault: str = ""
    """Why the stored secrets cannot be read; such a datasource is listed and cannot be used."""

    @property
    def enabled(self) -> bool:
        """Whether rules are evaluated on it."""
        return self.status == "enabled"

    @property
    def type(self) -> str:
        """The datasource type that serves it; a ``.logging`` suffix only says how the user interface groups it."""
        return self.plugin_type.removesuffix(".logging")

    def config(self, **more: Any) -> DatasourceConfig:
        """Return what the type's plugin needs to connect."""
        return DatasourceConfig(self.id, self.name, self.type, self.settings, self.http, self.auth, **more)

    def full(self) -> Json:
        """Return everything, secrets included."""
        shown = {name: value for name, value in vars(self).items() if name != "fault"}
        return {**shown, "settings_encoded": "", "auth_encoded": "", "force_save": False}

    def redacted(self) -> Json:
        """Return what people who are no administrators may see."""
        tls = {**self.http.get("tls", {}), **dict.fromkeys(TLS_SECRETS, "")}
        return {
            **self.full(),
            "settings": None,
            "http": {**self.http, "headers": None, "tls": tls, **_without_userinfo(self.http)},
            "auth": dict(AUTH_DEFAULTS),
        }


def _without_userinfo(http: Mapping[str, Any]) -> Json:
    """Return the addresses of an ``http`` object without the user and password that may stand in them."""
    urls = http.get("urls")
    return {"url": _bare(http.get("url") or ""), "urls": [_bare(url) for url in urls] if urls else None}


def _bare(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return scheme + mark + authority.rpartition("@")[2] + slash + path if mark else url
