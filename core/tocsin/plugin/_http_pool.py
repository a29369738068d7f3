"""The connections behind :class:`~tocsin.plugin.HttpClient`: urllib3 pools with the limits that urllib3 leaves out."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import logging
import os
import socket
import ssl
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult

import urllib3
from urllib3 import exceptions as faults
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from tocsin.plugin._errors import HttpError
from tocsin.plugin._http import is_denied
from tocsin.plugin._http_deadline import TimedReader, TimedResponse
from tocsin.plugin._http_post import BrokenAnswerError, Exchange, head_of

if TYPE_CHECKING:
    from tocsin.plugin._http import HttpOptions, Network, TlsOptions

# A pool that is over its size closes the connection, which is what the option asks for and no reason for a warning.
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)

VERSIONS = {
    "1.0": ssl.TLSVersion.TLSv1,
    "1.1": ssl.TLSVersion.TLSv1_1,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}


class DeniedAddressError(Exception):
    """The host is, or resolved to, an address that connections are not allowed to."""


class _Watched:
    """Mixed into the connections: looks at whom it is connected to before anything is sent, and at its idle time."""

    denied: tuple[Network, ...] = ()
    handshake_timeout = 0.0
    idle_timeout = 0.0
    timeout: float
    _used = 0.0
    _reader: TimedReader

    def _new_conn(self) -> socket.socket:
        sock: socket.socket = super()._new_conn()  # type: ignore[misc]
        if self.denied and getattr(self, "proxy", None) is None:
            address = ipaddress.ip_address(sock.getpeername()[0].partition("%")[0])
            if is_denied(address, self.denied):
                sock.close()
                raise DeniedAddressError(f"connections to {address} are not allowed (Datasource.DeniedNetworks)")
        if self.handshake_timeout:
            sock.settimeout(self.handshake_timeout)
        return sock

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        # An unchecked certificate is a choice of the configuration, not something to warn of at every connection.
        self.is_verified = True

    def getresponse(self) -> Any:
        self._used = time.monotonic()
        answer = super().getresponse()  # type: ignore[misc]
        answer.tocsin_reader = self._reader
        return answer

    def response_class(self, sock: socket.socket, *_: Any, **options: Any) -> TimedResponse:
        """Make the answer that http.client reads into; by now the timeout is the one for the answer."""
        response = TimedResponse(sock, time.monotonic() + self.timeout, **options)
        self._reader = response.reader
        return response

    @property
    def is_connected(self) -> bool:
        stale = self.idle_timeout and time.monotonic() - self._used > self.idle_timeout
        return not stale and bool(super().is_connected)  # type: ignore[misc]


class Address(NamedTuple):
    """Whom a URL names, as pools, messages and the Host header want it."""

    scheme: str
    host: str
    port: int | None
    shown: str
    header: str

    @classmethod
    def of(cls, url: SplitResult) -> Address:
        """Return the address of a URL, which holds no credentials."""
        host, port = str(url.hostname), url.port
        return cls(url.scheme, host, port, f"{host}:{port}" if port else host, url.netloc.rpartition("@")[2])


def _connection_class(base: type, options: HttpOptions) -> type:
    limits = {
        "denied": options.denied,
        "handshake_timeout": options.handshake_timeout,
        "idle_timeout": options.idle_timeout,
    }
    return type(f"Watched{base.__name__}", (_Watched, base), limits)


class Transport:
    """The pools of one client, one for each address, and the translation of urllib3's errors."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._pools: dict[Address, Any] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(options.max_connections) if options.max_connections else None
        self._http = _connection_class(HTTPConnection, options)
        self._https = _connection_class(HTTPSConnection, options)

    def send(
        self, base: SplitResult, method: str, target: str, headers: Mapping[str, str], body: Any, seconds: float
    ) -> Any:
        """Send a request and return urllib3's response with its headers read and its body still to come."""
        address = Address.of(base)
        host = address.shown
        wait = urllib3.Timeout(total=seconds, connect=min(self._options.dial_timeout, seconds), read=seconds)
        if self._slots and not self._slots.acquire(timeout=seconds):
            raise HttpError(f"{host}: all {self._options.max_connections} connections are busy", kind="timeout")
        try:
            pool = self._pool(address)
            if pool.proxy is not None and base.scheme == "http":
                # A proxy of plain http is asked for whole addresses.
                target = f"http://{host}{target}"
                headers = headers if any(name.lower() == "host" for name in headers) else {"Host": host, **headers}
            response = pool.urlopen(
                method,
                target,
                body=body,
                headers=headers,
                timeout=wait,
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
                decode_content=False,
            )
        except Exception as error:
            self._free()
            raise self._translated(error, host, seconds) from None
        response._tocsin_host = host
        return response

    def post(
        self,
        address: Address,
        target: str,
        headers: tuple[tuple[str, str], ...],
        body: bytes | memoryview,
        seconds: float,
        keep: int,
    ) -> tuple[int, dict[str, str], bytes] | None:
        """Post a body and return status, headers and up to ``keep`` bytes of the answer; None when a proxy is in between.

        A kept connection that turns out to be closed is replaced once, before anything of an answer has come.
        """
        host = address.shown
        pool = self._pool(address)
        if pool.proxy is not None:
            return None
        if self._slots and not self._slots.acquire(timeout=seconds):
            raise HttpError(f"{host}: all {self._options.max_connections} connections are busy", kind="timeout")
        try:
            head = b"%s%d\r\n\r\n" % (head_of(target, address.header, headers), len(body))
            return self._post(pool, head, body, time.monotonic() + seconds, keep)
        except Exception as error:
            raise self._translated(error, host, seconds) from None
        finally:
            self._free()

    def _post(
        self, pool: Any, head: bytes, body: bytes | memoryview, deadline: float, keep: int
    ) -> tuple[int, dict[str, str], bytes]:
        while True:
            connection = pool._get_conn()
            kept = connection.sock is not None  # the pool has closed it when it is stale or was dropped
            exchange = None
            try:
                if not kept:
                    connection.timeout = max(0.001, min(self._options.dial_timeout, deadline - time.monotonic()))
                    connection.connect()
                exchange = Exchange(connection.sock, deadline)
                return exchange.run(head, body, keep)
            except (BrokenAnswerError, ConnectionError) as error:
                if not kept or getattr(error, "began", False):
                    raise
            finally:
                connection._used = time.monotonic()
                if exchange is None or not exchange.reusable:
                    connection.close()
                pool._put_conn(connection)

    def read(self, response: Any, size: int, deadline: float, *, decode: bool) -> bytes:
        """Return the next piece of a body, empty at its end."""
        left = deadline - time.monotonic()
        host = response._tocsin_host
        late = HttpError(f"{host}: the answer did not end in time", kind="timeout")
        if left <= 0:
            raise late
        response.tocsin_reader.deadline = deadline
        try:
            piece: bytes = response.read1(size, decode_content=decode)
        except faults.TimeoutError:
            raise late from None
        except Exception as error:
            raise self._translated(error, host, left) from None
        return piece

    def release(self, response: Any) -> None:
        """Give a connection back to its pool when its answer was read to the end, close it otherwise."""
        self._free()
        if response.connection is not None and not response.isclosed():
            response.close()
        response.release_conn()

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            pool.close()

    def _free(self) -> None:
        if self._slots:
            self._slots.release()

    def _pool(self, address: Address) -> Any:
        pool = self._pools.get(address)
        if pool is None:
            with self._lock:
                pool = self._pools.get(address) or self._pools.setdefault(address, self._make(address))
        return pool

    def _make(self, address: Address) -> Any:
        scheme, host, port = address.scheme, address.host, address.port
        options = self._options
        common: dict[str, Any] = {"maxsize": options.max_idle, "block": False, "socket_options": self._socket_options()}
        secure: dict[str, Any] = {}
        if scheme == "https":
            secure = {"ssl_context": options.tls.context(), "server_hostname": options.tls.server_name or None}
            if options.tls.server_name:
                secure["assert_hostname"] = options.tls.server_name if options.tls.verify else False
        proxy = options.proxy or _environment_proxy(scheme, host)
        pool: Any
        if proxy:
            pool = urllib3.ProxyManager(proxy, **common).connection_from_host(host, port, scheme, {**common, **secure})
        elif scheme == "https":
            pool = HTTPSConnectionPool(host, port, **common, **secure)
        else:
            pool = HTTPConnectionPool(host, port, **common)
        pool.ConnectionCls = self._https if scheme == "https" else self._http
        return pool

    def _socket_options(self) -> list[tuple[int, int, int]]:
        chosen = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        if self._options.keep_alive:
            seconds = max(1, round(self._options.keep_alive))
            chosen += [
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds),
                (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, seconds),
            ]
        return chosen

    def _translated(self, error: Exception, host: str, seconds: float) -> HttpError:
        kind, text = _story(error, seconds)
        return HttpError(self._options.clean(f"{host}: {text}"), kind=kind)


