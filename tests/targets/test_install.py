"""What a host without credentials gets: addresses, packages, and scripts that are run here against a stand-in."""

import base64
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.app.settings import SettingsError
from tocsin.datasources.catalog import Catalog
from tocsin.plugin.testkit import dat, err
from tocsin.plugin.testkit.components import PATIENCE, Answer, require_program
from tocsin.targets.install.addresses import comparable, is_written_by, normal_address, own_address
from tocsin.targets.install.packages import VERSION

AGENTS = "/api/svc/agents/categraf"


@pytest.fixture
def agents(make_world, tmp_path: Path):
    """Return a function that makes an application with packages and other settings."""
    directory = tmp_path / "packages"
    directory.mkdir()

    def make(*arches: str, plugins: Iterable[Any] = (), **settings: Any) -> Any:
        for arch in arches:
            (directory / f"categraf-linux-{arch}.tar.gz").write_bytes(arch.encode() * 100_000)
        return make_world({"Center": {"AgentsDir": str(directory)}, **settings}, plugins=plugins)

    return make


def test_description(agents) -> None:
    world = agents("arm64", HTTP={"APIForAgent": {"BasicAuth": {"a": "b"}}})
    host = world.agent.with_headers(Host="tocsin.example:17000")
    assert dat(host.get(AGENTS + "/meta")) == {
        "bundled": True,
        "version": VERSION,
        "arches": ["arm64"],
        "basic_auth": True,
        "base_url": "http://tocsin.example:17000",
        "script_url": "http://tocsin.example:17000/api/svc/agents/categraf/install.sh",
        "collect": True,
        "metric_datasource_ids": None,
    }
    assert dat(host.get(AGENTS + "/meta?host=https://edge/x/"))["base_url"] == "https://edge/x"
    for bad in ("a b", "ftp://x", "x;rm", "http://u@h", "'"):
        assert err(host.get(AGENTS + "/meta", query={"host": bad})) == f"invalid host: {bad}"
        answer = host.get(AGENTS + "/install.sh", query={"host": bad})
        assert (answer.status, answer.text) == (400, f"invalid host: {bad}")


def test_description_without_packages(agents) -> None:
    found = dat(agents().agent.get(AGENTS + "/meta"))
    assert (found["bundled"], found["arches"], found["basic_auth"]) == (False, [], False)


def test_datasources_that_our_writers_fill(agents) -> None:
    prometheus = pytest.importorskip("tocsin_datasource_prometheus")
    write = pytest.importorskip("tocsin_writer_remotewrite")
    writers = [{"Url": "http://one:9090/api/v1/write,http://localhost:8428/api/v1/write"}]
    world = agents(Pushgw={"Writers": writers}, plugins=[prometheus, write])
    catalog, ids = world.app.core.get(Catalog), []
    for name, url in (("a", "http://one:9090/"), ("b", "http://two:9090"), ("c", "http://127.0.0.1:8428")):
        values = {"name": name, "identifier": name, "plugin_type": "prometheus", "settings": {}, "auth": {}}
        ids.append(catalog.create({**values, "http": {"url": url}}, "root"))
    world.app.core.release()
    assert dat(world.agent.get(AGENTS + "/meta"))["metric_datasource_ids"] == [ids[0], ids[2]]


def test_download(agents) -> None:
    world = agents("amd64")
    answer = world.agent.get(AGENTS + "/download")
    assert (answer.status, answer.body) == (200, b"amd64" * 100_000)
    assert answer.headers["content-type"] == "application/gzip"
    assert answer.headers["content-disposition"] == 'attachment; filename="categraf-linux-amd64.tar.gz"'
    assert answer.headers["content-length"] == "500000"
    answer = world.agent.get(AGENTS + "/download?arch=arm64")
    assert (answer.status, answer.text) == (404, "categraf package for arm64 is not bundled")
    answer = world.agent.get(AGENTS + "/download?arch=../../etc/passwd")
    assert (answer.status, answer.text) == (400, "unsupported arch: ../../etc/passwd")


def test_scripts_over_http(agents) -> None:
    world = agents("amd64", "arm64")
    asked = world.agent.with_headers(Host="inside:1", X_Forwarded_Host="outside, x", X_Forwarded_Proto="https")
    answer = asked.get(AGENTS + "/install.sh", query={"host": "report:2"})
    assert answer.headers["content-type"] == "text/x-shellscript; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store, no-cache, must-revalidate"
    assert answer.headers["vary"] == "Host, X-Forwarded-Host, X-Forwarded-Proto"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert f"SERVER='http://report:2'\nDOWNLOAD_BASE='https://outside'\nVERSION='{VERSION}'\n" in answer.text
    assert "BUNDLED_ARCHES='amd64,arm64'\nRELEASES=''\n" in answer.text
    answer = asked.get(AGENTS + "/collect.sh")
    assert answer.text.startswith("#!/usr/bin/env bash")
    assert "vary" not in answer.headers


