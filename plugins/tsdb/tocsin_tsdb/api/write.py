"""The remote-write receiver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import cramjam
import falcon

from tocsin_tsdb.api.failure import Failure, bad_data, too_large
from tocsin_tsdb.api.options import MAX_BODY
from tocsin_tsdb.api.service import Service, client_left
from tocsin_tsdb.storage.errors import CommitFailed, MalformedWrite
from tocsin_tsdb.storage.head import Outcome

log = logging.getLogger(__name__)

REPORT_SECONDS = 60.0


class WriteResource:
    """Takes remote-write 1.0 requests: snappy, or as they are with `Content-Encoding: identity`."""

    def __init__(self, service: Service, clock: Callable[[], float]) -> None:
        self._service = service
        self._refusals = RefusalLog(clock)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Store the samples; 204 when they are durable."""
        service = self._service
        outcome = "failed"
        try:
            with service.slot(service.writes, "write", client_left(req)):
                stored = service.store.write(_body(req))
            outcome = "stored"
        except MalformedWrite as error:
            outcome = "malformed"
            raise bad_data(str(error)) from None
        except CommitFailed as error:
            raise Failure(500, "internal", str(error)) from None
        except Failure as failure:
            outcome = "malformed" if failure.status < 500 else "failed"
            raise
        finally:
            service.metrics.requests.labels(outcome).inc()
        self._refusals.add(stored)
        resp.status = falcon.HTTP_204


def _body(req: falcon.Request) -> bytes:
    if "proto=io.prometheus.write.v2" in (req.content_type or ""):
        raise Failure(415, "bad_data", "remote write 2.0 is not accepted here, expected prometheus.WriteRequest")
    if (req.content_length or 0) > MAX_BODY:
        raise too_large(f"body of {req.content_length} bytes is over the limit of {MAX_BODY}")
    data: bytes = req.bounded_stream.read(MAX_BODY + 1)
    if len(data) > MAX_BODY:
        raise too_large(f"body is over the limit of {MAX_BODY} bytes")
    encoding = req.get_header("Content-Encoding") or "snappy"
    if encoding == "identity":
        return data
    if encoding != "snappy":
        raise Failure(415, "bad_data", f"content encoding {encoding!r} is not accepted, expected snappy")
    return unpack(data)


def unpack(data: bytes) -> bytes:
    """Decompress a snappy block; its declared size is checked first. Raises Failure."""
    try:
        if cramjam.snappy.decompress_raw_len(data) > MAX_BODY:
            raise too_large(f"decompressed body is over the limit of {MAX_BODY} bytes")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise bad_data(f"snappy: {error}") from None


class RefusalLog:
    """Says once a minute, not once per request, how many samples were refused and why."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._due = 0.0
        self._sum = Outcome()

    def add(self, outcome: Outcome) -> None:
        """Account for one write request."""
        if not outcome.refused:
            return
        with self._lock:
            total = self._sum
            for name in ("conflicts", "too_old", "out_of_bounds", "invalid"):
                setattr(total, name, getattr(total, name) + getattr(outcome, name))
            now = self._clock()
            if now < self._due:
                return
            self._due = now + REPORT_SECONDS
            self._sum = Outcome()
        log.warning(
            "%d samples refused: %d older than the out-of-order window, %d too far in the future or past, "
            "%d with another value for a stored time, %d with unusable labels",
            total.refused,
            total.too_old,
            total.out_of_bounds,
            total.conflicts,
            total.invalid,
        )
