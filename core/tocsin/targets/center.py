"""A center as another process reaches it: its service API over HTTP."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import orjson

from tocsin.app.settings import SettingsError
from tocsin.http.metrics import Metrics
from tocsin.ingest.throttle import Throttle
from tocsin.plugin import HttpAnswer, HttpClient, HttpError, HttpOptions
from tocsin.targets.settings import CenterApiSettings

log = logging.getLogger(__name__)
DEFAULT_TIMEOUT = 5.0
SILENT_SECONDS = 10.0
"""How long an address that did not answer is the last resort."""
SHOWN = 200
"""Bytes that messages quote of an answer that is no envelope."""
JSON = {"Content-Type": "application/json"}
CODE_OF = {"timeout": "timeout", "connect": "neterror", "broken": "neterror"}
"""Label ``code`` of the metrics for exchanges without an answer; other kinds of errors are ``error``."""


class CenterError(Exception):
    """No center answered, or none did as it was asked; the text says what the last one said."""


class Center:
    """Calls the service API: any of the configured addresses will do."""

    def __init__(
        self, settings: CenterApiSettings, metrics: Metrics, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            self._client = HttpClient(
                HttpOptions(
                    urls=tuple(settings.addresses),
                    timeout=settings.timeout / 1000 or DEFAULT_TIMEOUT,
                    username=settings.user,
                    password=settings.password,
                )
            )
        except ValueError as error:
            raise SettingsError(f"CenterApi.Addrs: {error}") from None
        self._monotonic = monotonic
        self._silent: dict[str, float] = {}  # addresses without an answer, and when one of them is worth another try
        self._failed = Throttle(log)
        labels = ("path", "code")
        self._requests: Any = metrics.counter("svc_poster_request_total", "Calls to centers.", labels)
        self._seconds: Any = metrics.histogram("svc_poster_request_duration_seconds", "Time of these calls.", labels)

    def get(self, path: str, **query: str) -> Any:
        """Return what a center has below a path; raise :class:`CenterError`."""
        return self._call("GET", path, query, None)

    def post(self, path: str, body: Any, **query: str) -> Any:
        """Give a center a JSON body and return its ``dat``; raise :class:`CenterError` when none took it."""
        return self._call("POST", path, query, orjson.dumps(body))

    def _call(self, method: str, path: str, query: dict[str, str], body: bytes | None) -> Any:
        """Try every address once, beginning with any that has answered lately."""
        error = CenterError("")
        for address in self._addresses():
            try:
                return self._exchange(method, address, path, urlencode(query), body)
            except CenterError as reason:
                error = reason
        self._failed.warning(lambda: f"no center takes {path}: {error}")
        raise error

    def _addresses(self) -> list[str]:
        """Return the addresses in the order in which to try them.

        The silent ones come last, but every now and then one call begins with one, so that only it pays if that is still so.
        """
        urls, now = self._client.options.urls, self._monotonic()
        found = random.sample(urls, len(urls))
        due = [address for address in found if self._silent.get(address, now) < now]
        for address in due:
            self._silent[address] = now + SILENT_SECONDS
        return due + sorted((address for address in found if address not in due), key=self._silent.__contains__)

    def _exchange(self, method: str, address: str, path: str, query: str, body: bytes | None) -> Any:
        started, code = time.perf_counter(), "error"
        try:
            answer = self._client.request(method, path, query=query, headers=JSON, body=body, url=address)
            code = str(answer.status)
            self._silent.pop(address, None)
        except HttpError as error:
            code = CODE_OF.get(error.kind, "error")
            self._silent[address] = self._monotonic() + SILENT_SECONDS
            raise CenterError(str(error)) from None
        finally:
            self._requests.labels(path, code).inc()
            self._seconds.labels(path, code).observe(time.perf_counter() - started)
        dat, reason = self._read(answer)
        if answer.status != 200 or reason:
            raise CenterError(f"HTTP {answer.status}: {reason}")
        return dat

    def _read(self, answer: HttpAnswer) -> tuple[Any, str]:
        """Return ``dat`` and the reason of a failure, empty when it was a success."""
        try:
            envelope = orjson.loads(answer.body)
            return envelope.get("dat"), str(envelope["err"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None, self._client.clean(answer.body[:SHOWN].decode(errors="replace").strip()) or "an empty answer"
