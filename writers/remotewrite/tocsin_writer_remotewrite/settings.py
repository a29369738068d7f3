"""One element of ``[[Pushgw.Writers]]``, as far as the HTTP client is concerned."""

from __future__ import annotations

from tocsin.plugin import at_least, key, one_of, section

VERSIONS = ("", "1.0", "1.1", "1.2", "1.3")


def _pairs(value: list[str]) -> str | None:
    return None if len(value) % 2 == 0 else 'names and values in turn, like ["X-Tenant", "a"]'


@section("")
class RemoteWriteSettings:
    """A backend that takes remote write."""

    url: str = key("Url", "", "address; several, separated by commas, are tried in order until one takes the batch")
    user: str = key("BasicAuthUser", "", "user of basic authentication; empty sends none")
    password: str = key("BasicAuthPass", "", "its password", secret=True)
    timeout: int = key("Timeout", 10000, "milliseconds to wait for the answer", check=at_least(1))
    dial_timeout: int = key("DialTimeout", 3000, "milliseconds to wait for a connection", check=at_least(1))
    handshake_timeout: int = key("TLSHandshakeTimeout", 30000, "milliseconds for the TLS handshake", check=at_least(1))
    idle_timeout: int = key(
        "IdleConnTimeout", 90000, "milliseconds after which an idle connection is not used again; 0 keeps it",
        check=at_least(0),
    )  # fmt: skip
    keep_alive: int = key(
        "KeepAlive", 30000, "milliseconds between TCP keep-alive probes; 0 leaves it to the system", check=at_least(0)
    )
    max_connections: int = key(
        "MaxConnsPerHost", 0, "requests on their way at once; 0 means no limit", check=at_least(0)
    )
    max_idle: int = key(
        "MaxIdleConns", 100, "idle connections kept over all addresses; 0 means no limit", check=at_least(0)
    )
    max_idle_per_host: int = key(
        "MaxIdleConnsPerHost", 100, "idle connections kept for each address", check=at_least(1)
    )
    headers: list[str] = key(
        "Headers", [], "names and values in turn, added to every request", check=_pairs, secret=True
    )
    use_tls: bool = key("UseTLS", False, "apply the TLS keys below; an https address works without, with system roots")
    tls_ca: str = key("TLSCA", "", "file with the certificates to trust")
    tls_cert: str = key("TLSCert", "", "file with the client certificate")
    tls_key: str = key("TLSKey", "", "file with its key")
    tls_key_password: str = key("TLSKeyPwd", "", "password of the key", secret=True)
    server_name: str = key("ServerName", "", "name to expect in the backend's certificate")
    skip_verify: bool = key("InsecureSkipVerify", False, "do not check the backend's certificate")
    min_version: str = key("TLSMinVersion", "", "lowest TLS version", check=one_of(*VERSIONS))
    max_version: str = key("TLSMaxVersion", "", "highest TLS version", check=one_of(*VERSIONS))
