"""The store behind the service's port: who may call, what goes through, and what happens when the store is away."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pytest

import tocsin_tsdb
from tocsin.plugin import Batch, DatasourceType, HttpSettings, SettingsError, WriteError, WriterContext, hookimpl
from tocsin.plugin.testkit.components import PATIENCE
from tocsin_tsdb.address import own_address
from tocsin_tsdb.api.options import ApiOptions
from tocsin_tsdb.client import ClientLeft, StoreClient, StoreUnreachable
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.relay import MAX_BODY
from tocsin_tsdb.server import serve
from tocsin_tsdb.settings import EmbeddedTsdbSettings, understand
from tocsin_tsdb.storage import wire
from tocsin_tsdb.storage.options import StoreOptions
from tocsin_tsdb.writer import EmbeddedWriterType

QUERY = "/prometheus/api/v1/query?query=1"
SNAPPY = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Start the store's server in this process; returns its data directory."""
    stops: list[tuple[threading.Event, threading.Thread]] = []

    def start() -> Path:
        directory = tmp_path / "tsdb"
        directory.mkdir(exist_ok=True)
        stopping, ready = threading.Event(), threading.Event()
        thread = threading.Thread(
            target=serve,
            args=(
                directory / "store.sock",
                StoreOptions(directory),
                ApiOptions(prefix="/prometheus"),
            ),
            kwargs={"lookback_ms": 300_000, "max_samples": 1_000_000, "stopping": stopping, "ready": ready.set},
        )
        thread.start()
        assert ready.wait(PATIENCE)
        stops.append((stopping, thread))
        return directory

    yield start
    for stopping, thread in stops:
        stopping.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return {"Enable": True, "Dir": str(tmp_path / "tsdb")}


def write_request(value: float) -> bytes:
    key = wire.encode_labels([("__name__", "up")])
    return wire.encode_series(key, np.array([int(time.time() * 1000)]), np.array([value]))


def test_a_sample_goes_in_and_comes_out(make_app: Any, running: Any, settings: Any) -> None:
    running()
    client = make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": settings}).client
    body = bytes(cramjam.snappy.compress_raw(write_request(7.0)))
    assert client.request("POST", "/prometheus/api/v1/write", body=body, headers=SNAPPY).status == 204
    answer = client.get("/prometheus/api/v1/query?query=up")
    assert answer.json()["data"]["result"][0]["value"][1] == "7"
    assert answer.headers["content-type"] == "application/json"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.request("POST", "/prometheus/api/v1/query", body=b"query=up", headers=form).json() != {}
    assert client.get("/prometheus/api/v1/label/__name__/values").json()["data"] == ["up"]
    assert client.get("/prometheus/api/v1/query?query=sum(").status == 400
    assert client.get("/prometheus/api/v1/nothing").json()["errorType"] == "not_found"
    refused = client.request("POST", "/prometheus/api/v1/admin/tsdb/snapshot")
    assert (refused.status, refused.json()["error"]) == (404, "admin APIs disabled")


def test_only_this_host_is_served_by_default(make_app: Any, running: Any, settings: Any) -> None:
    running()
    application = make_app(plugins=[tocsin_tsdb], settings={"HTTP": {"Host": "10.9.8.7"}, "EmbeddedTSDB": settings})
    for remote, status in (
        ("127.0.0.1", 200),
        ("127.8.8.8", 200),
        ("::1", 200),
        ("10.9.8.7", 200),
        ("::ffff:127.0.0.1", 200),
    ):
        assert _from(application, remote).get(QUERY).status == status, remote
    for remote in ("10.9.8.6", "::2", "192.0.2.1", "nonsense"):
        answer = _from(application, remote).get(QUERY, headers={"X-Forwarded-For": "127.0.0.1"})
        assert (answer.status, answer.json()["errorType"]) == (403, "forbidden"), remote


def _from(application: Any, remote: str) -> Any:
    return type(application.client)(application.client.application, remote=remote)


