"""What the gateway knows of the type before anything is sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tocsin.plugin import SettingsError, Writer, WriterContext, WriterType
from tocsin_writer_kafka.settings import KafkaSettings

KEY = "Pushgw.KafkaWriters"
BROKER = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):(\d{1,5})")
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class KafkaType(WriterType):
    """One Kafka message per batch; never critical."""

    name = "kafka"
    config_key = "KafkaWriters"
    settings = KafkaSettings
    critical = False

    def build(self, settings: Any, context: WriterContext) -> Writer:
        """Return a writer for one element; raise ``SettingsError`` for brokers or topics that cannot be."""
        from tocsin_writer_kafka.writer import KafkaWriter

        check(settings)
        return KafkaWriter(settings, context.metrics)


def check(settings: KafkaSettings) -> None:
    """Raise ``SettingsError`` for values that can never work."""
    if not settings.brokers:
        raise SettingsError(f"{KEY}.Brokers: got none, expected host:port of some brokers")
    for broker in settings.brokers:
        match = BROKER.fullmatch(broker)
        if match is None or not 0 < int(match[2]) < 65536:
            raise SettingsError(f"{KEY}.Brokers: got {broker!r}, expected host:port")
    if not TOPIC.fullmatch(settings.topic):
        raise SettingsError(
            f"{KEY}.Topic: got {settings.topic!r}, expected letters, digits, dots, underscores, hyphens"
        )
    if settings.tls_ca and not Path(settings.tls_ca).is_file():
        raise SettingsError(f"{KEY}.TLSCA: got {settings.tls_ca!r}, expected a file")
    if settings.sasl.enable and not settings.sasl.user:
        raise SettingsError(f"{KEY}.SASL.User: got nothing, expected a user name")
