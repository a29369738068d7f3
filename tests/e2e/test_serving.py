"""TLS, and the application under a WSGI server that is not ours."""

import datetime
import ipaddress
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import urllib3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tocsin.plugin.testkit import ROOT_PASSWORD
from tocsin.plugin.testkit.components import Process, free_port
from tocsin.plugin.testkit.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tocsin test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = directory / "cert.pem", directory / "key.pem"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file


def test_tls_1_2_or_newer_and_nothing_else(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path)
    service = Deployment(tmp_path / "service", f'CertFile = "{cert}"\nKeyFile = "{key}"\n')
    url = f"https://127.0.0.1:{service.port}/ping"
    with urllib3.PoolManager(ca_certs=str(cert), retries=False, timeout=2.0) as client:

        def answers() -> bool:
            try:
                return client.request("GET", url).data == b"pong"
            except urllib3.exceptions.HTTPError:
                return False

        service.process.start()
        try:
            service.process.wait_ready(answers)
            assert f"at https://127.0.0.1:{service.port}" in service.process.log.read_text()
            assert not service.serves(), "plain http is answered on a TLS port"
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
            with (
                urllib3.PoolManager(ssl_context=old, retries=False, timeout=2.0) as outdated,
                pytest.raises(urllib3.exceptions.SSLError),
            ):
                outdated.request("GET", url)
        finally:
            service.stop()


def test_any_wsgi_server_serves_it_and_says_what_it_does_not_run(tmp_path: Path) -> None:
    configs = tmp_path / "etc"
    configs.mkdir()
    (configs / "config.toml").write_text("[HTTP]\nPort = 1\n")
    port = free_port()
    argv = [sys.executable, "-m", "gunicorn", "-b", f"127.0.0.1:{port}", "-w", "1", "tocsin.app:wsgi"]
    environment = {"TOCSIN_CONFIG": str(configs), "TOCSIN_ROOT_PASSWORD": ROOT_PASSWORD}
    server = Process("gunicorn", argv, directory=tmp_path, environment=environment).start()
    with urllib3.PoolManager(retries=False, timeout=2.0) as client:

        def answers() -> bool:
            try:
                return client.request("GET", f"http://127.0.0.1:{port}/ping").data == b"pong"
            except urllib3.exceptions.HTTPError:
                return False

        try:
            server.wait_ready(answers)
            login = {"username": "root", "password": ROOT_PASSWORD}
            answer = client.request("POST", f"http://127.0.0.1:{port}/api/svc/auth/login", json=login).json()
            assert answer["dat"]["access_token"]
            assert b"pong" not in client.request("GET", f"http://127.0.0.1:{port}/").data
            log = server.log.read_text()
            assert "serving HTTP only: rule evaluation, scheduled jobs and sidecars run under 'tocsin center'" in log
        finally:
            server.stop()


def test_a_deployment_without_plugins_serves(make_deployment: Callable[..., Deployment]) -> None:
    names = ("tsdb", "datasource-prometheus", "ingest-remotewrite", "writer-remotewrite", "channel-webhook",
             "toolset-metrics", "feature-saved-views")  # fmt: skip
    service = make_deployment(f"[Plugins]\nDisabled = {list(names)}\n")
    assert service.api("GET", "/self/profile")["username"] == "root"
    assert service.request("POST", "/rw/v1/write", b"").status == 404  # a sender must notice that nobody takes it
    assert "sidecar tsdb" not in service.processes()
