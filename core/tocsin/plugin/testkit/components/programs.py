"""Servers that tests talk to over HTTP or the Redis protocol: one class each, started on free loopback ports."""

import json
import os
import pwd
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tocsin.plugin.testkit.components.missing import require_program
from tocsin.plugin.testkit.components.ports import free_port
from tocsin.plugin.testkit.components.process import PATIENCE, Program, give_directory

# Loopback addresses are never for a proxy, whatever the environment says.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def http_call(url: str, *, method: str = "GET", timeout: float = PATIENCE) -> bytes:
    """Return the body of the answer; error statuses raise `urllib.error.HTTPError`, which is an `OSError`."""
    try:
        with _opener.open(urllib.request.Request(url, method=method), timeout=timeout) as response:
            body: bytes = response.read()
            return body
    except urllib.error.HTTPError as error:
        error.close()
        raise


def answers(url: str) -> bool:
    """Whether a GET is answered with a success status."""
    http_call(url, timeout=2.0)
    return True


def prometheus_query(base: str, expression: str) -> list[dict[str, Any]]:
    """Return `data.result` of an instant query against a Prometheus API below `base`."""
    query = urllib.parse.urlencode({"query": expression})
    result: list[dict[str, Any]] = json.loads(http_call(f"{base}/api/v1/query?{query}"))["data"]["result"]
    return result


SENT_SOON = {"queue_config": {"batch_send_deadline": "500ms"}}
"""Prometheus collects samples for five seconds otherwise, unless there are many."""


class Prometheus(Program):
    """A Prometheus server that scrapes itself and whatever `scrape` names.

    `scrape` maps job names to lists of host:port; `remote_write` lists addresses (or complete `remote_write` entries);
    with `receiver` it takes remote write itself at `/api/v1/write`. `settings` is merged into the configuration file,
    which is written as JSON, a subset of YAML.
    """

    def __init__(
        self,
        directory: Path,
        *,
        scrape: Mapping[str, Sequence[str]] | None = None,
        scrape_interval: str = "1s",
        remote_write: Sequence[str | Mapping[str, Any]] = (),
        receiver: bool = True,
        settings: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.config_file = give_directory(directory, None) / "prometheus.yml"
        jobs = {"prometheus": [f"127.0.0.1:{self.port}"], **(scrape or {})}
        self.config: dict[str, Any] = {
            "global": {"scrape_interval": scrape_interval, "evaluation_interval": scrape_interval},
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(targets)}]} for job, targets in jobs.items()
            ],
            "remote_write": [
                {"url": entry, **SENT_SOON} if isinstance(entry, str) else dict(entry) for entry in remote_write
            ],
            **(settings or {}),
        }
        self.write_config()
        argv: list[str | Path] = [
            require_program("prometheus", "prometheus"),
            f"--config.file={self.config_file}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--web.enable-lifecycle",
            "--storage.remote.flush-deadline=1s",  # of what cannot be delivered; a minute otherwise
            *(["--web.enable-remote-write-receiver"] if receiver else []),
            *arguments,
        ]
        super().__init__("prometheus", argv, directory=directory)

    def write_config(self) -> None:
        """Write `config` to the configuration file."""
        self.config_file.write_text(json.dumps(self.config, indent=1))

    def reload(self) -> None:
        """Write the configuration and make the server read it."""
        self.write_config()
        http_call(f"{self.url}/-/reload", method="POST")

    def ready(self) -> bool:
        """Whether the server answers queries."""
        return answers(f"{self.url}/-/ready")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result list of an instant query."""
        return prometheus_query(self.url, expression)


class VictoriaMetrics(Program):
    """A single-node VictoriaMetrics server; remote write at `/api/v1/write`."""

    def __init__(self, directory: Path, *, arguments: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        argv: list[str | Path] = [
            require_program("victoria-metrics", "victoria-metrics"),
            f"-httpListenAddr=127.0.0.1:{self.port}",
            f"-storageDataPath={give_directory(directory, None) / 'data'}",
            "-retentionPeriod=100y",
            "-search.latencyOffset=0s",  # it hides the newest 30 s otherwise
            *arguments,
        ]
        super().__init__("victoria-metrics", argv, directory=directory)

    def ready(self) -> bool:
        """Whether the server answers."""
        return answers(f"{self.url}/health")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result list of an instant query, after making the newest samples visible."""
        http_call(f"{self.url}/internal/force_flush")
        return prometheus_query(self.url, expression)


