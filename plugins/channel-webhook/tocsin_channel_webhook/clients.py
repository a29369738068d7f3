"""HTTP clients by what their connections need, so that sends to one receiver share connections."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from urllib.parse import urlsplit

from tocsin.plugin import HttpClient, HttpOptions, TlsOptions

LIMIT = 64
IDLE_SECONDS = 60.0


class Clients:
    """Keeps the clients of the receivers used last."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, HttpClient] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, url: str, options: HttpOptions) -> HttpClient:
        """Return a client for the server of ``url`` that connects as ``options`` say; it adds no headers of its own."""
        parts = urlsplit(url)
        place = (parts.scheme, parts.hostname, parts.port)
        key = (place, options.timeout, options.tls.verify, options.proxy, options.denied)
        with self._lock:
            client = self._kept.pop(key, None) or HttpClient(_bare(url, options))
            self._kept[key] = client
            dropped = self._kept.popitem(last=False)[1] if len(self._kept) > self._limit else None
        if dropped is not None:
            dropped.close()
        return client


def _bare(url: str, options: HttpOptions) -> HttpOptions:
    parts = urlsplit(url)
    server = parts.netloc.rpartition("@")[2]
    return HttpOptions(
        (f"{parts.scheme}://{server}",),
        timeout=options.timeout,
        dial_timeout=options.timeout,
        idle_timeout=IDLE_SECONDS,
        tls=TlsOptions(verify=options.tls.verify),
        denied=options.denied,
        proxy=options.proxy,
    )
