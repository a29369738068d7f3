"""One element of ``[[Pushgw.KafkaWriters]]``."""

from __future__ import annotations

import re

from tocsin.plugin import at_least, key, one_of, section


def _version(value: str) -> str | None:
    return None if not value or re.fullmatch(r"\d+(\.\d+){1,3}", value) else "a version like 2.8.0, or nothing"


@section("")
class SaslSettings:
    """How the producer proves who it is."""

    enable: bool = key("Enable", False, "authenticate with SASL")
    user: str = key("User", "", "user name")
    password: str = key("Password", "", "password", secret=True)
    mechanism: str = key("Mechanism", "PLAIN", "mechanism", check=one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))


@section("")
class KafkaSettings:
    """A topic that takes batches."""

    kind: str = key(
        "Typ",
        "async",
        "sync asks every replica to have a message and sends at once; async asks the leader and may wait 50 ms for company",
        check=one_of("async", "sync"),
    )
    brokers: list[str] = key("Brokers", [], "host:port of some brokers")
    topic: str = key("Topic", "", "topic the messages go to")
    format: str = key(
        "Format", "json", "json: an array of series; protobuf: a remote-write request, not compressed",
        check=one_of("json", "protobuf"),
    )  # fmt: skip
    version: str = key("Version", "", "version of brokers too old to be asked for it, like 0.9.0", check=_version)
    timeout: int = key("Timeout", 10, "seconds in which a message must be acknowledged", check=at_least(1))
    use_tls: bool = key("UseTLS", False, "speak TLS to the brokers")
    tls_ca: str = key("TLSCA", "", "file with the certificates to trust; empty trusts the system's")
    sasl: SaslSettings = key("SASL", SaslSettings, "")
