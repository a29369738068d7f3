"""The HTTP client that plugins use: deadlines, limits, TLS, secrets."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tocsin.plugin import HttpClient, HttpError, HttpOptions, TlsOptions, check_url
from tocsin.plugin.testkit.components import PATIENCE, Answer, Hang, HttpSink, Huge, Redirect, Reset, Trickle, free_port
from tocsin.plugin.testkit.contract import within

PASSWORD = "p4ssw0rd:with/odd@chars"


@pytest.fixture
def client(http_sink: HttpSink) -> Any:
    made = HttpClient(HttpOptions((f"{http_sink.url}/base/?fixed=1",), timeout=PATIENCE))
    yield made
    made.close()


def connect(url: str, **options: Any) -> HttpClient:
    return HttpClient(HttpOptions((url,), **{"timeout": PATIENCE, **options}))


def test_an_exchange(client: HttpClient, http_sink: HttpSink) -> None:
    http_sink.then(Answer(418, b"short and stout", {"X-Kind": "teapot"}))
    answer = client.request("PUT", "/a%2Fb", query="q=1", headers={"X-Mine": "1"}, body=b"payload")
    assert (answer.status, answer.body, answer.headers["x-kind"]) == (418, b"short and stout", "teapot")
    [got] = http_sink.requests
    assert (got.method, got.path, got.query, got.body) == (
        "PUT",
        "/base/a%2Fb",
        {"fixed": ["1"], "q": ["1"]},
        b"payload",
    )
    assert got.headers["x-mine"] == "1"
    assert got.headers["content-length"] == "7"


def test_a_view_of_a_buffer_is_sent_whole_and_unchunked(client: HttpClient, http_sink: HttpSink) -> None:
    client.request("POST", "/x", body=memoryview(b"0123456789" * 100_000))
    assert http_sink.requests[0].headers["content-length"] == "1000000"
    assert http_sink.requests[0].body == b"0123456789" * 100_000


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (Hang(), "timeout"),
        (Trickle(b"x" * 1000, interval=0.02), "timeout"),
        (Reset(), "broken"),
        (Reset(after=10), "broken"),
        (Answer(200, b"not gzip", {"Content-Encoding": "gzip"}), "broken"),
    ],
    ids=["hang", "trickle", "reset", "reset-in-body", "encoding"],
)
def test_faults_end_in_time_with_their_kind(http_sink: HttpSink, behaviour: Any, kind: str) -> None:
    client = connect(http_sink.url, timeout=0.5)
    http_sink.then(behaviour)
    with pytest.raises(HttpError) as caught:
        within(0.5, lambda: client.request("GET", "/x"))
    assert caught.value.kind == kind
    assert f"127.0.0.1:{http_sink.port}" in str(caught.value)
    assert "object at 0x" not in str(caught.value)
    assert client.request("GET", "/x", timeout=PATIENCE).status == 200
    client.close()


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_head_or_body_that_trickles_byte_by_byte_ends_in_time(head: bytes, stream: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stopping = threading.Event()

        def trickle() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(head)
                while not stopping.wait(0.02):
                    connection.sendall(b"x")

        thread = threading.Thread(target=trickle)
        thread.start()
        client = connect(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.3)
        with pytest.raises(HttpError) as caught:
            within(0.3, lambda: list(client.open("GET", "/", limit=0.3)) if stream else client.request("GET", "/"))
        assert caught.value.kind == "timeout"
        stopping.set()
        thread.join(PATIENCE)
        client.close()


def test_nobody_there_is_named() -> None:
    port = free_port()
    with pytest.raises(HttpError, match=f"127.0.0.1:{port}: cannot connect: Connection refused") as caught:
        connect(f"http://127.0.0.1:{port}").request("GET", "/")
    assert caught.value.kind == "connect"


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(HttpError, match="the host name cannot be resolved"):
        connect("http://nowhere.invalid").request("GET", "/")


def test_answers_over_the_limit_are_cut_off_early(client: HttpClient, http_sink: HttpSink) -> None:
    http_sink.then(Huge(1 << 40))
    with pytest.raises(HttpError, match="over the limit of 1000 bytes") as caught:
        client.request("GET", "/x", max_bytes=1000)
    assert caught.value.kind == "too_large"


def test_a_packed_answer_is_measured_unpacked(client: HttpClient, http_sink: HttpSink) -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    http_sink.default = Answer(200, bomb, {"Content-Encoding": "gzip"})
    with pytest.raises(HttpError, match="over the limit"):
        client.request("GET", "/x", max_bytes=1_000_000)
    assert client.request("GET", "/x").body == b"\0" * 10_000_000


def test_redirects_are_answers(http_sink: HttpSink) -> None:
    with HttpSink() as elsewhere:
        http_sink.then(Redirect(elsewhere.url))
        client = connect(http_sink.url, username="u", password=PASSWORD)
        assert client.request("POST", "/x", body=b"x").status == 307
        assert elsewhere.requests == []
        client.close()


def test_credentials_and_headers(http_sink: HttpSink) -> None:
    basic = "Basic dTpwNHNzdzByZDp3aXRoL29kZEBjaGFycw=="
    client = connect(http_sink.url, username="u", password=PASSWORD, headers={"X-A": "1", "Host": "example.org"})
    client.request("GET", "/", headers={"x-a": "2", "Authorization": "Bearer theirs"})
    client.close()
    inline = connect(http_sink.url.replace("//", "//u:p4ssw0rd%3Awith%2Fodd%40chars@"))
    inline.request("GET", "/")
    inline.close()
    own = connect(http_sink.url, username="u", password="x", headers={"authorization": "Bearer own"})
    own.request("GET", "/")
    own.close()
    first, second, third = (request.headers for request in http_sink.requests)
    assert (first["authorization"], first["x-a"], first["host"]) == (basic, "1", "example.org")
    assert second["authorization"] == basic
    assert third["authorization"] == "Bearer own"


def test_secrets_are_cleaned_out_of_texts() -> None:
    options = HttpOptions(
        ("http://u:inurl99@h/",), username="u", password=PASSWORD, headers={"X": "Token abc123", "Y": "ab"}
    )
    text = f"http://u:inurl99@h {PASSWORD} dTpwNHNzdzByZDp3aXRoL29kZEBjaGFycw== Token abc123 abc123 inurl99 ab"
    assert options.clean(text) == "http://***:***@h *** *** *** *** *** ab"
    assert "inurl99" not in repr(options)
    assert PASSWORD not in repr(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"headers": {"X Y": "1"}}, "headers: 'X Y' is not a header name"),
        ({"headers": {"X": "a\r\nb: s3cret"}}, "headers: the value of X cannot be sent"),
        ({"headers": {"X": "s3cret\u20ac"}}, "headers: the value of X cannot be sent"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        HttpOptions(("http://h",), **options)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/\u20ac"])
def test_a_path_that_cannot_be_sent_is_an_error_of_its_kind(client: HttpClient, http_sink: HttpSink, path: str) -> None:
    try:
        client.request("GET", path)
    except HttpError as error:
        assert error.kind == "build"  # noqa: PT017 - urllib3 may encode it instead
    for request in http_sink.requests:
        assert "x" not in request.headers


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "https://h:1/p?q",
        "http://1.2.3.4",
        "http://[::1]:9090/x",
        "http://a_b.svc.local",
        "http://bücher.de",
    ],
)
def test_good_addresses(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    "url",
    ["", "h", "//h", "file:///etc/passwd", "http:///x", "http://h:port", "http://h:70000", "http://a b", "http://-a-",
     "http://[::1", "http://h/\n", "http://<h>"],
)  # fmt: skip
def test_bad_addresses(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        check_url(url)


@pytest.mark.parametrize("url", ["http://10.1.2.3", "http://[::ffff:10.1.2.3]", "http://[fd00::1%25eth0]"])
def test_denied_addresses(url: str) -> None:
    denied = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
    with pytest.raises(ValueError, match="not allowed"):
        check_url(url, denied)


def test_an_address_that_a_name_resolves_to_is_checked_before_anything_is_sent(http_sink: HttpSink) -> None:
    client = connect(f"http://localhost:{http_sink.port}", denied=(ipaddress.ip_network("127.0.0.0/8"),))
    with pytest.raises(HttpError, match="not allowed") as caught:
        client.request("GET", "/")
    assert caught.value.kind == "denied"
    assert http_sink.requests == []


def test_one_connection_serves_many_requests_until_it_is_closed(counting_sink: Any) -> None:
    sink, opened = counting_sink
    client = connect(sink.url)
    for _ in range(5):
        client.request("GET", "/")
    assert len(opened) == 1
    client.close()
    client.request("GET", "/")
    assert len(opened) == 2
    client.close()


def test_a_connection_that_was_idle_for_long_is_not_used_again(counting_sink: Any) -> None:
    sink, opened = counting_sink
    client = connect(sink.url, idle_timeout=0.05)
    client.request("GET", "/")
    time.sleep(0.1)  # what is tested is the passing of real time on an idle socket
    client.request("GET", "/")
    assert len(opened) == 2
    client.close()


@pytest.fixture
def counting_sink(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A sink and the list of the connections that were made to it."""
    opened: list[Any] = []
    with HttpSink() as sink:
        accept = sink._server.process_request

        def counted(request: Any, address: Any) -> None:
            opened.append(address)
            accept(request, address)

        monkeypatch.setattr(sink._server, "process_request", counted)
        yield sink, opened


