"""Real database servers, and the databases that tests get on them."""

import contextlib
import itertools
import os
import signal
import subprocess
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tocsin.plugin.testkit.components.missing import require_program
from tocsin.plugin.testkit.components.ports import free_port
from tocsin.plugin.testkit.components.process import PATIENCE, Process, Program, give_directory

DatabaseKind = Literal["sqlite", "mysql", "postgres"]


@dataclass(frozen=True)
class Database:
    """An empty database of a test's own.

    `dsn` has the form of the setting `[DB] DSN` for this kind, `kind` that of `[DB] DBType`. For sqlite the name is
    the path of a file that does not exist yet, and host, port and user mean nothing.
    """

    kind: DatabaseKind
    name: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""

    @property
    def dsn(self) -> str:
        """The data source name."""
        match self.kind:
            case "mysql":
                return (
                    f"{self.user}:{self.password}@tcp({self.host}:{self.port})/{self.name}"
                    "?charset=utf8mb4&parseTime=True&loc=Local"
                )
            case "postgres":
                return (
                    f"host={self.host} port={self.port} user={self.user} dbname={self.name}"
                    f" password={self.password} sslmode=disable"
                )
            case _:
                return self.name


class DatabaseServer(Program):
    """What the two servers have in common: the account `tocsin` and one new database per test."""

    kind: DatabaseKind
    port: int
    user = "tocsin"
    password = "not-a-secret"
    _numbers = itertools.count(1)

    @abstractmethod
    def execute(self, sql: str) -> str:
        """Run statements as the server's administrator and return what the command line client prints."""

    @abstractmethod
    def provide_account(self) -> None:
        """Create the account `tocsin`, allowed to create databases."""

    def ready(self) -> bool:
        """Whether the server runs statements."""
        self.execute("SELECT 1")
        return True

    def create_database(self) -> Database:
        """Create an empty database."""
        name = f"t{os.getpid()}_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}{self._options()}")
        return Database(self.kind, name, "127.0.0.1", self.port, self.user, self.password)

    def unused_database(self) -> Database:
        """Return the coordinates of a database that does not exist but that the account may create."""
        name = f"t{os.getpid()}_{next(self._numbers)}_absent"
        return Database(self.kind, name, "127.0.0.1", self.port, self.user, self.password)

    @abstractmethod
    def drop_database(self, database: Database) -> None:
        """Drop a database, ending the connections to it."""

    @abstractmethod
    def _options(self) -> str:
        """What follows the name in CREATE DATABASE."""


def _client(argv: list[str | Path], sql: str) -> str:
    """Run a command line client; a failure is an `OSError` with its message, because servers are polled with it."""
    done = subprocess.run([*argv, sql], capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise OSError(f"{argv[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Postgres(DatabaseServer):
    """A PostgreSQL server; connections to 127.0.0.1 need the password, the administrator uses the local socket."""

    kind = "postgres"

    def __init__(self, directory: Path) -> None:
        folders = "/usr/lib/postgresql/*/bin"
        program = require_program("postgres", "postgresql", folders)
        initdb = require_program("initdb", "postgresql", folders)
        self._psql = require_program("psql", "postgresql-client", folders)
        self.port = free_port()
        self._data = give_directory(directory / "data", "postgres")
        self._sockets = give_directory(directory / "run", "postgres")
        self._initialise(initdb, directory)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._sockets),
            "fsync": "off",
            "full_page_writes": "off",
            "max_connections": "200",
        }
        argv: list[str | Path] = [program, "-D", self._data]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        super().__init__("postgres", argv, directory=directory, user="postgres", stop_signal=signal.SIGINT)

    def _initialise(self, initdb: Path, directory: Path) -> None:
        """Create the cluster; the trusted local socket lies in a directory that only its user and root can enter."""
        argv: list[str | Path] = [
            initdb,
            "-D",
            self._data,
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]
        argv += ["--auth-local=trust", "--auth-host=scram-sha-256", "--no-instructions"]
        maker = Process("initdb", argv, directory=directory, user="postgres")
        if maker.start().wait(2 * PATIENCE):
            raise RuntimeError(f"initdb failed:\n{maker.output_tail()}")

    def execute(self, sql: str) -> str:
        """Run statements through psql."""
        argv: list[str | Path] = [self._psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self._sockets]
        return _client([*argv, "-p", str(self.port), "-U", "postgres", "-d", "postgres", "-c"], sql)

    def provide_account(self) -> None:
        """Create the role."""
        self.execute(f"CREATE ROLE {self.user} LOGIN CREATEDB PASSWORD '{self.password}'")

    def drop_database(self, database: Database) -> None:
        """Drop a database."""
        self.execute(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")

    def _options(self) -> str:
        return f" OWNER {self.user} TEMPLATE template0"


class MariaDb(DatabaseServer):
    """A MariaDB server; the administrator uses the local socket."""

    kind = "mysql"

    def __init__(self, directory: Path) -> None:
        program = require_program("mariadbd", "mariadb-server")
        install = require_program("mariadb-install-db", "mariadb-server")
        self._client = require_program("mariadb", "mariadb-client")
        self.port = free_port()
        data = give_directory(directory / "data", "mysql")
        # A socket's path may have 107 bytes, so it lies as high as possible.
        run = give_directory(directory / "run", "mysql")
        self._socket = run / "s"
        # A starting server deletes the temporary tables it finds, those of a neighbour in /tmp included.
        temporary = {"TMPDIR": str(run)}
        common = ["--no-defaults", f"--datadir={data}"]
        maker = Process(
            "mariadb-install-db",
            [install, *common, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"],
            directory=directory,
            environment=temporary,
            user="mysql",
        )
        if maker.start().wait(2 * PATIENCE):
            raise RuntimeError(f"mariadb-install-db failed:\n{maker.output_tail()}")
        argv: list[str | Path] = [
            program,
            *common,
            f"--socket={self._socket}",
            f"--pid-file={run / 'pid'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=64M",
            "--character-set-server=utf8mb4",
            "--max-connections=200",
        ]
        super().__init__("mariadb", argv, directory=directory, environment=temporary, user="mysql")

    def execute(self, sql: str) -> str:
        """Run statements through the command line client."""
        argv: list[str | Path] = [self._client, "--no-defaults", f"--socket={self._socket}", "-u", "root"]
        return _client([*argv, "--batch", "--skip-column-names", "-e"], sql)

    def provide_account(self) -> None:
        """Create the account; it may do everything, as the one of a fresh installation usually may."""
        # The server matches 127.0.0.1 literally because it does not resolve names.
        self.execute(
            f"CREATE USER {self.user}@'127.0.0.1' IDENTIFIED BY '{self.password}';"
            f"GRANT ALL PRIVILEGES ON *.* TO {self.user}@'127.0.0.1'"
        )

    def drop_database(self, database: Database) -> None:
        """Drop a database; sessions that still use it are ended, for their locks would block the statement."""
        sessions = self.execute(f"SELECT id FROM information_schema.processlist WHERE db = '{database.name}'")
        for session in sessions.split():
            with contextlib.suppress(OSError):  # it may have ended meanwhile
                self.execute(f"KILL CONNECTION {session}")
        self.execute(f"DROP DATABASE IF EXISTS {database.name}")

    def _options(self) -> str:
        return " CHARACTER SET utf8mb4"


def sqlite_database(directory: Path) -> Database:
    """Return the coordinates of a database file in `directory` that does not exist yet."""
    return Database("sqlite", str(directory / "tocsin.db"))
