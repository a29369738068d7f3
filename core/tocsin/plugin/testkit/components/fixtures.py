"""The pytest plugin: real programs as fixtures, started when first asked for.

`start_*` fixtures are factories: each call starts another program, all are stopped at the end of the session (or
earlier, with `stop()` or `with`). `*_server` fixtures are one shared server per session; tests get a database of
their own on it. A missing program skips the test, and fails it when the environment variable CI is set.

The option `--component NAME` (repeatable) runs only the tests that use that fixture, e.g. `--component mariadb_server`.
"""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tocsin.plugin.testkit.components.browser import Browser
from tocsin.plugin.testkit.components.databases import (
    Database,
    DatabaseKind,
    DatabaseServer,
    MariaDb,
    Postgres,
    sqlite_database,
)
from tocsin.plugin.testkit.components.ldap import Slapd
from tocsin.plugin.testkit.components.missing import require_package
from tocsin.plugin.testkit.components.process import Program, running_processes
from tocsin.plugin.testkit.components.programs import Nginx, Prometheus, Redis, VictoriaMetrics, VmAgent
from tocsin.plugin.testkit.components.sink import HttpSink

DATABASE_KINDS: tuple[DatabaseKind, ...] = ("sqlite", "mysql", "postgres")
SERVERS = {"mysql": "mariadb_server", "postgres": "postgres_server", "redis": "redis_server"}
"""The fixture behind a parameter with this value; tests get it by `request.getfixturevalue`."""
DRIVERS = {"mysql": "pymysql", "postgres": "psycopg"}
"""The package without which core cannot use a database of that kind."""


P = TypeVar("P", bound=Program)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that selects tests by the component they use."""
    parser.addoption(
        "--component",
        action="append",
        default=[],
        metavar="FIXTURE",
        help="run only tests that use this fixture of tocsin.plugin.testkit.components; may be repeated",
    )


def components_of(item: pytest.Item) -> set[str]:
    """Return the component fixtures that a test uses: by name, or through a parameter like `mysql` or `redis`."""
    names = set(getattr(item, "fixturenames", ())) & COMPONENTS
    callspec = getattr(item, "callspec", None)
    parameters = callspec.params.values() if callspec else ()
    return names | {SERVERS[value] for value in parameters if isinstance(value, str) and value in SERVERS}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply the selection."""
    wanted = set(config.getoption("--component"))
    if unknown := wanted - COMPONENTS:
        raise pytest.UsageError(f"--component: unknown {sorted(unknown)}, expected one of {sorted(COMPONENTS)}")
    left_out = [item for item in items if wanted and not components_of(item) & wanted]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if components_of(item) & wanted]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach what the running programs printed during a failed test to its report."""
    report = yield
    if report.failed:
        for process in running_processes():
            if output := process.new_output():
                report.sections.append((f"output of {process.name} (pid {process.pid})", output))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let each test see only the output that was printed since it began."""
    for process in running_processes():
        process.mark_output()


class _Site:
    """The directories and the end of the programs of one session."""

    def __init__(self) -> None:
        # Not below pytest's own temporary directory: nobody but its owner may enter that, and servers that refuse
        # to run as root need to reach their files; TMPDIR may be of that kind too. A short path, because sockets' paths
        # are limited.
        self.root = Path(tempfile.mkdtemp(prefix="tocsin-", dir="/tmp"))
        self.root.chmod(0o711)
        self._numbers = itertools.count(1)
        self.stack = ExitStack()

    def directory(self, name: str) -> Path:
        """Create a directory of a program's own."""
        path = self.root / f"{name}-{next(self._numbers)}"
        path.mkdir(mode=0o755)
        path.chmod(0o755)
        return path

    def launch(self, program: P) -> P:
        """Start a program, wait until it is ready, and see to its end."""
        program.start()
        self.stack.callback(program.stop)
        program.wait_ready(program.ready)
        return program

    def close(self) -> None:
        """Stop everything, newest first, and delete the files."""
        self.stack.close()
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture(scope="session")
def component_site() -> Iterator[_Site]:
    """Where the programs of this session live; stops them at its end."""
    site = _Site()
    try:
        yield site
    finally:
        site.close()


def _factory(name: str, kind: Callable[..., P]) -> Callable[[_Site], Callable[..., P]]:
    """Return a session fixture that starts another program of `kind` at each call, with that class's arguments."""

    def fixture(component_site: _Site) -> Callable[..., P]:
        def start(*arguments: Any, **options: Any) -> P:
            return component_site.launch(kind(component_site.directory(name), *arguments, **options))

        return start

    fixture.__doc__ = f"Start a {name} with the arguments of `{getattr(kind, '__name__', name)}` except its directory."
    return fixture


start_prometheus = pytest.fixture(scope="session", name="start_prometheus")(_factory("prometheus", Prometheus))
start_victoria_metrics = pytest.fixture(scope="session", name="start_victoria_metrics")(_factory("vm", VictoriaMetrics))
start_vmagent = pytest.fixture(scope="session", name="start_vmagent")(_factory("vmagent", VmAgent))
start_nginx = pytest.fixture(scope="session", name="start_nginx")(_factory("nginx", Nginx))
start_redis = pytest.fixture(scope="session", name="start_redis")(_factory("redis", Redis))
start_slapd = pytest.fixture(scope="session", name="start_slapd")(_factory("slapd", Slapd))
start_browser = pytest.fixture(scope="session", name="start_browser")(_factory("browser", Browser))


def _database_server(site: _Site, name: str, kind: Callable[[Path], DatabaseServer]) -> DatabaseServer:
    server = site.launch(kind(site.directory(name)))
    server.provide_account()
    return server


@pytest.fixture(scope="session")
def postgres_server(component_site: _Site) -> DatabaseServer:
    """One PostgreSQL server for the session."""
    return _database_server(component_site, "postgres", Postgres)


@pytest.fixture(scope="session")
def mariadb_server(component_site: _Site) -> DatabaseServer:
    """One MariaDB server for the session."""
    return _database_server(component_site, "mariadb", MariaDb)


@pytest.fixture(scope="session")
def slapd_server(start_slapd: Callable[[], Slapd]) -> Slapd:
    """One LDAP server for the session; add entries with names of the test's own."""
    return start_slapd()


@pytest.fixture(scope="session")
def _redis_of_the_session(start_redis: Callable[[], Redis]) -> Redis:
    return start_redis()


@pytest.fixture
def redis_server(_redis_of_the_session: Redis) -> Redis:
    """The session's Redis server, emptied for this test."""
    require_package("redis")
    _redis_of_the_session.flush()
    return _redis_of_the_session


@pytest.fixture(params=DATABASE_KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database on SQLite, MariaDB and PostgreSQL in turn; dropped after the test."""
    if request.param == "sqlite":
        yield sqlite_database(tmp_path)
        return
    require_package(DRIVERS[request.param])
    server: DatabaseServer = request.getfixturevalue(SERVERS[request.param])
    fresh = server.create_database()
    try:
        yield fresh
    finally:
        server.drop_database(fresh)


@pytest.fixture
def http_sink() -> Iterator[HttpSink]:
    """A running `HttpSink` that answers 200."""
    with HttpSink() as sink:
        yield sink


COMPONENTS = {
    "start_prometheus",
    "start_victoria_metrics",
    "start_vmagent",
    "start_nginx",
    "start_redis",
    "start_slapd",
    "start_browser",
    "postgres_server",
    "mariadb_server",
    "slapd_server",
    "redis_server",
}
"""The fixtures that start real programs."""
