"""The writer type ``kafka``: topics configured by ``[[Pushgw.KafkaWriters]]``."""

from tocsin.plugin import WriterType, hookimpl
from tocsin_writer_kafka.kind import KafkaType


@hookimpl
def tocsin_writers() -> list[WriterType]:
    """Return the one type of this plugin."""
    return [KafkaType()]
