"""An HTTP client for plugins: pooled connections, one deadline per exchange, and errors that hold no secrets.

Every backend reached by HTTP is asked through this class, so that timeouts, TLS, proxies of the environment, redirects
(never followed: credentials go to the configured address and to no other) and limits are the same everywhere.
"""

from __future__ import annotations

import base64
import ipaddress
import random
import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from tocsin.plugin._errors import HttpError

if TYPE_CHECKING:
    from tocsin.plugin._http_pool import Address, Transport

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Route: TypeAlias = "tuple[Address, str, tuple[tuple[str, str], ...]]"
"""Where a post goes, its target, and the headers that go with it."""
MAX_ANSWER = 128 << 20
"""Largest answer in bytes that :meth:`HttpClient.request` keeps in memory unless told otherwise."""
PIECE = 64 << 10
ROUTES = 64
"""Ways of posting that a client remembers; a writer has one for each of its addresses."""
USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
SHORTEST_SECRET = 4
"""Shorter values are not hidden in messages: they would star ordinary words."""


@dataclass(frozen=True)
class TlsOptions:
    """How an https address is trusted; certificates and keys are PEM texts, versions are ``1.0`` to ``1.3``."""

    verify: bool = True
    ca: str = ""
    cert: str = ""
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    server_name: str = ""
    min_version: str = ""
    max_version: str = ""

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for these options; raise ``ValueError`` naming a field that cannot be used."""
        from tocsin.plugin._http_pool import tls_context

        return tls_context(self)


@dataclass(frozen=True)
class HttpOptions:
    """Where a backend is and how it is spoken to; all times are seconds.

    Raises ``ValueError`` for addresses and headers that can never work; the text names the field and no secret.
    """

    urls: tuple[str, ...] = field(repr=False)
    """Base addresses; a call without an address of its own picks one at random."""
    timeout: float = 10.0
    """Longest wait from sending a request to the headers of its answer."""
    dial_timeout: float = 10.0
    handshake_timeout: float = 0.0
    """Longest TLS handshake; 0 means ``dial_timeout``."""
    idle_timeout: float = 0.0
    """An idle connection older than this is not used again; 0 keeps it."""
    keep_alive: float = 0.0
    """Seconds between TCP keep-alive probes; 0 leaves it to the platform."""
    max_idle: int = 100
    """Idle connections kept for each address."""
    max_connections: int = 0
    """Requests on their way at once, over all addresses; 0 means no limit."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to every request; they win over the request's own."""
    username: str = ""
    password: str = field(default="", repr=False)
    tls: TlsOptions = TlsOptions()
    denied: tuple[Network, ...] = ()
    """Networks that are never connected to, whatever a name resolves to."""
    proxy: str = field(default="", repr=False)
    """Address of the HTTP proxy to go through; empty leaves it to the environment."""

    def __post_init__(self) -> None:
        for url in self.urls:
            check_url(url, self.denied)
        if self.proxy:
            check_url(self.proxy, self.denied, name="proxy")
        for name, value in self.headers.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
                raise ValueError(f"headers: {name!r} is not a header name")
            if not isinstance(value, str) or re.search(r"[\r\n\0]", value) or not _latin1(value):
                raise ValueError(f"headers: the value of {name} cannot be sent, expected one line of Latin-1 text")

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """What must not appear in a message, longest first."""
        pairs = [(self.username, self.password), *(_userinfo(urlsplit(url)) for url in (*self.urls, self.proxy))]
        found = {password for _, password in pairs} | {*self.headers.values(), self.tls.key_password}
        found |= {_basic(*pair).partition(" ")[2] for pair in pairs if pair[1]}
        found |= {value.partition(" ")[2] for value in self.headers.values()}
        return tuple(sorted((s for s in found if len(s) >= SHORTEST_SECRET), key=len, reverse=True))

    def clean(self, text: str) -> str:
        """Return ``text`` with credentials replaced by stars."""
        text = USERINFO.sub("***:***@", text)
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def check_url(url: str, denied: Sequence[Network] = (), *, name: str = "url") -> None:
    """Raise ``ValueError`` unless ``url`` is an http or https address with a host outside ``denied``.

    A host name is not resolved here: the client checks the address it is connected to before it sends anything.
    """
    if not url:
        raise ValueError(f"{name} is empty")
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{name} must start with http or https")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not host or re.search(r"[\s<>\"\\^`{|}\x00-\x20]", url) or not (_address(host) or _name(host)):
        raise ValueError(f"{name}: expected an address like http://host:port/path")
    address = _address(host)
    if address is not None and is_denied(address, denied):
        raise ValueError(f"{name}: connections to {host} are not allowed (Datasource.DeniedNetworks)")


