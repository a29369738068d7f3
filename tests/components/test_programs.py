"""Each real program once: it starts, does its work, and its helper's methods say the truth."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.plugin.testkit.components import (
    PATIENCE,
    Answer,
    Browser,
    Database,
    DatabaseServer,
    HttpSink,
    Nginx,
    Prometheus,
    Redis,
    Slapd,
    VictoriaMetrics,
    VmAgent,
    WebDriverError,
    wait_until,
)


def value(result: list[dict[str, object]]) -> str | None:
    """Return the value of the first series of an instant query."""
    return result[0]["value"][1] if result else None  # type: ignore[index]


def test_prometheus_scrapes_itself_and_writes_to_an_address(
    start_prometheus: Callable[..., Prometheus], http_sink: HttpSink
) -> None:
    with start_prometheus(remote_write=[f"{http_sink.url}/write"]) as server:
        request = http_sink.wait_for(1)[0]
        assert request.path == "/write"
        assert request.headers["content-encoding"] == "snappy"
        wait_until(lambda: value(server.query("up")) == "1", what="own samples")


def test_prometheus_reads_a_changed_configuration(start_prometheus: Callable[..., Prometheus]) -> None:
    with start_prometheus() as server:
        server.config["global"]["external_labels"] = {"mark": "changed"}
        server.reload()
        with urllib.request.urlopen(f"{server.url}/api/v1/status/config", timeout=PATIENCE) as response:
            assert "mark: changed" in json.load(response)["data"]["yaml"]


def test_victoria_metrics_takes_what_vmagent_forwards(
    start_victoria_metrics: Callable[..., VictoriaMetrics], start_vmagent: Callable[..., VmAgent]
) -> None:
    with start_victoria_metrics() as store, start_vmagent(remote_write=[f"{store.url}/api/v1/write"]) as agent:
        lines = b'temperature{room="attic"} 21.5\n'
        send = urllib.request.Request(f"{agent.url}/api/v1/import/prometheus", lines, method="POST")
        with urllib.request.urlopen(send, timeout=PATIENCE):
            pass
        wait_until(lambda: value(store.query("temperature")) == "21.5", what="forwarded sample")


def test_nginx_serves_its_server_block(start_nginx: Callable[..., Nginx], http_sink: HttpSink) -> None:
    http_sink.default = Answer(body=b"from behind")
    with (
        start_nginx(f"location /in/ {{ proxy_pass {http_sink.url}/out/; }}") as server,
        urllib.request.urlopen(f"{server.url}/in/x", timeout=PATIENCE) as response,
    ):
        assert response.read() == b"from behind"
    assert [request.path for request in http_sink.requests] == ["/out/x"]


def test_redis_is_empty_for_each_test(redis_server: Redis) -> None:
    assert redis_server.command("DBSIZE") == b":0"
    assert redis_server.command("SET", "key", "value") == b"+OK"
    redis_server.flush()
    assert redis_server.command("EXISTS", "key") == b":0"


def test_a_database_is_empty_and_reachable(database: Database) -> None:
    if database.kind == "sqlite":
        assert not Path(database.dsn).exists()
        return
    connect = {"mysql": connect_mysql, "postgres": connect_postgres}[database.kind]
    assert connect(database) == 0


def connect_mysql(database: Database) -> int:
    """Return the number of tables."""
    pymysql = pytest.importorskip("pymysql")
    assert database.dsn.startswith(f"tocsin:{database.password}@tcp(127.0.0.1:{database.port})/{database.name}?")
    connection = pymysql.connect(
        host=database.host,
        port=database.port,
        user=database.user,
        password=database.password,
        database=database.name,
    )
    with connection, connection.cursor() as cursor:
        count: int = cursor.execute("SHOW TABLES")
        cursor.execute("CREATE TABLE one (id int)")
        return count


def connect_postgres(database: Database) -> int:
    """Return the number of tables."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(database.dsn) as connection:
        query = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
        count: int = connection.execute(query).fetchone()[0]
        connection.execute("CREATE TABLE one (id int)")
        return count


@pytest.mark.parametrize("name", ["postgres_server", "mariadb_server"])
def test_a_database_can_be_dropped_while_it_is_in_use(name: str, request: pytest.FixtureRequest) -> None:
    server: DatabaseServer = request.getfixturevalue(name)
    database = server.create_database()
    driver = pytest.importorskip("pymysql" if server.kind == "mysql" else "psycopg")
    where = {"host": database.host, "port": database.port, "user": database.user, "password": database.password}
    key = "database" if server.kind == "mysql" else "dbname"
    connection = driver.connect(**where, **{key: database.name})
    try:
        connection.cursor().execute("SELECT 1")
        server.drop_database(database)
        with pytest.raises(driver.Error):
            driver.connect(**where, **{key: database.name})
    finally:
        connection.close()


def test_the_directory_knows_people_and_groups(slapd_server: Slapd) -> None:
    person = slapd_server.add_person("ada", "pass-word", name="Ada Lovelace", mail="ada@example.org")
    assert slapd_server.add_group("admins", [person]) == f"cn=admins,ou=groups,{slapd_server.base}"
    with pytest.raises(OSError, match="Already exists"):
        slapd_server.add_person("ada", "x", name="Ada Lovelace")


def test_the_browser_runs_pages(start_browser: Callable[[], Browser], http_sink: HttpSink, tmp_path: Path) -> None:
    script = b"setTimeout(() => window.rung = true, 50); console.error('ding')"
    page = b"<title>Tocsin</title><h1>Ring</h1><script>%s</script>" % script
    http_sink.default = Answer(body=page, headers={"Content-Type": "text/html"})
    with start_browser() as browser:
        browser.open(f"{http_sink.url}/page")
        browser.wait_for("window.rung")
        assert browser.command("GET", "/title") == "Tocsin"
        assert browser.text() == "Ring"
        assert browser.run("return arguments[0] + 1", 41) == 42
        assert any("ding" in entry["message"] for entry in browser.console())
        assert browser.screenshot(tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
        with pytest.raises(WebDriverError, match="no such element"):
            browser.command("POST", "/element", {"using": "css selector", "value": "#absent"})
    assert not browser.alive
