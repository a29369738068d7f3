"""Handing batches to a backend by remote write 1.0."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from dataclasses import dataclass

import cramjam

from tocsin.plugin import Batch, HttpClient, HttpError, HttpOptions, WriteError, Writer, WriteResult

ENCODED: Mapping[str, str] = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "User-Agent": "svc",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
SHOWN = 512
"""Bytes of a backend's answer that messages quote."""
MAX_ANSWER = 64 << 10
LONGEST_WAIT = 3600.0
"""Most seconds that a backend's ``Retry-After`` is believed."""


@dataclass
class _Outcome:
    """What the addresses that were tried so far said."""

    refused: int = 0
    detail: str = ""
    error: WriteError | None = None


class RemoteWriter(Writer):
    """One backend: the addresses of one ``Url``, tried in order."""

    def __init__(self, url: str, options: HttpOptions) -> None:
        self._client = HttpClient(options)
        self._options = options
        self.url = options.clean(url)

    def write(self, batch: Batch) -> WriteResult:
        """Compress and post a batch.

        A status below 300 is success.  Other statuses below 500 are refusals: the batch is lost, the result says so; after
        a 3xx no further address is asked.
        5xx, 429 with ``Retry-After`` and no answer raise ``WriteError`` unless another address takes the batch.
        """
        compressed = memoryview(cramjam.snappy.compress_raw(batch.body))
        return self._post(compressed, ENCODED, "")

    def forward_raw(self, body: bytes, headers: Mapping[str, str], query: str = "") -> None:
        """Post a caller's body as it is; raise ``WriteError`` when no address takes it."""
        result = self._post(memoryview(body), passed_on(headers), query)
        if result.refused_with:
            raise WriteError(f"{self.url}: {result.detail}", status=result.refused_with)

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def _post(self, body: memoryview, headers: Mapping[str, str], query: str) -> WriteResult:
        outcome = _Outcome()
        for url in self._options.urls:
            try:
                status, retry, text = self._exchange(url, body, headers, query)
            except HttpError as error:
                outcome.error = WriteError(str(error))
                continue
            if status < 300:
                return WriteResult()
            if status < 400:  # ends the attempt as if the batch were taken, but is not counted as if it were
                return WriteResult(refused_with=status, detail=self._detail(status, text))
            self._judge(status, retry, text, outcome)
        if outcome.error is not None:
            raise outcome.error
        return WriteResult(refused_with=outcome.refused, detail=outcome.detail)

    def _exchange(self, url: str, body: memoryview, headers: Mapping[str, str], query: str) -> tuple[int, str, str]:
        """Return status, ``Retry-After`` and the beginning of the body of one address's answer.

        The status decides: a body that breaks off afterwards changes nothing about what became of the batch.
        """
        answer = self._client.post(body, url=url, query=query, headers=headers, max_bytes=MAX_ANSWER)
        return (
            answer.status,
            answer.headers.get("retry-after", ""),
            answer.body[:SHOWN].decode("utf-8", "replace").strip(),
        )

    def _judge(self, status: int, retry: str, text: str, outcome: _Outcome) -> None:
        wait = retry_after(retry, time.time())
        detail = self._detail(status, text)
        if status >= 500 or (status == 429 and wait is not None):
            outcome.error = WriteError(f"{self.url}: {detail}", retry_after=wait, status=status)
        else:
            outcome.refused, outcome.detail = status, detail

    def _detail(self, status: int, text: str) -> str:
        return self._client.clean(f"HTTP {status}: {text}" if text else f"HTTP {status}")


def passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a forwarded request: what describes the caller's body, and nothing else of the caller's."""
    agent = headers.get("user-agent", "")
    given = {name: headers.get(name.lower()) or value for name, value in ENCODED.items()}
    return {**given, "User-Agent": f"{agent}-svc" if agent else "svc"}


def retry_after(value: str, now: float) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, ``None`` when there is none that can be read."""
    value = value.strip()
    if not value:
        return None
    if value.isdecimal():
        return min(float(value), LONGEST_WAIT)
    try:
        at = email.utils.parsedate_to_datetime(value).timestamp()
    except ValueError:
        return None
    return min(max(0.0, at - now), LONGEST_WAIT)
