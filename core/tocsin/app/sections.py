"""The settings sections of the frame itself; capabilities and plugins declare their own."""

from __future__ import annotations

import os
import re

from tocsin.app.settings import at_least, between, key, one_of, section


@section("")
class AgentApi:
    """Ingest and heartbeat endpoints used by collectors."""

    enable: bool = key("Enable", True, "accept samples and heartbeats; false leaves collectors no way to write")
    basic_auth: dict[str, str] = key("BasicAuth", {}, "user = password pairs; empty asks for no login", secret=True)


@section("")
class ServiceApi:
    """The service API below `/v1/svc`, used by other processes and by automation."""

    enable: bool = key("Enable", False, "serve the service API")
    basic_auth: dict[str, str] = key("BasicAuth", {}, "user = password pairs; empty refuses every caller", secret=True)


@section("")
class JwtAuth:
    """Sessions of people who log in."""

    access_expired: int = key("AccessExpired", 1500, "minutes an access token is valid", check=at_least(1))
    refresh_expired: int = key("RefreshExpired", 10080, "minutes a refresh token is valid", check=at_least(1))
    key_prefix: str = key("RedisKeyPrefix", "/jwt/", "prefix of session records in the cache")
    single_login: bool = key("SingleLogin", False, "a new login ends the user's earlier sessions")


@section("")
class ProxyAuth:
    """Trust in a user name that a front proxy puts into a header."""

    enable: bool = key("Enable", False, "take the user name from the header; only behind a proxy that sets it")
    header: str = key("HeaderUserNameKey", "X-User-Name", "the header with the user name")
    default_roles: list[str] = key("DefaultRoles", ["Standard"], "roles of users created on their first request")


@section("")
class TokenAuth:
    """Personal tokens."""

    enable: bool = key("Enable", True, "accept personal tokens")
    header: str = key("HeaderUserTokenKey", "X-User-Token", "the header with the token")


@section("")
class AgentEndpoints:
    """The endpoints for AI clients, `/mcp` and `/a2a`."""

    disable: bool = key("Disable", False, "serve neither `/mcp` nor `/a2a`")
    disable_mcp: bool = key("DisableMCP", False, "do not serve `/mcp`")
    base_url: str = key("BaseURL", "", "public address of the service; empty takes it from the request")
    toolsets: list[str] = key("MCPToolsets", [], "names of the toolsets to serve; empty means all")
    write_tools: bool = key("MCPEnableWriteTools", False, "register the tools that change something")


def default_workers() -> int:
    """Return the number of HTTP workers on this machine: one per CPU, at most four."""
    return max(1, min(4, os.cpu_count() or 1))


def path_pairs(aliases: dict[str, str]) -> str | None:
    """Return what was expected instead of aliases of which one is no path."""
    paths = (path for pair in aliases.items() for path in pair)
    if all(len(path) > 1 and path.startswith("/") and not path.endswith("/") for path in paths):
        return None
    return 'paths like "/api/put" = "/tsdbput/put"'


@section("HTTP")
class HttpSettings:
    """The HTTP server of every process."""

    host: str = key("Host", "0.0.0.0", "address to listen on")  # noqa: S104 - a server is meant to be reached
    port: int = key(
        "Port", 17000, "port to listen on (the edge process is shipped with 19000)", check=between(0, 65535)
    )
    workers: int = key("Workers", 0, "HTTP worker processes; 0 means one per CPU, at most 4", check=at_least(0))
    threads: int = key("Threads", 32, "requests served at once by one worker", check=at_least(1))
    cert_file: str = key("CertFile", "", "TLS certificate; with KeyFile the port serves https only, TLS 1.2 or newer")
    key_file: str = key("KeyFile", "", "TLS private key")
    access_log: bool = key("PrintAccessLog", False, "log a line for each request")
    pprof: bool = key("PProf", True, "serve `/api/debug/pprof/*`")
    expose_metrics: bool = key("ExposeMetrics", True, "serve `/metrics`")
    shutdown_timeout: int = key(
        "ShutdownTimeout", 30, "seconds to finish work at a stop: a third for requests under way"
    )
    read_timeout: int = key("ReadTimeout", 20, "seconds in which a request must have come in; 0 means no limit")
    write_timeout: int = key("WriteTimeout", 40, "seconds a worker may be silent before it is replaced")
    idle_timeout: int = key("IdleTimeout", 120, "seconds an idle keep-alive connection stays open")
    max_content_length: int = key("MaxContentLength", 64 << 20, "largest accepted body in bytes", check=at_least(1))
    path_aliases: dict[str, str] = key(
        "PathAliases", {}, "beginnings of paths that compatible clients use, mapped onto ours", check=path_pairs
    )
    api_for_agent: AgentApi = key("APIForAgent", AgentApi, "")
    api_for_service: ServiceApi = key("APIForService", ServiceApi, "")
    jwt_auth: JwtAuth = key("JWTAuth", JwtAuth, "")
    proxy_auth: ProxyAuth = key("ProxyAuth", ProxyAuth, "")
    token_auth: TokenAuth = key("TokenAuth", TokenAuth, "")
    a2a: AgentEndpoints = key("A2A", AgentEndpoints, "")


