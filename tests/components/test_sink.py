"""The misbehaving HTTP server, looked at with a plain client."""

import http.client
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.plugin.testkit.components import PATIENCE, Answer, Hang, HttpSink, Huge, Redirect, Reset, Trickle


@pytest.fixture
def client(http_sink: HttpSink) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", http_sink.port, timeout=PATIENCE)
    yield connection
    connection.close()


def call(client: http.client.HTTPConnection, method: str = "GET", path: str = "/", body: bytes | None = None) -> bytes:
    client.request(method, path, body)
    return client.getresponse().read()


def test_requests_are_recorded_whole(http_sink: HttpSink, client: http.client.HTTPConnection) -> None:
    client.request("PUT", "/a/b?x=1&x=2&y=", b"payload", {"X-Mark": "m"})
    assert client.getresponse().status == 200
    [request] = http_sink.wait_for(1)
    assert (request.method, request.path, request.body) == ("PUT", "/a/b", b"payload")
    assert request.query == {"x": ["1", "2"], "y": [""]}
    assert request.headers["x-mark"] == "m"


def test_chunked_bodies_are_put_together(http_sink: HttpSink, client: http.client.HTTPConnection) -> None:
    client.request("POST", "/", iter([b"one", b"two"]), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert client.getresponse().read() == b""
    assert call(client, body=b"next", method="POST") == b""
    assert [request.body for request in http_sink.requests] == [b"onetwo", b"next"]


def test_queued_behaviours_come_first_then_the_default(http_sink: HttpSink, client: http.client.HTTPConnection) -> None:
    http_sink.default = lambda request: Answer(body=request.path.encode())
    http_sink.then(Answer(503, b"busy", {"Retry-After": "1"}), Answer(204))
    client.request("GET", "/one")
    response = client.getresponse()
    assert (response.status, response.read(), response.headers["Retry-After"]) == (503, b"busy", "1")
    client.request("GET", "/two")
    response = client.getresponse()
    assert (response.status, response.read()) == (204, b"")
    assert call(client, path="/three") == b"/three"


def test_redirect(http_sink: HttpSink, client: http.client.HTTPConnection) -> None:
    http_sink.then(Redirect("http://127.0.0.1:1/elsewhere", 302))
    client.request("GET", "/")
    response = client.getresponse()
    assert (response.status, response.headers["Location"]) == (302, "http://127.0.0.1:1/elsewhere")


def test_hang_keeps_the_client_waiting_and_stop_frees_it(http_sink: HttpSink) -> None:
    http_sink.default = Hang()
    with socket.create_connection(("127.0.0.1", http_sink.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        http_sink.wait_for(1)
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        http_sink.stop()
        connection.settimeout(5)
        assert connection.recv(1) == b""


def test_trickle_takes_its_time(http_sink: HttpSink, client: http.client.HTTPConnection) -> None:
    http_sink.then(Trickle(b"abcdef", interval=0.02, piece=2))
    before = time.monotonic()
    assert call(client) == b"abcdef"
    assert time.monotonic() - before >= 0.04


def test_reset_at_once(http_sink: HttpSink, client: http.client.HTTPConnection) -> None:
    http_sink.then(Reset())
    with pytest.raises(ConnectionResetError):
        call(client)


def test_reset_in_the_middle_of_the_body(http_sink: HttpSink, client: http.client.HTTPConnection) -> None:
    http_sink.then(Reset(after=10))
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        call(client)


def test_huge_bodies_end_when_the_client_has_had_enough(http_sink: HttpSink) -> None:
    http_sink.then(Huge(10**15))
    with socket.create_connection(("127.0.0.1", http_sink.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        received = 0
        while received < 1_000_000:
            received += len(connection.recv(65536))


def test_huge_bodies_are_complete_when_read_to_the_end(http_sink: HttpSink, client: http.client.HTTPConnection) -> None:
    http_sink.then(Huge(200_001))
    assert len(call(client)) == 200_001


def test_a_stopped_sink_refuses_connections(http_sink: HttpSink) -> None:
    http_sink.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", http_sink.port))


def test_stop_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with HttpSink(Hang()) as sink, socket.create_connection(("127.0.0.1", sink.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        sink.wait_for(1)
        assert threading.active_count() == before + 2
    assert threading.active_count() == before


def test_a_sink_that_never_started_stops_too() -> None:
    HttpSink().stop()


def test_waiting_in_vain_says_how_many_came(http_sink: HttpSink, client: http.client.HTTPConnection) -> None:
    call(client)
    with pytest.raises(TimeoutError, match=r"expected 2 requests within 0.05 s, got 1"):
        http_sink.wait_for(2, timeout=0.05)
    with pytest.raises(TimeoutError, match=r"not met within 0.05 s by 1 requests"):
        http_sink.wait_until(lambda requests: False, timeout=0.05)
    assert http_sink.wait_until(lambda requests: requests[0].path == "/")


def test_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1"
    extension = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made.split(), *extension], check=True, capture_output=True, timeout=PATIENCE)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    with HttpSink(Answer(body=b"secret"), tls=server) as sink:
        trusting = ssl.create_default_context(cafile=str(certificate))
        client = http.client.HTTPSConnection("127.0.0.1", sink.port, timeout=PATIENCE, context=trusting)
        assert call(client) == b"secret"
        client.close()
        # Half a handshake must not keep the sink from stopping.
        idle = socket.create_connection(("127.0.0.1", sink.port))
    with idle:
        assert sink.requests[0].path == "/"


def test_many_clients_at_once(http_sink: HttpSink) -> None:
    def send(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", http_sink.port, timeout=PATIENCE)
        for index in range(10):
            call(connection, "POST", f"/{number}", json.dumps(index).encode())
        connection.close()

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    requests = http_sink.requests
    assert len(requests) == 80
    for number in range(8):
        assert [json.loads(r.body) for r in requests if r.path == f"/{number}"] == list(range(10))
