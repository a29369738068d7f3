"""The route table of the center against the tables of paths and permission points that clients rely on."""

import csv
import re
from pathlib import Path

import pytest

from tocsin.app.bootstrap import route_table
from tocsin.http.access import Need
from tocsin.http.routes import Route, Surface
from tocsin.plugin.testkit import AppFactory

HERE = Path(__file__).parent
OUR_OWN = {("GET", "/self/token/:")}
"""Routes beyond the table: a token is revealed one at a time."""
NO_PERSON = {"-", "proxyauth-mock", ""}
"""Middleware of routes that nobody has to log in for."""
MORE_CAREFUL = {("GET", "/busi-group/:/alert-rules")}
"""Routes that check the business group although the table does not: reading needs membership."""


def shape(path: str) -> str:
    return re.sub(r":\w+", ":", path)


def listed(name: str) -> dict[tuple[str, str], dict[str, str]]:
    with (HERE / name).open() as handle:
        return {(row["method"], shape(row["path"])): row for row in csv.DictReader(handle, delimiter="\t")}


@pytest.fixture
def rows(make_app: AppFactory) -> list[Route]:
    return list(route_table(make_app(settings={"HTTP": {"APIForService": {"Enable": True}}}).core))


def page_rows(rows: list[Route]) -> dict[tuple[str, str], Route]:
    # The proxy takes every method and path below a datasource; the table lists it once.
    return {
        (r.method, shape(r.path)): r for r in rows if r.surface is Surface.PAGE and not r.path.startswith("/proxy/")
    }


def test_every_page_route_is_one_that_clients_know(rows: list[Route]) -> None:
    assert set(page_rows(rows)) - set(listed("page_routes.tsv")) <= OUR_OWN


def test_page_routes_ask_for_the_permission_points_of_the_table(rows: list[Route]) -> None:
    known = listed("page_routes.tsv")
    found = {key: row.access.point for key, row in page_rows(rows).items() if key in known}
    assert found == {key: known[key]["permission"] for key in found}


@pytest.mark.parametrize(
    ("middleware", "need"), [("admin", Need.ADMIN), ("bgro", Need.GROUP_READ), ("bgrw", Need.GROUP_WRITE)]
)
def test_page_routes_check_what_the_table_says(rows: list[Route], middleware: str, need: Need) -> None:
    known = listed("page_routes.tsv")
    for key, row in page_rows(rows).items():
        if key in known and key not in MORE_CAREFUL:
            wanted = middleware in known[key]["middleware"].split(" > ")
            assert wanted == any(kind is need for kind, _ in row.access.needs), key


def test_nothing_is_open_that_the_table_guards(rows: list[Route]) -> None:
    known = listed("page_routes.tsv")
    for key, row in page_rows(rows).items():
        if key in known and known[key]["middleware"] not in NO_PERSON:
            assert (Need.ANONYMOUS, "") not in row.access.needs, key


def test_every_service_route_is_known_and_asks_for_an_account(rows: list[Route]) -> None:
    known = listed("service_routes.tsv")
    service = [row for row in rows if row.surface is Surface.SERVICE]
    assert service
    for row in service:
        assert (row.method, shape(row.path)) in known, row.full_path
        assert row.access.needs[0][0] in (Need.SERVICE, Need.AGENT), row.full_path
