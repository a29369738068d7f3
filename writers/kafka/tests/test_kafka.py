"""Batches to the brokers of a librdkafka mock cluster: real sockets, the real protocol."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

import tocsin_writer_kafka
from tocsin.plugin import (
    Batch,
    SettingsError,
    WriteError,
    Writer,
    WriterContext,
    WriterType,
    decode_chunk,
    encode_labels,
    encode_series,
)
from tocsin.plugin.testkit import AppFactory
from tocsin.plugin.testkit.components import PATIENCE, free_port, wait_until
from tocsin.plugin.testkit.contract import PluginContract
from tocsin_writer_kafka.message import NotEncodableError, json_value


def encoded(name: str, *samples: tuple[int, float]) -> bytes:
    labels = encode_labels([(b"__name__", name.encode()), (b"ident", b"web01")])
    return bytes(encode_series(labels, [at for at, _ in samples], [value for _, value in samples]))


def batch(*samples: tuple[int, float]) -> Batch:
    return Batch(encoded("cpu_usage", *samples), 1, len(samples))


class TestContract(PluginContract):
    plugin = "tocsin_writer_kafka"


@pytest.fixture
def brokers() -> Iterator[list[str]]:
    """Addresses of a cluster of three brokers that lives as long as the test."""
    holder = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "ignored:1", "log_level": 0})
    found = holder.list_topics(timeout=PATIENCE).brokers.values()
    yield [f"{broker.host}:{broker.port}" for broker in found]
    holder.flush(5)


def built(make_app: AppFactory, **element: Any) -> Writer:
    core = make_app(plugins=[tocsin_writer_kafka], settings={"Pushgw": {"KafkaWriters": [element]}}).core
    kind = core.plugins.of(WriterType)["kafka"]
    from tocsin_writer_kafka.settings import KafkaSettings

    values = {name.lower(): value for name, value in element.items()}
    names = {"typ": "kind"}
    settings = KafkaSettings(**{names.get(name, name): value for name, value in values.items()})
    return kind.build(settings, WriterContext(core.settings, core.metrics))


def consumed(brokers: list[str], topic: str, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": ",".join(brokers), "group.id": "t", "log_level": 0})
    partitions = consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
    # Every partition from its beginning: a group would take three seconds to agree on who reads which.
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    messages: list[Any] = []

    def enough() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            messages.append(message)
        return len(messages) >= count

    try:
        wait_until(enough, what=f"{count} messages")
    finally:
        consumer.close()
    return messages


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_batch_becomes_a_json_message(make_app: AppFactory, brokers: list[str], kind: str) -> None:
    writer = built(make_app, Typ=kind, Brokers=brokers[:2], Topic="samples")
    assert writer.url == f"[{brokers[0]} {brokers[1]}]_samples"
    assert writer.write(batch((1760000000000, 12.5), (1760000001000, 0.0), (1760000002000, math.nan))).refused_with == 0
    (message,) = consumed(brokers, "samples", 1)
    assert message.key().decode() == writer.url
    assert json.loads(message.value()) == [
        {
            "labels": [{"name": "__name__", "value": "cpu_usage"}, {"name": "ident", "value": "web01"}],
            "samples": [{"value": 12.5, "timestamp": 1760000000000}, {"timestamp": 1760000001000}],
            "exemplars": None,
            "histograms": None,
        }
    ]
    writer.close()


def test_protobuf_is_the_batch_itself(make_app: AppFactory, brokers: list[str]) -> None:
    writer = built(make_app, Brokers=brokers, Topic="raw", Format="protobuf")
    sent = batch((1, math.inf), (2, math.nan))
    for _ in range(3):
        writer.write(sent)
    assert [m.value() for m in consumed(brokers, "raw", 3)] == [sent.body] * 3
    writer.close()


def test_what_json_cannot_say_is_refused_and_counted(make_app: AppFactory, brokers: list[str]) -> None:
    app = make_app(plugins=[tocsin_writer_kafka])
    kind = app.core.plugins.of(WriterType)["kafka"]
    from tocsin_writer_kafka.settings import KafkaSettings

    settings = KafkaSettings(brokers=brokers, topic="samples")
    writer = kind.build(settings, WriterContext(app.core.settings, app.core.metrics))
    result = writer.write(batch((1, math.inf)))
    assert result.refused_with == 422
    assert "inf" in result.detail
    metrics = app.client.get("/metrics").text
    assert 'kafka_producer_message_error_total{producer_type="async"} 1.0' in metrics
    assert 'kafka_producer_message_success_total{producer_type="async"} 0.0' in metrics
    writer.close()


def test_absent_brokers_are_an_error_worth_another_try(make_app: AppFactory, capfd: Any) -> None:
    writer = built(make_app, Brokers=[f"127.0.0.1:{free_port()}"], Topic="samples", Timeout=1)
    for _ in range(2):
        with pytest.raises(WriteError, match=r"kafka: .*; .*(Connection refused|brokers are down)"):
            writer.write(batch((1, 1.0)))
    writer.close()
    assert not capfd.readouterr().err  # the library logs nothing of its own accord


def test_a_writer_works_in_a_forked_worker(make_app: AppFactory, brokers: list[str]) -> None:
    writer = built(make_app, Brokers=brokers, Topic="forked", Format="protobuf")
    writer.write(batch((1, 1.0)))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = writer.write(batch((2, 2.0))).refused_with
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(consumed(brokers, "forked", 2)) == 2
    writer.close()


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ({"Topic": "t"}, "KafkaWriters.Brokers: got none"),
        ({"Brokers": ["nowhere"], "Topic": "t"}, "KafkaWriters.Brokers: got 'nowhere', expected host:port"),
        ({"Brokers": ["a:99999"], "Topic": "t"}, "KafkaWriters.Brokers: got 'a:99999'"),
        ({"Brokers": ["a:1"], "Topic": "not a topic"}, "KafkaWriters.Topic: got 'not a topic'"),
        ({"Brokers": ["a:1"], "Topic": "t", "Typ": "never"}, "Typ: got 'never', expected one of 'async', 'sync'"),
        ({"Brokers": ["a:1"], "Topic": "t", "Format": "xml"}, "Format: got 'xml'"),
        ({"Brokers": ["a:1"], "Topic": "t", "Version": "new"}, "Version: got 'new', expected a version"),
        ({"Brokers": ["a:1"], "Topic": "t", "TLSCA": "/no/such/file"}, "TLSCA: got '/no/such/file', expected a file"),
        ({"Brokers": ["a:1"], "Topic": "t", "SASL": {"Enable": True}}, "SASL.User: got nothing"),
    ],
)
def test_wrong_settings_stop_the_start(make_app: AppFactory, element: Mapping[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_app(plugins=[tocsin_writer_kafka], settings={"Pushgw": {"KafkaWriters": [element]}})
    assert text in str(caught.value)


def test_credentials_and_tls_reach_the_library(tmp_path: Path) -> None:
    from tocsin_writer_kafka.settings import KafkaSettings, SaslSettings
    from tocsin_writer_kafka.writer import options_of

    sasl = SaslSettings(enable=True, user="u", password="p", mechanism="SCRAM-SHA-512")
    settings = KafkaSettings(brokers=["a:1"], topic="t", use_tls=True, sasl=sasl)
    options = options_of(settings)
    assert options["security.protocol"] == "SASL_SSL"
    assert (options["sasl.username"], options["sasl.password"]) == ("u", "p")
    assert Producer({**options, "log_level": 0}) is not None


@given(st.lists(st.tuples(st.integers(-(1 << 62), 1 << 62), st.floats()), max_size=5))
def test_json_says_what_the_batch_said(samples: list[tuple[int, float]]) -> None:
    body = encoded("m", *samples)
    if any(math.isinf(value) for _, value in samples):
        with pytest.raises(NotEncodableError):
            json_value(body)
        return
    (series,) = json.loads(json_value(body))
    (decoded,) = decode_chunk(body)
    told = [(sample.get("timestamp", 0), float(sample.get("value", 0))) for sample in series["samples"]]
    assert told == [(at, value) for at, value in decoded.samples if not math.isnan(value)]
