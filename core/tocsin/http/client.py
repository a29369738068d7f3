"""A client that calls a WSGI application in the same process: every request goes through the whole front door."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import orjson

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Answer:
    """What the application answered; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body parsed as JSON."""
        return orjson.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")


class WsgiClient:
    """Sends requests to ``application``; ``remote`` is the peer address that the application sees.

    ``environ`` is added to the WSGI environment of every request, for what no header can say.
    """

    def __init__(
        self,
        application: Wsgi,
        *,
        remote: str = "127.0.0.1",
        headers: Mapping[str, str] = NO_HEADERS,
        environ: Mapping[str, Any] = NO_HEADERS,
    ) -> None:
        self.application = application
        self._remote = remote
        self._headers = dict(headers)
        self._more = dict(environ)

    def with_headers(self, **headers: str) -> WsgiClient:
        """Return a client that sends more headers; ``X_User_Token`` becomes ``X-User-Token``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        merged = {**self._headers, **named}
        return WsgiClient(self.application, remote=self._remote, headers=merged, environ=self._more)

    def get(self, path: str, **options: Any) -> Answer:
        """Send a GET request."""
        return self.request("GET", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> Answer:
        """Send a POST request with a JSON body."""
        return self.request("POST", path, json=json, **options)

    def put(self, path: str, json: Any = None, **options: Any) -> Answer:
        """Send a PUT request with a JSON body."""
        return self.request("PUT", path, json=json, **options)

    def delete(self, path: str, json: Any = None, **options: Any) -> Answer:
        """Send a DELETE request, with a JSON body when there is one."""
        return self.request("DELETE", path, json=json, **options)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] = NO_HEADERS,
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes | None = None,
        json: Any = None,
    ) -> Answer:
        """Send one request and return the answer; ``body`` wins over ``json``."""
        path, _, given = path.partition("?")
        query_string = "&".join(part for part in (given, urlencode(query)) if part)
        sent = {**self._headers, **headers}
        if body is None and json is not None:
            body = orjson.dumps(json)
            sent.setdefault("Content-Type", "application/json")
        environ = self._environ(method, path, query_string, sent, body or b"")
        return self._call(environ)

    def _environ(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            # WSGI hands paths over as the bytes that were sent, decoded one to one.
            "PATH_INFO": path.encode().decode("latin-1"),
            "RAW_URI": quote(path, safe="/%:@") + ("?" + query if query else ""),
            "QUERY_STRING": query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": self._remote,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            **self._more,
        }
        for name, value in headers.items():
            upper = name.upper().replace("-", "_")
            environ["CONTENT_TYPE" if upper == "CONTENT_TYPE" else f"HTTP_{upper}"] = value
        return environ

    def _call(self, environ: dict[str, Any]) -> Answer:
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None) -> Callable[[bytes], Any]:
            started.append((status, headers))
            return lambda _data: None

        chunks = self.application(environ, start_response)
        try:
            body = b"".join(chunks)
        finally:
            close = getattr(chunks, "close", None)
            if close:
                close()
        status, headers = started[-1]
        return Answer(int(status.split(" ", 1)[0]), {name.lower(): value for name, value in headers}, body)