def _story(error: Exception, seconds: float) -> tuple[str, str]:
    """Return the kind of a failure and what to tell people about it, without urllib3's object representations."""
    match error:
        case HttpError():
            return error.kind, str(error)
        case DeniedAddressError():
            return "denied", str(error)
        case faults.NameResolutionError():
            return "connect", "the host name cannot be resolved"
        case faults.NewConnectionError():
            return "connect", f"cannot connect: {_root(error)}"
        case faults.ConnectTimeoutError():
            return "connect", "no connection in time"
        case faults.TimeoutError() | TimeoutError():
            return "timeout", f"no answer within {seconds:g} s"
        case faults.SSLError():
            return "connect", f"TLS: {_root(error)}"
        case faults.ProxyError():
            return "connect", f"through the proxy: {_root(error)}"
        case faults.DecodeError():
            return "broken", "the answer's content encoding is broken"
        case ValueError() | http.client.InvalidURL() | UnicodeError():
            return "build", "the request cannot be sent: it holds characters that HTTP does not allow"
        case _:
            return "broken", f"the connection broke: {_root(error)}"


def _root(error: BaseException) -> str:
    """Return the innermost cause as text."""
    inner: BaseException = error
    for _ in range(8):
        following = inner.__cause__ or next((a for a in inner.args[::-1] if isinstance(a, BaseException)), None)
        if following is None:
            break
        inner = following
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(inner) or type(inner).__name__