@section("Log")
class LogSettings:
    """The service's own log."""

    level: str = key("Level", "INFO", "lowest level written", check=one_of("DEBUG", "INFO", "WARNING", "ERROR"))
    output: str = key("Output", "stderr", "where it goes", check=one_of("stdout", "stderr", "file"))
    directory: str = key("Dir", "logs", "directory of the log files when Output is file")


@section("Data")
class DataSettings:
    """Where the service keeps its own files."""

    directory: str = key("Dir", "data", "database, keys, embedded cache and sockets of this installation")


@section("Secrets")
class SecretsSettings:
    """Encryption of stored passwords and tokens."""

    key: str = key("Key", "", "32 random bytes in URL-safe base64; empty makes one in the data directory", secret=True)


@section("DB")
class DbSettings:
    """The database of the configuration."""

    kind: str = key("DBType", "sqlite", "database system", check=one_of("sqlite", "mysql", "postgres"))
    dsn: str = key(
        "DSN",
        "",
        "sqlite: a file, empty for one in the data directory; mysql: user:password@tcp(host:port)/database; "
        "postgres: host=... port=... user=... password=... dbname=...",
        secret=True,
    )
    max_open: int = key("MaxOpenConns", 20, "connections one process may open", check=at_least(1))
    max_lifetime: int = key("MaxLifetime", 7200, "seconds after which an idle connection is replaced")
    wait: int = key("WaitTimeout", 10, "seconds a request waits for a free connection")


@section("Redis")
class CacheSettings:
    """The cache that processes share: sessions, beats of hosts, counters."""

    kind: str = key("RedisType", "embedded", "cache back end", check=one_of("embedded", "miniredis", "standalone"))
    address: str = key("Address", "127.0.0.1:6379", "host:port of the Redis server")
    username: str = key("Username", "", "user of the Redis server")
    password: str = key("Password", "", "password of the Redis server", secret=True)
    db: int = key("DB", 0, "database number", check=at_least(0))
    use_tls: bool = key("UseTLS", False, "speak TLS")
    timeout_ms: int = key("ReadTimeoutMills", 3000, "milliseconds to wait for an answer", check=at_least(1))


@section("Plugins")
class PluginSettings:
    """Which installed plugins are used."""

    disabled: list[str] = key("Disabled", [], "names of installed plugins to leave out")


def plain_address(value: str) -> str | None:
    """Check that a text is empty or an http address of plain characters, because it becomes part of a shell script."""
    if re.fullmatch(r"(https?://[A-Za-z0-9._:/-]+)?", value):
        return None
    return "an address like https://host/path"


@section("Center")
class CenterSettings:
    """How long the center keeps what has happened, and what it hands out to hosts."""

    history_days: int = key(
        "CleanAlertHisEventDay", 0, "days to keep historical events; 0 keeps them for ever", check=at_least(0)
    )
    record_days: int = key(
        "CleanNotifyRecordDay", 7, "days to keep notification records; 0 keeps them for ever", check=at_least(0)
    )
    agents_directory: str = key("AgentsDir", "agents/categraf", "directory of the collector packages to hand out")
    agents_release_url: str = key(
        "AgentsReleaseURL",
        "",
        "public address of collector releases, for packages that are not there; empty for none",
        check=plain_address,
    )


CORE_SECTIONS: tuple[type, ...] = (
    HttpSettings,
    LogSettings,
    DataSettings,
    SecretsSettings,
    DbSettings,
    CacheSettings,
    PluginSettings,
    CenterSettings,
)