def test_a_password_opens_it_to_other_hosts(make_app: Any, running: Any, settings: Any) -> None:
    running()
    settings |= {"BasicAuthUser": "grafana", "BasicAuthPass": "s3cret"}
    client = _from(make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": settings}), "192.0.2.1")
    refused = client.get(QUERY)
    assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Basic realm="Authorization Required"')
    for account, status in (("grafana:s3cret", 200), ("grafana:wrong", 401), ("other:s3cret", 401)):
        header = {"Authorization": "Basic " + base64.b64encode(account.encode()).decode()}
        assert client.get(QUERY, headers=header).status == status


def test_an_address_for_the_datasource_lifts_the_restriction(make_app: Any, running: Any, settings: Any) -> None:
    running()
    settings |= {"DatasourceUrl": "http://tsdb.example:9090/prometheus"}
    assert (
        _from(make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": settings}), "192.0.2.1").get(QUERY).status
        == 200
    )


def test_a_store_that_is_away_is_a_503_and_comes_back(make_app: Any, running: Any, settings: Any) -> None:
    client = make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": settings}).client
    answer = client.get(QUERY)
    assert (answer.status, answer.json()["errorType"]) == (503, "unavailable")
    running()
    assert client.get(QUERY).status == 200


def test_bodies_over_the_limit_are_refused(make_app: Any, running: Any, settings: Any) -> None:
    running()
    client = make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": settings}).client
    answer = client.request("POST", "/prometheus/api/v1/write", body=b"x" * (MAX_BODY + 1), headers=SNAPPY)
    assert (answer.status, answer.json()["errorType"]) == (413, "bad_data")


def test_nothing_is_there_when_it_is_switched_off(make_app: Any) -> None:
    application = make_app(plugins=[tocsin_tsdb])
    assert "json" not in application.client.get(QUERY).headers["content-type"]


def test_other_processes_ignore_it_with_a_warning(make_app: Any, settings: Any, caplog: Any) -> None:
    application = make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": settings}, process="pushgw")
    assert application.client.get(QUERY).status == 404
    assert "[EmbeddedTSDB] only takes effect in the center" in caplog.text
    context = WriterContext(application.core.settings, application.core.metrics, {"process": "pushgw"})
    assert EmbeddedWriterType().implied(context) == ()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("RetentionDuration", "15", "EmbeddedTSDB.RetentionDuration invalid (use durations like 10m, 1h, 15d)"),
        ("RetentionDuration", "0s", "EmbeddedTSDB.RetentionDuration invalid"),
        ("OutOfOrderTimeWindow", "x", "EmbeddedTSDB.OutOfOrderTimeWindow invalid"),
        ("QueryTimeout", "", "EmbeddedTSDB.QueryTimeout invalid"),
        ("LookbackDelta", "-5m", "EmbeddedTSDB.LookbackDelta invalid"),
        ("MaxBytes", "10kB", "EmbeddedTSDB.MaxBytes invalid (use sizes like 512MiB, 10GiB): got '10kB'"),
        ("QueryMaxSamples", 0, "EmbeddedTSDB.QueryMaxSamples: got 0, expected a number of at least 1"),
        ("QueryMaxConcurrency", -1, "EmbeddedTSDB.QueryMaxConcurrency: got -1"),
        ("BasicAuthUser", "x", "EmbeddedTSDB.BasicAuthUser and EmbeddedTSDB.BasicAuthPass: set both or none"),
        ("DatasourceUrl", "tsdb:9090", "EmbeddedTSDB.DatasourceUrl: got 'tsdb:9090', expected an http or https url"),
        ("Dir", "", "EmbeddedTSDB.Dir"),
    ],
)
def test_settings_that_cannot_work_stop_every_process(
    make_app: Any, settings: Any, name: str, value: Any, text: str
) -> None:
    for process in ("center", "pushgw"):
        with pytest.raises(SettingsError) as raised:
            make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": {**settings, name: value}}, process=process)
        assert text in str(raised.value)
    make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": {name: value, "Enable": False}})


def test_sizes_and_durations() -> None:
    make: Any = EmbeddedTsdbSettings
    for text, size in (
        ("", 0),
        ("0", 0),
        ("10GiB", 10 << 30),
        ("10GB", 10 << 30),
        ("1.5MiB", 3 << 19),
        ("1024", 1024),
        ("5B", 5),
    ):
        assert understand(make(max_bytes=text)).max_bytes == size
    assert understand(make(retention="1d12h")).retention == 36 * 3_600_000
    assert understand(make(out_of_order="0")).out_of_order == 0


def test_own_address() -> None:
    make: Any = HttpSettings
    assert own_address(make(host="0.0.0.0", port=17000)) == "http://127.0.0.1:17000"
    assert own_address(make(host="::1", port=1, cert_file="c", key_file="k")) == "https://[::1]:1"
    assert own_address(make(host="", port=1), "192.0.2.7") == "http://192.0.2.7:1"


def writer_of(application: Any) -> Any:
    context = WriterContext(application.core.settings, application.core.metrics, {"process": "center"})
    kind = EmbeddedWriterType()
    (element,) = kind.implied(context)
    return kind.build(element, context)