def is_denied(address: ipaddress.IPv4Address | ipaddress.IPv6Address, denied: Sequence[Network]) -> bool:
    """Return whether an address lies in one of ``denied``; an IPv4 address inside IPv6 counts as what it is."""
    plain = getattr(address, "ipv4_mapped", None) or address
    return any(plain.version == network.version and plain in network for network in denied)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _name(host: str) -> bool:
    try:
        labels = host.rstrip(".").encode("idna").decode().split(".")
    except UnicodeError:
        return False
    return all(re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", label) for label in labels)


def _latin1(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def _userinfo(parts: SplitResult) -> tuple[str, str]:
    return unquote(parts.username or ""), unquote(parts.password or "")


@dataclass(frozen=True)
class HttpAnswer:
    """A complete answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpStream:
    """An answer whose body is still to come: iterate over it, then :meth:`close`.

    Iterating raises :class:`HttpError` when the body breaks off or the deadline passes.
    """

    def __init__(self, transport: Transport, response: Any, deadline: float, *, decode: bool) -> None:
        self.status: int = response.status
        self.headers: list[tuple[str, str]] = list(response.headers.items())
        self._transport = transport
        self._response = response
        self._deadline = deadline
        self._decode = decode

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._transport.read(self._response, PIECE, self._deadline, decode=self._decode):
            yield piece

    def close(self) -> None:
        """Give the connection back, or cut it when the body was not read to its end."""
        self._transport.release(self._response)


class HttpClient:
    """A backend behind :class:`HttpOptions`; used by several threads at once, connects on first use."""

    def __init__(self, options: HttpOptions) -> None:
        self.options = options
        self._given = {name.lower() for name in options.headers}
        self._routes: dict[tuple[str, str, tuple[tuple[str, str], ...]], Route] = {}

    @cached_property
    def _transport(self) -> Transport:
        from tocsin.plugin._http_pool import Transport

        return Transport(self.options)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes | memoryview | None = None,
        timeout: float | None = None,
        url: str = "",
        max_bytes: int = MAX_ANSWER,
    ) -> HttpAnswer:
        """Exchange one request for a complete answer within ``timeout`` seconds (default: the client's).

        ``path`` is appended to ``url`` or, without it, to one of the client's addresses.  Any status is an answer;
        raises :class:`HttpError` when there is none, or when its body is over ``max_bytes``.
        """
        seconds = self.options.timeout if timeout is None else timeout
        stream = self._send(method, path, query, headers or {}, body, seconds, seconds, url, decode=True)
        try:
            pieces: list[bytes] = []
            size = 0
            for piece in stream:
                size += len(piece)
                if size > max_bytes:
                    raise HttpError(f"the answer is over the limit of {max_bytes} bytes", kind="too_large")
                pieces.append(piece)
        finally:
            stream.close()
        body_bytes = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return HttpAnswer(stream.status, {name.lower(): value for name, value in stream.headers}, body_bytes)

    def post(
        self,
        body: bytes | memoryview,
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        url: str = "",
        max_bytes: int = 64 << 10,
    ) -> HttpAnswer:
        """Post a body whose answer is short: the status decides, and the body is only for people.

        PERF: the fast way, for writers.  The whole exchange must end within the client's timeout; of an answer that breaks
        off or is longer than ``max_bytes``, that part is returned which came.  Raises :class:`HttpError` without a status.
        """
        posted = (url or self._any_url(), query, tuple(headers.items()) if headers else ())
        route = self._routes.get(posted) or self._find_route(*posted)
        answer = self._transport.post(*route, body, self.options.timeout, max_bytes)
        if answer is not None:
            return HttpAnswer(*answer)
        stream = self.open("POST", "", query=query, headers=headers, body=body, url=url, limit=self.options.timeout)
        pieces: list[bytes] = []
        try:
            for piece in stream:
                pieces.append(piece)
                if sum(map(len, pieces)) > max_bytes:
                    break
        except HttpError:
            pieces.append(b" (the answer broke off)")
        finally:
            stream.close()
        return HttpAnswer(stream.status, {name.lower(): value for name, value in stream.headers}, b"".join(pieces))

    def open(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        url: str = "",
        limit: float = 300.0,
    ) -> HttpStream:
        """Send a request and return its answer as it comes, body undecoded; ``body`` may be a readable object.

        The headers must come within the client's timeout, the whole answer within ``limit`` seconds.
        """
        return self._send(method, path, query, headers or {}, body, self.options.timeout, limit, url, decode=False)

    def _send(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: Any,
        seconds: float,
        limit: float,
        url: str,
        *,
        decode: bool,
    ) -> HttpStream:
        base = urlsplit(url or self._any_url())
        deadline = time.monotonic() + limit
        target = self._target(base, path, query)
        sent = self._headers(base, headers)
        response = self._transport.send(base, method, target, sent, body, seconds)
        return HttpStream(self._transport, response, deadline, decode=decode)

    def _find_route(self, url: str, query: str, headers: tuple[tuple[str, str], ...]) -> Route:
        """Return and remember what all posts to a URL with some headers have in common."""
        from tocsin.plugin._http_pool import Address

        base = urlsplit(url)
        route = Address.of(base), self._target(base, "", query), tuple(self._headers(base, dict(headers)).items())
        if len(self._routes) >= ROUTES:
            self._routes.clear()
        self._routes[url, query, headers] = route
        return route

    def _any_url(self) -> str:
        if not self.options.urls:
            raise HttpError("url is empty", kind="build")
        return self.options.urls[0] if len(self.options.urls) == 1 else random.choice(self.options.urls)  # noqa: S311

    @staticmethod
    def _target(base: SplitResult, path: str, query: str) -> str:
        whole = base.path.rstrip("/") + path if path else base.path
        asked = "&".join(part for part in (base.query, query) if part)
        return (whole or "/") + (f"?{asked}" if asked else "")

    def _headers(self, base: SplitResult, headers: Mapping[str, str]) -> dict[str, str]:
        sent = {name: value for name, value in headers.items() if name.lower() not in self._given}
        username, password = (self.options.username, self.options.password)
        if not username:
            username, password = _userinfo(base)
        if username:
            sent = {name: value for name, value in sent.items() if name.lower() != "authorization"}
            sent["Authorization"] = _basic(username, password)
            if "authorization" in self._given:
                del sent["Authorization"]
        sent.update(self.options.headers)
        return sent

    def clean(self, text: str) -> str:
        """Return ``text`` with this client's credentials replaced by stars."""
        return self.options.clean(text)

    def close(self) -> None:
        """Close idle connections; a later call opens new ones."""
        if "_transport" in self.__dict__:
            self._transport.close()