def test_release_address_is_checked(agents) -> None:
    with pytest.raises(SettingsError, match="AgentsReleaseURL"):
        agents(Center={"AgentsReleaseURL": "http://x/';rm"})


@pytest.mark.parametrize(
    ("scheme", "forwarded", "proxy", "host", "site", "found"),
    [
        ("http", "", "", "h:1", "https://site/", "http://h:1"),
        ("http", "https", "", "h:1", "", "https://h:1"),
        ("https", "gopher", "", "[::1]:1", "", "https://[::1]:1"),
        ("http", "", "p.example, h", "h", "", "http://p.example"),
        ("http", "", "a b", "h", "", "http://h"),
        ("http", "", "", "h;x", "site/x/", "http://site/x"),
        ("http", "", "", "", "", ""),
        ("http", "", "", "x" * 300, "'", ""),
    ],
)
def test_own_address(scheme: str, forwarded: str, proxy: str, host: str, site: str, found: str) -> None:
    assert own_address(scheme, forwarded, proxy, host, site) == found


@given(st.text(max_size=40) | st.from_regex(r"https?://[a-z:/?#@\[\].'$`;-]{1,20}", fullmatch=True))
def test_no_address_means_anything_to_a_shell(text: str) -> None:
    try:
        found = normal_address(text)
    except ValueError:
        return
    assert not set(found) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/_-[]")
    assert normal_address(found) == found


def test_equal_addresses() -> None:
    assert comparable(" HTTP://LocalHost/a/ ") == "http://127.0.0.1:80/a" == comparable("http://[::1]:80/a")
    assert comparable("ftp://x") == comparable("http://") == comparable("http://x:y/") == ""
    assert is_written_by(["http://tsdb:8428"], ["http://tsdb:8428/api/v1/write"])
    assert is_written_by(["http://tsdb/a/"], ["http://tsdb:80/a"])
    assert not is_written_by(["http://tsdb:8428/a"], ["http://tsdb:8428/ab"])
    assert not is_written_by([""], [""])


# --- the scripts themselves ---

CONFIG = """[global]
hostname = ""
[[writers]]
url = "http://127.0.0.1:17000/other/write"
# basic_auth_user = ""
basic_auth_pass = ""
timeout = 5000
[[writers]]
url = "http://second/write"
[http]
url = "untouched"
[heartbeat]  # how it lives
enable = false
# url = "comment"
url = "http://127.0.0.1:17000/other/heartbeat"
"""
COLLECTOR = """#!/bin/sh
echo "$@" >>calls
[ "$1" != --test ] || cat conf/input.cpu/cpu.toml
"""