def test_requests_over_the_limit_wait_for_a_slot(http_sink: HttpSink) -> None:
    release = threading.Event()
    http_sink.default = lambda _: (release.wait(PATIENCE), Answer())[1]
    client = connect(http_sink.url, max_connections=1, timeout=0.3)
    first = threading.Thread(target=lambda: client.request("GET", "/", timeout=PATIENCE))
    first.start()
    http_sink.wait_for(1)
    with pytest.raises(HttpError, match="all 1 connections are busy"):
        client.request("GET", "/")
    release.set()
    first.join(PATIENCE)
    assert client.request("GET", "/", timeout=PATIENCE).status == 200
    client.close()


def test_threads_share_a_client(http_sink: HttpSink) -> None:
    http_sink.default = lambda request: Answer(200, request.body)
    client = connect(http_sink.url)
    wrong: list[int] = []

    def ask(number: int) -> None:
        for i in range(20):
            body = f"{number}-{i}".encode()
            if client.request("POST", "/", body=body).body != body:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    client.close()
    assert wrong == []
    assert len(http_sink.requests) == 160


def test_an_http_proxy_of_the_environment_is_used_but_never_for_loopback(
    http_sink: HttpSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", http_sink.url)
    monkeypatch.setenv("no_proxy", "direct.invalid")
    client = connect("http://backend.invalid:8080/p")
    assert client.request("GET", "/x").status == 200
    assert http_sink.requests[0].path == "/p/x"
    assert http_sink.requests[0].headers["host"] == "backend.invalid:8080"
    client.close()
    with pytest.raises(HttpError, match="cannot be resolved"):
        connect("http://direct.invalid").request("GET", "/")
    with HttpSink() as other:
        direct = connect(other.url)
        direct.request("GET", "/")
        direct.close()
        assert len(other.requests) == 1
    assert len(http_sink.requests) == 1


class Certificates:
    """A certificate authority with one server and one client certificate, as PEM."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.ca = self._pem(self._sign(self._name, self._key.public_key(), None))

    def issue(self, name: str, password: bytes | None = None) -> tuple[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key(), name)
        encryption: Any = serialization.NoEncryption()
        if password:
            encryption = serialization.BestAvailableEncryption(password)
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        return self._pem(certificate), pem.decode()

    def _sign(self, subject: x509.Name, key: Any, name: str | None) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
        builder = builder.add_extension(x509.BasicConstraints(name is None, None), critical=True)
        if name:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    @staticmethod
    def _pem(certificate: x509.Certificate) -> str:
        return certificate.public_bytes(serialization.Encoding.PEM).decode()


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


@pytest.fixture
def secure_sink(certificates: Certificates, tmp_path: Path) -> Any:
    """Start a sink that speaks TLS as ``backend.test``."""
    started: list[HttpSink] = []

    def start(*, ask_for_client: bool = False, lowest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> HttpSink:
        cert, key = certificates.issue("backend.test")
        (tmp_path / "server.pem").write_text(cert + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = lowest
        context.load_cert_chain(tmp_path / "server.pem")
        if ask_for_client:
            context.load_verify_locations(cadata=certificates.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        started.append(HttpSink(tls=context).start())
        return started[-1]

    yield start
    for sink in started:
        sink.stop()


def exchange(sink: HttpSink, tls: TlsOptions) -> int:
    client = connect(sink.url, tls=tls)
    try:
        return client.request("GET", "/").status
    finally:
        client.close()


def test_tls_trusts_what_it_is_told_to(secure_sink: Callable[..., HttpSink], certificates: Certificates) -> None:
    sink = secure_sink()
    with pytest.raises(HttpError, match="TLS: ") as caught:
        exchange(sink, TlsOptions())
    assert caught.value.kind == "connect"
    with pytest.raises(HttpError, match=r"TLS: .*127\.0\.0\.1"):
        exchange(sink, TlsOptions(ca=certificates.ca))
    assert exchange(sink, TlsOptions(ca=certificates.ca, server_name="backend.test")) == 200
    assert exchange(sink, TlsOptions(verify=False)) == 200
    assert exchange(sink, TlsOptions(verify=False, server_name="other.test")) == 200


def test_tls_client_certificates(secure_sink: Callable[..., HttpSink], certificates: Certificates) -> None:
    sink = secure_sink(ask_for_client=True)
    trusted: dict[str, Any] = {"ca": certificates.ca, "server_name": "backend.test"}
    with pytest.raises(HttpError):
        exchange(sink, TlsOptions(**trusted))
    cert, key = certificates.issue("client")
    assert exchange(sink, TlsOptions(**trusted, cert=cert, key=key)) == 200
    cert, key = certificates.issue("client", b"opensesame")
    assert exchange(sink, TlsOptions(**trusted, cert=cert, key=key, key_password="opensesame")) == 200
    for wrong in ("", "wrong"):
        with pytest.raises(ValueError, match=r"tls\.client_cert") as caught:
            TlsOptions(cert=cert, key=key, key_password=wrong).context()
        assert "opensesame" not in str(caught.value)


def test_tls_versions(secure_sink: Callable[..., HttpSink], certificates: Certificates) -> None:
    sink = secure_sink(lowest=ssl.TLSVersion.TLSv1_3)
    assert exchange(sink, TlsOptions(verify=False, min_version="1.3")) == 200
    with pytest.raises(HttpError, match="TLS"):
        exchange(sink, TlsOptions(verify=False, max_version="1.2"))
    with pytest.raises(ValueError, match=r"tls\.min_version: got '2', expected one of 1\.0"):
        TlsOptions(min_version="2").context()
    with pytest.raises(ValueError, match=r"tls\.ca_cert: expected certificates in PEM"):
        TlsOptions(ca="nonsense").context()


def test_a_tls_handshake_that_hangs_ends_in_time() -> None:
    with HttpSink() as plain:
        client = connect(plain.url.replace("http", "https"), handshake_timeout=0.2, timeout=5.0)
        with pytest.raises(HttpError):
            within(0.2, lambda: client.request("GET", "/"))
        client.close()