def test_the_writer_returns_when_samples_are_durable(make_app: Any, running: Any, settings: Any) -> None:
    running()
    application = make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": settings})
    writer = writer_of(application)
    assert writer.url == "http://127.0.0.1:17000/prometheus/api/v1/write"
    assert writer.write(Batch(write_request(5.0), 1, 1)).refused_with == 0
    assert application.client.get("/prometheus/api/v1/query?query=up").json()["data"]["result"][0]["value"][1] == "5"
    assert writer.write(Batch(b"\x0a\x05", 1, 1)).refused_with == 400
    described = wire.encode_metadata(wire.Metadata("up", "gauge", "Up or not.", ""))
    assert writer.metadata
    assert writer.write(Batch(described, 0, 0)).refused_with == 0
    assert application.client.get("/prometheus/api/v1/metadata").json()["data"]["up"][0]["help"] == "Up or not."
    writer.forward_raw(bytes(cramjam.snappy.compress_raw(write_request(6.0))), {"content-encoding": "snappy"})
    with pytest.raises(WriteError, match="400"):
        writer.forward_raw(b"garbage", {"content-encoding": "snappy", "authorization": "not passed on"})
    writer.close()


def test_the_writer_asks_for_a_retry_while_the_store_is_away(make_app: Any, running: Any, settings: Any) -> None:
    application = make_app(plugins=[tocsin_tsdb], settings={"EmbeddedTSDB": settings})
    writer = writer_of(application)
    with pytest.raises(WriteError, match="does not answer"):
        writer.write(Batch(write_request(5.0), 1, 1))
    running()
    assert writer.write(Batch(write_request(5.0), 1, 1)).refused_with == 0
    writer.close()


def test_idle_connections_survive_a_restart_of_the_store(running: Any, tmp_path: Path) -> None:
    client = StoreClient(tmp_path / "tsdb" / "store.sock", 10)
    with pytest.raises(StoreUnreachable):
        client.request("GET", QUERY)
    listener = socket.socket(socket.AF_UNIX)
    (tmp_path / "tsdb").mkdir(exist_ok=True)
    listener.bind(str(tmp_path / "tsdb" / "store.sock"))
    listener.listen()

    def answer_once() -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok")
        listener.close()
        connection.close()

    thread = threading.Thread(target=answer_once)
    thread.start()
    assert client.request("GET", QUERY).body == b"ok"
    thread.join()
    running()
    assert client.request("GET", QUERY).status == 200
    client.close()


def test_a_socket_path_longer_than_the_kernel_takes(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    stopping, ready = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=serve,
        args=(directory / "store.sock", StoreOptions(directory), ApiOptions()),
        kwargs={"lookback_ms": 1, "max_samples": 1, "stopping": stopping, "ready": ready.set},
    )
    thread.start()
    assert ready.wait(PATIENCE)
    assert (directory / "store.sock").stat().st_mode & 0o777 == 0o600
    client = StoreClient(directory / "store.sock", 10)
    assert client.request("GET", "/-/ready").status == 200
    client.close()
    stopping.set()
    thread.join(PATIENCE)


def test_a_query_stops_when_its_client_has_left(running: Any, tmp_path: Path, monkeypatch: Any) -> None:
    directory = running()
    started, seen = threading.Event(), threading.Event()

    def endless(_: Any, *args: Any, cancelled: Callable[[], bool], **more: Any) -> Any:
        started.set()
        deadline = time.monotonic() + 20
        while not cancelled() and time.monotonic() < deadline:
            time.sleep(0.01)
        if cancelled():
            seen.set()
        raise AssertionError("nobody waits for this answer")

    monkeypatch.setattr(Engine, "instant", endless)
    client = StoreClient(directory / "store.sock", 30)
    with pytest.raises(ClientLeft):
        client.request("GET", QUERY, client_left=started.is_set)
    assert seen.wait(PATIENCE)


class PrometheusType(DatasourceType):
    """A type of datasource that can be registered."""

    name = "prometheus"
    title = "Prometheus Like"
    number = 1

    def connect(self, config: Any) -> Any:
        """Not needed here."""
        raise NotImplementedError


class PrometheusLike:
    """A plugin with that type."""

    @staticmethod
    @hookimpl
    def tocsin_datasource_types() -> list[DatasourceType]:
        return [PrometheusType()]


def test_the_store_is_registered_as_a_datasource(make_app: Any, settings: Any) -> None:
    application = make_app(plugins=[tocsin_tsdb, PrometheusLike], settings={"EmbeddedTSDB": settings})
    answer = application.root.post("/api/svc/datasource/list", {})
    found = [row for row in answer.json()["dat"] if row["identifier"] == "svc-embedded-tsdb"]
    assert [(row["name"], row["plugin_type"], row["http"]["url"], row["is_default"]) for row in found] == [
        ("embedded-tsdb", "prometheus", "http://127.0.0.1:17000/prometheus", True)
    ]