class VmAgent(Program):
    """A vmagent that forwards to the addresses in `remote_write` and scrapes what `scrape` names."""

    def __init__(
        self,
        directory: Path,
        *,
        remote_write: Sequence[str],
        scrape: Mapping[str, Sequence[str]] | None = None,
        scrape_interval: str = "1s",
        arguments: Sequence[str] = (),
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        config = give_directory(directory, None) / "scrape.yml"
        jobs = [{"job_name": job, "static_configs": [{"targets": list(to)}]} for job, to in (scrape or {}).items()]
        config.write_text(json.dumps({"global": {"scrape_interval": scrape_interval}, "scrape_configs": jobs}))
        argv: list[str | Path] = [
            require_program("vmagent", "victoria-metrics"),
            f"-httpListenAddr=127.0.0.1:{self.port}",
            f"-promscrape.config={config}",
            f"-remoteWrite.tmpDataPath={directory / 'queue'}",
            *(f"-remoteWrite.url={url}" for url in remote_write),
            *arguments,
        ]
        super().__init__("vmagent", argv, directory=directory)

    def ready(self) -> bool:
        """Whether the agent answers."""
        return answers(f"{self.url}/health")


class Nginx(Program):
    """An nginx whose server block listens on `port` and holds `server_block`, verbatim configuration text."""

    def __init__(self, directory: Path, server_block: str, *, http_block: str = "", tls_listen: bool = False) -> None:
        self.port = free_port()
        self.url = f"{'https' if tls_listen else 'http'}://127.0.0.1:{self.port}"
        program = require_program("nginx", "nginx")
        for folder in ("body", "proxy", "fastcgi", "uwsgi", "scgi"):
            give_directory(directory / folder, None)
        config = directory / "nginx.conf"
        listen = f"listen 127.0.0.1:{self.port}{' ssl' if tls_listen else ''};"
        config.write_text(
            f"daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log stderr warn;\n"
            f"{self._worker_user()}"
            "events { worker_connections 512; }\n"
            f"http {{ access_log {directory}/access.log;\n"
            f"client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;\n"
            f"fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi;\n"
            f"scgi_temp_path {directory}/scgi;\n{http_block}\n"
            f"server {{ {listen}\n{server_block}\n}} }}\n"
        )
        # Workers inherit standard error; "-e" keeps nginx from opening its compiled-in log before it reads the file.
        super().__init__("nginx", [program, "-e", "stderr", "-p", directory, "-c", config], directory=directory)

    @staticmethod
    def _worker_user() -> str:
        """The workers keep our own user, so that they may read the test's files."""
        return f"user {pwd.getpwuid(0).pw_name};\n" if os.geteuid() == 0 else ""

    def ready(self) -> bool:
        """Whether the port accepts connections."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2):
            return True


class Redis(Program):
    """A Redis server without persistence."""

    def __init__(self, directory: Path, *, arguments: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        give_directory(directory, None)
        argv: list[str | Path] = [
            require_program("redis-server", "redis-server"),
            *("--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"),
            *("--dir", str(directory), *arguments),
        ]
        super().__init__("redis", argv, directory=directory)

    def command(self, *words: str) -> bytes:
        """Send one command and return the first reply line (enough for PING, FLUSHALL, DBSIZE)."""
        payload = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w.encode()), w.encode()) for w in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(payload)
            with connection.makefile("rb") as stream:
                return stream.readline().rstrip(b"\r\n")

    def ready(self) -> bool:
        """Whether the server has loaded and answers PING."""
        return self.command("PING") == b"+PONG"

    def flush(self) -> None:
        """Delete everything."""
        self.command("FLUSHALL")
