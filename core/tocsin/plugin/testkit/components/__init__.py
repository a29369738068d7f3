"""Real programs and a misbehaving HTTP server for tests.

    def test_writes(http_sink, start_prometheus):
        http_sink.then(Answer(503), Reset())
        server = start_prometheus(remote_write=[f"{http_sink.url}/write"])
        http_sink.wait_for(3)

The fixtures are in `tocsin.plugin.testkit.components.fixtures`; the classes below can be used without them.
"""

from tocsin.plugin.testkit.components.browser import Browser, WebDriverError
from tocsin.plugin.testkit.components.databases import Database, DatabaseServer, MariaDb, Postgres
from tocsin.plugin.testkit.components.ldap import Slapd
from tocsin.plugin.testkit.components.missing import missing, require_program
from tocsin.plugin.testkit.components.ports import free_port
from tocsin.plugin.testkit.components.process import PATIENCE, Process, Program, running_processes, wait_until
from tocsin.plugin.testkit.components.programs import Nginx, Prometheus, Redis, VictoriaMetrics, VmAgent
from tocsin.plugin.testkit.components.sink import (
    Answer,
    Hang,
    HttpSink,
    Huge,
    Redirect,
    Request,
    Reset,
    Trickle,
)

__all__ = [
    "PATIENCE",
    "Answer",
    "Browser",
    "Database",
    "DatabaseServer",
    "Hang",
    "HttpSink",
    "Huge",
    "MariaDb",
    "Nginx",
    "Postgres",
    "Process",
    "Program",
    "Prometheus",
    "Redirect",
    "Redis",
    "Request",
    "Reset",
    "Slapd",
    "Trickle",
    "VictoriaMetrics",
    "VmAgent",
    "WebDriverError",
    "free_port",
    "missing",
    "require_program",
    "running_processes",
    "wait_until",
]
