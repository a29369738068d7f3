"""The gateway, seen from outside: what it has accepted arrives, whatever happens to it or to its backends."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import pytest
import urllib3

from tocsin.ingest.decode import decode_chunk
from tocsin.ingest.wire import wire
from tocsin.plugin.testkit.components import (
    PATIENCE,
    Answer,
    Hang,
    HttpSink,
    Prometheus,
    Redirect,
    Request,
    Reset,
    Trickle,
    VmAgent,
    free_port,
)
from tocsin.plugin.testkit.components.sink import Behaviour
from tocsin.plugin.testkit.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
Make = Callable[..., Deployment]

WRITER = '[[Pushgw.Writers]]\nUrl = "{}"\n'
REQUESTS, SERIES = 60, 50


def body(number: int) -> bytes:
    """Return a compressed request whose series are named after it."""
    series = (
        wire.encode_series(wire.encode_labels([(b"__name__", b"m"), (b"id", f"{number}-{n}".encode())]), [1000], [1.0])
        for n in range(SERIES)
    )
    return bytes(cramjam.snappy.compress_raw(b"".join(series)))


def arrived(sink: HttpSink) -> Counter[str]:
    """Return how often each series reached a backend, refused and unanswered requests left out."""
    found: Counter[str] = Counter()
    for request in sink.requests:
        if request.method == "POST":
            batch = bytes(cramjam.snappy.decompress_raw(request.body))
            found.update(dict(series.labels)["id"] for series in decode_chunk(batch))
    return found


def samples(sink: HttpSink) -> Counter[tuple[str, int, float]]:
    """Return how often each sample reached a backend: name of its series, milliseconds, value."""
    found: Counter[tuple[str, int, float]] = Counter()
    for request in sink.requests:
        for series in decode_chunk(bytes(cramjam.snappy.decompress_raw(request.body))):
            found.update((dict(series.labels)["__name__"], when, value) for when, value in series.samples)
    return found


def send(service: Deployment, numbers: range, client: urllib3.PoolManager | None = None) -> set[str]:
    """Send requests and return the series that were accepted; a request to a worker that is killed is not.

    A client of its own keeps its connections when the service is told to stop.
    """
    accepted: set[str] = set()
    for number in numbers:
        with contextlib.suppress(urllib3.exceptions.ProtocolError):
            if client:
                answer = client.request("POST", f"{service.url}/rw/v1/write", body=body(number))
            else:
                answer = service.request("POST", "/rw/v1/write", body(number))
            if answer.status == 200:
                accepted.update(f"{number}-{n}" for n in range(SERIES))
    return accepted


def test_draining_loses_nothing(make_deployment: Make, http_sink: HttpSink) -> None:
    http_sink.default = Answer(delay=0.02)
    service = make_deployment(WRITER.format(http_sink.url), process="pushgw")
    accepted = send(service, range(REQUESTS))
    assert service.stop() == 0
    assert len(accepted) == REQUESTS * SERIES
    assert arrived(http_sink) == Counter(accepted)


def test_requests_during_a_shutdown_are_refused_or_arrive(make_deployment: Make, http_sink: HttpSink) -> None:
    service = make_deployment(WRITER.format(http_sink.url), process="pushgw")
    accepted: set[str] = set()
    ended = threading.Event()

    def keep_sending() -> None:
        with urllib3.PoolManager(retries=False, timeout=PATIENCE) as client:
            for number in range(100_000):
                if ended.is_set():
                    return
                try:
                    accepted.update(send(service, range(number, number + 1), client))
                except Exception:
                    return  # the port is closed

    sender = threading.Thread(target=keep_sending)
    sender.start()
    http_sink.wait_for(3)
    try:
        assert service.stop() == 0
    finally:
        ended.set()
        sender.join()
    missing = accepted - arrived(http_sink).keys()
    assert not missing


def test_a_stop_while_a_backend_hangs_and_a_sender_dawdles(
    make_deployment: Make, http_sink: HttpSink, tmp_path: Path
) -> None:
    """However little time there is: what the backend did not take is on disk, once."""
    http_sink.default = Hang()
    spool = f'[Pushgw.WriterOpt]\nSpoolDir = "{tmp_path}/spool"\n'
    service = make_deployment(spool + WRITER.format(http_sink.url) + "Timeout = 60000\n", process="pushgw", drain=6)
    accepted = send(service, range(REQUESTS))
    http_sink.wait_until(lambda requests: len(requests) >= 2)  # at least one from each worker
    with socket.create_connection(("127.0.0.1", service.port)) as dawdler:
        dawdler.sendall(b"POST /rw/v1/write HTTP/1.1\r\nHost: gateway\r\nContent-Length: 1000\r\n\r\nx")
        assert service.stop() == 0
    http_sink.clear()
    http_sink.default = Answer(204)
    service.start()
    http_sink.wait_until(lambda requests: len(arrived(http_sink)) == len(accepted))
    service.until(lambda: service.metric("svc_pushgw_spool_series") == 0, "the spool is empty")
    assert arrived(http_sink) == Counter(accepted)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_at_once_loses_nothing(
    make_deployment: Make, http_sink: HttpSink, number: signal.Signals
) -> None:
    """Service managers and terminals send one to each: the embedded store must not end before those that write to it."""
    settings = "[EmbeddedTSDB]\nEnable = true\n[Pushgw.WriterOpt]\nBatchLinger = 60000\n"
    service = make_deployment(settings + WRITER.format(http_sink.url))
    accepted = send(service, range(10))
    assert service.metric("svc_pushgw_written_total") == 0  # all are still queued
    for pid in [pid for group in service.processes().values() for pid in group]:
        with contextlib.suppress(ProcessLookupError):  # it has ended already: the launcher was told before it
            os.kill(pid, number)
    service.until(lambda: not service.process.alive, "it has ended")
    service.stop()
    assert arrived(http_sink) == Counter(accepted)
    service.start()
    found: list[dict[str, Any]] = []

    def stored() -> bool:
        answer = service.request("GET", "/prometheus/api/v1/query?query=count(last_over_time(m[1h]))").data
        found[:] = json.loads(answer)["data"]["result"]
        return bool(found)

    service.until(stored, "the store answers")
    assert int(found[0]["value"][1]) == len(accepted)


def test_one_dead_backend_delays_no_other(make_deployment: Make, http_sink: HttpSink) -> None:
    with HttpSink(Hang()) as hanging:
        dead = f"http://127.0.0.1:{free_port()}/nobody"
        settings = WRITER.format(hanging.url) + WRITER.format(http_sink.url) + WRITER.format(dead)
        mark = "[Pushgw.WriterOpt]\nQueueWaterMark = 0.001\n"
        service = make_deployment(mark + settings, process="pushgw", drain=3)
        accepted = send(service, range(REQUESTS))
        http_sink.wait_until(lambda requests: len(arrived(http_sink)) == len(accepted))
        assert len(accepted) == REQUESTS * SERIES
        service.until(lambda: service.metric("svc_pushgw_written_total") >= len(accepted), "they are counted")
        assert service.metric("svc_pushgw_write_error_total") > 0
        service.process.signal(signal.SIGTERM)
        hanging.stop()


def test_spool_survives_the_death_of_everything(make_deployment: Make, tmp_path: Path, http_sink: HttpSink) -> None:
    """Batches for a backend that is down are on disk; all processes are killed; the next start delivers them."""
    http_sink.default = Answer(503)
    spool = f'[Pushgw.WriterOpt]\nSpoolDir = "{tmp_path}/spool"\n'
    service = make_deployment(spool + WRITER.format(http_sink.url), process="pushgw")
    accepted = send(service, range(REQUESTS))
    service.until(lambda: service.metric("svc_pushgw_spool_series") == len(accepted), "all are on disk")
    assert service.metric("svc_pushgw_spool_bytes") > 0
    for pid in [pid for group in service.processes().values() for pid in group]:
        os.kill(pid, signal.SIGKILL)
    service.until(lambda: not service.serves(), "it is dead")
    service.stop()
    http_sink.clear()
    http_sink.default = Answer(204)
    service.start()
    http_sink.wait_until(lambda requests: set(arrived(http_sink)) == accepted)
    service.until(lambda: service.metric("svc_pushgw_spool_series") == 0, "the spool is empty")
    assert service.stop() == 0


def test_a_killed_worker_is_replaced_and_the_others_go_on(make_deployment: Make, http_sink: HttpSink) -> None:
    service = make_deployment(WRITER.format(http_sink.url), process="pushgw")
    send(service, range(10))
    pid = service.kill("worker")
    service.until(lambda: len([p for p in service.processes()["worker"] if p != pid]) == 2, "two workers again")
    accepted = send(service, range(100, 100 + REQUESTS))
    http_sink.wait_until(lambda requests: accepted <= set(arrived(http_sink)))


def test_every_sample_of_a_vmagent_arrives_once(
    make_deployment: Make, start_vmagent: Callable[..., VmAgent], http_sink: HttpSink
) -> None:
    """With their own times, and those too that it had to keep while the gateway was away."""
    settings = "[Pushgw]\nForceUseServerTS = false\n" + WRITER.format(http_sink.url)
    service = make_deployment(settings, process="pushgw")
    with start_vmagent(remote_write=[service.url + "/rw/v1/write"]) as agent:
        expected: Counter[tuple[str, int, float]] = Counter()

        def imported(part: str) -> None:
            lines = [(f"{part}_{n}", 1_700_000_000_000 + n, n + 0.25) for n in range(SERIES * 20)]
            text = "\n".join(f"{name} {value} {when}" for name, when, value in lines)
            urllib3.request("POST", agent.url + "/api/v1/import/prometheus", body=text)
            expected.update(lines)

        imported("early")
        http_sink.wait_until(lambda requests: samples(http_sink) == expected)
        assert service.stop() == 0
        imported("late")
        service.start()
        http_sink.wait_until(lambda requests: samples(http_sink) == expected)


def test_every_sample_of_a_prometheus_arrives_once(
    make_deployment: Make, start_prometheus: Callable[..., Prometheus], http_sink: HttpSink
) -> None:
    """What it has stored of a page that it scrapes is what arrived, to the millisecond, over a restart of the gateway."""
    lines = b"\n".join(b'page{n="%d"} %d.5' % (n, n) for n in range(SERIES)) + b'\npage{n="inf"} -Inf\n'

    def found() -> Counter[tuple[str, int, str]]:
        return Counter(
            (labels["n"], when, str(value))
            for request in http_sink.requests
            for series in decode_chunk(bytes(cramjam.snappy.decompress_raw(request.body)))
            if (labels := dict(series.labels))["__name__"] == "page"
            for when, value in series.samples
        )

    with HttpSink(Answer(body=lines, headers={"Content-Type": "text/plain; version=0.0.4"})) as page:
        service = make_deployment(
            "[Pushgw]\nForceUseServerTS = false\n" + WRITER.format(http_sink.url), process="pushgw"
        )
        remote = {"url": service.url + "/rw/v1/write", "queue_config": {"batch_send_deadline": "500ms"}}
        server = start_prometheus(remote_write=[remote], scrape={"page": [f"127.0.0.1:{page.port}"]})
        http_sink.wait_until(lambda _: len(found()) > 4 * SERIES)
        assert service.stop() == 0
        page.wait_for(len(page.requests) + 3)
        service.start()
        page.wait_for(len(page.requests) + 3)
        page.default = Answer(500)  # the series end, and markers say so that no query shows
        http_sink.wait_until(lambda _: len({name for name, _, value in found() if value == "nan"}) == SERIES + 1)
    stored = {
        (series["metric"]["n"], round(float(when) * 1000), value.lower())
        for series in server.query("page[1h]")
        for when, value in series["values"]
    }
    http_sink.wait_until(lambda _: stored <= found().keys())
    server.stop()
    assert service.stop() == 0
    assert {sample for sample in found() if sample[2] != "nan"} == stored
    assert set(found().values()) == {1}


def test_a_gateway_far_from_its_center(make_deployment: Make, http_sink: HttpSink) -> None:
    """Nothing in common but the service API: heartbeats arrive there, labels of hosts come from there."""
    account = '[HTTP.APIForService]\nEnable = true\n[HTTP.APIForService.BasicAuth]\ngateway = "secret"\n'
    center = make_deployment(account)
    center.api("POST", "/target-update", {"lst": ["web01"], "now": int(time.time())})
    center.api("POST", "/targets/tags", {"idents": ["web01"], "tags": ["role=web"]})
    address = f'[CenterApi]\nAddrs = ["{center.url}"]\nBasicAuthUser = "gateway"\nBasicAuthPass = "secret"\n'
    engine = '[Alert.Heartbeat]\nEngineName = "north"\n'
    gateway = make_deployment(address + engine + WRITER.format(http_sink.url), process="pushgw")
    labels = wire.encode_labels([(b"__name__", b"m"), (b"agent_hostname", b"web01")])
    series = bytes(cramjam.snappy.compress_raw(wire.encode_series(labels, [1000], [1.0])))
    assert gateway.request("POST", "/rw/v1/write", series).status == 200
    (written,) = http_sink.wait_for(1)
    (arrived_as,) = decode_chunk(bytes(cramjam.snappy.decompress_raw(written.body)))
    assert dict(arrived_as.labels) == {"__name__": "m", "ident": "web01", "role": "web"}
    beat = {"hostname": "web01", "os": "linux", "offset": 5_000_000, "remote_addr": "203.0.113.9"}
    assert gateway.request("POST", "/v1/svc/heartbeat", beat).status == 200

    def shown() -> bool:
        (host,) = center.api("GET", "/targets")["list"]
        assert (host["os"], host["engine_name"]) == ("linux", "north")
        assert (host["offset"], host["remote_addr"], host["target_up"]) == (0, "127.0.0.1", 2)
        return True

    center.until(shown, "the center shows what the heartbeat said")
    assert center.stop() == 0
    assert gateway.request("POST", "/v1/svc/heartbeat", beat).status == 503
    assert gateway.request("POST", "/rw/v1/write", series).status == 200
    http_sink.wait_for(2)


class Faults:
    """A backend that does, as a seeded generator wants, everything that backends do."""

    WAYS = (
        *(Answer(204), Answer(204), Answer(400), Answer(503), Answer(429), Answer(429, headers={"Retry-After": "1"})),
        *(Hang(), Reset(), Reset(after=3), Redirect("http://127.0.0.1:9/")),
        *(Trickle(interval=0.03, body=b"x" * 30), Trickle(interval=0.03, body=b"x" * 30, status=500)),
    )

    def __init__(self, seed: int) -> None:
        self._random, self._lock = random.Random(seed), threading.Lock()

    def __call__(self, request: Request) -> Behaviour:
        with self._lock:
            return self._random.choice(self.WAYS)


def accounts(service: Deployment, url: str) -> tuple[float, dict[str, float]]:
    """Return the series that were to reach a backend, and what became of them."""
    fates = ("written_total", "write_rejected_total", "writer_dropped_total", "writer_pending", "spool_series")
    received, dropped = (service.metric(f"svc_pushgw_{name}") for name in ("samples_received_total", "dropped_total"))
    return received - dropped, {name: service.metric(f"svc_pushgw_{name}", url=url) for name in fates}


@pytest.mark.parametrize("spool", [True, False])
def test_accounts_close_under_every_fault(
    make_deployment: Make, http_sink: HttpSink, tmp_path: Path, spool: bool
) -> None:
    """Backends do what they want, then a worker is killed in mid-batch: each series is written, refused or lost by name."""
    with HttpSink(Faults(1)) as one, HttpSink(Faults(2)) as two:
        settings = f'[Pushgw.WriterOpt]\nRetryCount = 3\n{f"""SpoolDir = "{tmp_path}/spool" """ if spool else ""}\n'
        for sink in (one, two):
            settings += f'[[Pushgw.Writers]]\nUrl = "{sink.url}"\nTimeout = 300\n'
        settings += f'[[Pushgw.Writers]]\nUrl = "{http_sink.url}"\nAsyncWrite = true\n'
        settings += '[[Pushgw.DropSample]]\nid = "7-7"\n'
        service = make_deployment(settings, process="pushgw")
        accepted = send(service, range(REQUESTS // 2))
        service.kill("worker")
        service.until(lambda: len(service.processes()["worker"]) == 2, "two workers again")
        accepted |= send(service, range(REQUESTS // 2, REQUESTS))
        for sink in (one, two):
            sink.default = Answer(204)

        def closed() -> bool:
            """Whether nothing waits and every series is accounted for; gauges follow within a second."""
            books = [accounts(service, sink.url) for sink in (one, two, http_sink)]
            waiting = any(fates["writer_pending"] or fates["spool_series"] for _, fates in books)
            return not waiting and all(sum(fates.values()) == total for total, fates in books)

        service.until(closed, "the accounts close")
        for sink in (one, two, http_sink):
            _, fates = accounts(service, sink.url)
            missing = accepted - {"7-7"} - arrived(sink).keys()
            assert len(missing) <= fates["writer_dropped_total"], (sink.url, sorted(missing)[:5], fates)
        assert len(accepted) >= (REQUESTS - 2) * SERIES  # two connections at most led to the worker that was killed
