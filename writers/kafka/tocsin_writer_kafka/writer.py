"""The producer of one topic."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from tocsin.plugin import Batch, WriteError, Writer, WriteResult
from tocsin_writer_kafka.message import NotEncodableError, json_value
from tocsin_writer_kafka.settings import KafkaSettings

NOT_ENCODABLE = 422
"""Status under which batches are counted that the chosen format cannot carry."""
GRACE = 1.0
"""Seconds that an outcome is waited for beyond the message's own limit, and at the end."""


class KafkaWriter(Writer):
    """Sends each batch as one message and returns when the brokers have acknowledged it."""

    def __init__(self, settings: KafkaSettings, metrics: Any) -> None:
        self.url = f"[{' '.join(settings.brokers)}]_{settings.topic}"
        self._settings = settings
        self._producer: Any = None
        self._owner = 0
        self._lock = threading.Lock()
        self._trouble = ""  # what the client last said of the brokers; an outcome says little more than that time is up
        labels = ("producer_type",)
        sent = metrics.counter("kafka_producer_message_success_total", "Messages that brokers acknowledged.", labels)
        failed = metrics.counter("kafka_producer_message_error_total", "Messages that were not acknowledged.", labels)
        self._sent, self._failed = sent.labels(settings.kind), failed.labels(settings.kind)

    def write(self, batch: Batch) -> WriteResult:
        """Send a batch; a batch that the format cannot carry is refused, everything else is worth another try."""
        try:
            value = json_value(batch.body) if self._settings.format == "json" else batch.body
        except NotEncodableError as error:
            self._failed.inc()
            return WriteResult(NOT_ENCODABLE, str(error))
        try:
            self._send(value)
        except WriteError:
            self._failed.inc()
            raise
        self._sent.inc()
        return WriteResult()

    def close(self) -> None:
        """Give up connections; what is under way gets a last moment."""
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None and self._owner == os.getpid():
            producer.flush(GRACE)

    def _send(self, value: bytes) -> None:
        from confluent_kafka import KafkaException

        outcome = Outcome()
        producer = self._connected()
        try:
            producer.produce(self._settings.topic, value=value, key=self.url.encode(), on_delivery=outcome.settle)
        except (KafkaException, BufferError) as error:
            raise WriteError(f"kafka: {error}") from None
        try:
            outcome.wait(producer, self._settings.timeout + GRACE)
        except WriteError as error:
            raise WriteError(f"{error}; {self._trouble}" if self._trouble else str(error)) from None
        self._trouble = ""

    def _troubled(self, error: Any) -> None:
        self._trouble = str(error.str())

    def _connected(self) -> Any:
        """Return this process's producer; threads and connections do not survive a fork."""
        with self._lock:
            if self._producer is None or self._owner != os.getpid():
                from confluent_kafka import KafkaException, Producer

                try:
                    options = options_of(self._settings) | {"error_cb": self._troubled}
                    self._producer, self._owner = Producer(options), os.getpid()
                except KafkaException as error:
                    raise WriteError(f"kafka: {error}") from None
            return self._producer


class Outcome:
    """What became of one message; settled by whichever thread serves the producer's events."""

    def __init__(self) -> None:
        self._settled = threading.Event()
        self._error: str | None = None

    def settle(self, error: Any, _message: Any) -> None:
        """Note the outcome (the producer's callback)."""
        self._error = None if error is None else str(error.str())
        self._settled.set()

    def wait(self, producer: Any, seconds: float) -> None:
        """Serve the producer's events until the message is settled; raise :class:`WriteError` when it was not taken."""
        deadline = time.monotonic() + seconds
        while not self._settled.is_set():
            if time.monotonic() >= deadline:
                raise WriteError(f"kafka: no acknowledgement within {seconds:g} s")
            producer.poll(0.05)
        if self._error is not None:
            raise WriteError(f"kafka: {self._error}")


def options_of(settings: KafkaSettings) -> dict[str, Any]:
    """Return librdkafka's configuration."""
    sync = settings.kind == "sync"
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(settings.brokers),
        "message.timeout.ms": settings.timeout * 1000,
        "socket.timeout.ms": settings.timeout * 1000,
        "message.max.bytes": 64 << 20,
        "acks": "all" if sync else "1",
        "linger.ms": 0 if sync else 50,
        "compression.type": "lz4",
        "log_level": 0,  # it would log every attempt to connect
    }
    if settings.version:
        options["broker.version.fallback"] = settings.version
    if settings.tls_ca:
        options["ssl.ca.location"] = settings.tls_ca
    if settings.sasl.enable:
        options |= {
            "sasl.mechanism": settings.sasl.mechanism,
            "sasl.username": settings.sasl.user,
            "sasl.password": settings.sasl.password,
        }
    protocol = ("SASL_" if settings.sasl.enable else "") + ("SSL" if settings.use_tls else "PLAINTEXT")
    return {**options, "security.protocol": protocol}