class Machine:
    """A host to install on: its directory, and stand-ins for what needs root."""

    def __init__(self, root: Path, world: Any) -> None:
        self.root, self.world = root, world
        self.home = root / "opt" / "categraf"
        stubs = root / "bin"
        stubs.mkdir(parents=True)
        for name, line in {
            "id": "echo 0",
            "uname": "[ $1 = -s ] && echo Linux || echo x86_64",
            "systemctl": ":",
        }.items():
            (stubs / name).write_text(f"#!/bin/sh\n{line}\n")
            (stubs / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}", "TMPDIR": str(root)}

    def run(self, script: str, *options: str) -> subprocess.CompletedProcess[str]:
        nobody = self.world.agent.with_headers(Host="127.0.0.1:1")
        source = nobody.get(f"{AGENTS}/{script}").text
        command = ["bash", "-s", "--", "--dir", str(self.home), *options]
        return subprocess.run(
            command, input=source, env=self.environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    @property
    def config(self) -> str:
        return (self.home / "conf/config.toml").read_text()


@pytest.fixture
def machine(agents, tmp_path: Path) -> Machine:
    require_program("curl", "curl")
    return Machine(tmp_path / "machine", agents())


def package(version: str = "1") -> bytes:
    """Return a package as it is released: one directory with everything in it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content, mode in (
            ("categraf", COLLECTOR, 0o755),
            ("conf/config.toml", CONFIG, 0o644),
            ("VERSION", version, 0o644),
        ):
            info = tarfile.TarInfo(f"categraf-{version}/{name}")
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content.encode()))
    return out.getvalue()


def test_an_installation(machine: Machine, http_sink) -> None:
    http_sink.default = Answer(body=package())
    server = ("--server", "https://tocsin.example/", "--download-base", http_sink.url)
    done = machine.run("install.sh", *server, "--auth", 'me:p"w\\:1')
    assert done.returncode == 0, done.stderr
    assert http_sink.requests[0].path == AGENTS + "/download"
    assert (
        machine.config
        == CONFIG.replace("http://127.0.0.1:17000/other/write", "https://tocsin.example/rw/v1/write")
        .replace("http://127.0.0.1:17000/other/heartbeat", "https://tocsin.example/v1/svc/heartbeat")
        .replace(
            '# basic_auth_user = ""\nbasic_auth_pass = ""', 'basic_auth_user = "me"\nbasic_auth_pass = "p\\"w\\\\:1"'
        )
        .replace("enable = false", "enable = true")
        + 'basic_auth_user = "me"\nbasic_auth_pass = "p\\"w\\\\:1"\n'
    )
    assert (machine.home / "conf/config.toml").stat().st_mode & 0o777 == 0o600
    assert not machine.home.with_suffix(".lock").exists()
    again = machine.run("install.sh", *server)
    assert (again.returncode, again.stdout) == (0, "already installed, reporting to https://tocsin.example\n")
    other = machine.run("install.sh", "--server", "http://other", "--download-base", http_sink.url)
    assert other.returncode == 1
    assert "--force" in other.stderr
    assert len(http_sink.requests) == 1


def test_an_upgrade_keeps_the_configuration(machine: Machine, http_sink) -> None:
    http_sink.default = Answer(body=package())
    server = ("--server", "http://one", "--download-base", http_sink.url)
    assert machine.run("install.sh", *server).returncode == 0
    config = machine.home / "conf/config.toml"
    config.write_text(config.read_text().replace('hostname = ""', 'hostname = "mine"'))
    (machine.home / "conf/input.x").mkdir()
    http_sink.default = Answer(body=package("2"))
    server = ("--server", "http://two", "--download-base", http_sink.url)
    assert machine.run("install.sh", *server, "--force").returncode == 0
    assert 'hostname = "mine"' in machine.config
    assert 'url = "http://two/rw/v1/write"' in machine.config
    assert (machine.home / "VERSION").read_text() == "2"
    assert machine.run("install.sh", *server, "--force", "--reset-config").returncode == 0
    assert 'hostname = "mine"' not in machine.config
    assert 'url = "http://two/rw/v1/write"' in machine.config
    assert (machine.home / "conf/input.x").is_dir()
    assert list(machine.home.parent.glob("categraf.conf-backup-*"))


def test_what_an_installation_refuses(machine: Machine, http_sink) -> None:
    machine.environment["CATEGRAF_SERVER"] = "http://s"
    for options, text in (
        (("--what",), "unknown option --what"),
        (("--auth",), "--auth needs a value"),
        (("--auth", "nocolon"), "expected USER:PASS"),
        (("--arch", "mips"), "expected amd64 or arm64"),
        (("--server", "http://x y"), "--server: got 'http://x y'"),
        (("--server", "http://x';y"), "expected an address"),
        (("--download-base", "$(x)"), "--download-base"),
        ((), "no public release address"),
    ):
        done = machine.run("install.sh", *options)
        assert done.returncode == 1, options
        assert text in done.stderr
    http_sink.default = Answer(body=b"not a package")
    done = machine.run("install.sh", "--download-base", http_sink.url)
    assert done.returncode == 1
    assert "no usable package for amd64" in done.stdout
    machine.home.with_suffix(".lock").mkdir()
    assert "another installation" in machine.run("install.sh").stderr
    assert machine.home.with_suffix(".lock").exists()
    assert not machine.home.exists()
    assert machine.run("install.sh", "--help").stdout.startswith("usage:")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_an_input(machine: Machine) -> None:
    machine.home.mkdir(parents=True)
    (machine.home / "categraf").write_text(COLLECTOR)
    (machine.home / "categraf").chmod(0o755)
    file = machine.home / "conf/input.cpu/cpu.toml"
    good = "1760000000 12:00:00 cpu_usage 1\n"
    done = machine.run("collect.sh", "--input", "cpu", "--conf-b64", encoded(good))
    assert done.returncode == 0, done.stderr
    assert (file.read_text(), file.stat().st_mode & 0o777) == (good, 0o600)
    done = machine.run("collect.sh", "--input", "cpu", "--conf-b64", encoded("nothing\n"))
    assert done.returncode == 1
    assert "nothing\nerror: the input gave no samples" in done.stderr
    assert file.read_text() == good
    done = machine.run("collect.sh", "--input", "cpu", "--conf-b64", encoded("new"), "--skip-test", "--no-restart")
    assert (done.returncode, file.read_text()) == (0, "new")
    assert list(file.parent.glob("cpu.toml.bak-*"))
    for options, text in (
        (("--input", "../x", "--conf-b64", "eA=="), "--input: got '../x'"),
        (("--input", "cpu"), "--conf-b64 is needed"),
        (("--input", "cpu", "--conf-b64", "%%"), "no base64"),
        (("--input", "cpu", "--conf-b64", "eA==", "--test-timeout", "1000"), "--test-timeout"),
        (("--input", "cpu", "--conf-b64", "eA==", "--dir", "/nowhere"), "no collector in /nowhere"),
    ):
        done = machine.run("collect.sh", *options)
        assert done.returncode == 1
        assert text in done.stderr
    assert file.read_text() == "new"