def _environment_proxy(scheme: str, host: str) -> str:
    """Return the proxy that the environment prescribes; loopback addresses never use one."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return ""
    if host == "localhost" or host.endswith(".localhost") or urllib.request.proxy_bypass(host):
        return ""
    return urllib.request.getproxies().get(scheme, "")


def tls_context(options: TlsOptions) -> ssl.SSLContext:
    """Return the TLS context of a client; raise ``ValueError`` naming the field that cannot be used."""
    context = ssl.create_default_context()
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    for name, value in (("min_version", options.min_version), ("max_version", options.max_version)):
        if value and value not in VERSIONS:
            raise ValueError(f"tls.{name}: got {value!r}, expected one of {', '.join(VERSIONS)}")
    if options.min_version:
        context.minimum_version = VERSIONS[options.min_version]
    if options.max_version:
        context.maximum_version = VERSIONS[options.max_version]
    try:
        if options.ca:
            context.load_verify_locations(cadata=options.ca)
    except ssl.SSLError:
        raise ValueError("tls.ca_cert: expected certificates in PEM") from None
    if options.cert and options.key:
        with _as_file(options.cert + "\n" + options.key) as file:
            try:
                context.load_cert_chain(file, password=options.key_password or _no_password)
            except (ssl.SSLError, ValueError):
                raise ValueError("tls.client_cert, tls.client_key: expected a PEM certificate and its key") from None
    return context


def _no_password() -> str:
    """Keep OpenSSL from asking on the terminal for the password of an encrypted key."""
    raise ValueError("the key is encrypted and no password is given")


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Give a secret text a file name for as long as OpenSSL reads it, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("pem", os.MFD_CLOEXEC), "w") as handle:
            handle.write(text)
            handle.flush()
            yield f"/proc/self/fd/{handle.fileno()}"
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as handle:
        handle.write(text)
        handle.flush()
        yield handle.name
