"""The metric tools: arguments become page-API calls, answers are condensed."""

from collections.abc import Mapping
from typing import Any

import pytest

import tocsin_toolset_metrics as metrics
from tocsin.plugin.testkit import AppFactory, WsgiClient
from tocsin.plugin.testkit.toolset import ToolsetContract

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class TestContract(ToolsetContract):
    plugin = "tocsin_toolset_metrics"

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            "query_instant": {"ds_id": 1, "query": "up", "time": 1700000000},
            "query_range": {"ds_id": 1, "query": "up", "start": 1700000000, "end": 1700003600, "step": 15},
        }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"start": 100, "end": 1100}, (1, 1000, False)),
        ({"start": 100, "end": 100 + 86400}, (87, 1000, False)),
        ({"start": 100, "end": 100 + 86400, "step": 15}, (87, 1000, True)),
        ({"start": 100, "end": 1100, "step": 10}, (10, 1000, False)),
        ({"start": 100, "end": 1100, "step": 1, "max_points": 100}, (10, 100, True)),
        ({"start": 100, "end": 1100, "step": -5, "max_points": -1}, (1, 1000, False)),
    ],
)
def test_the_step_is_raised_when_there_would_be_too_many_points(
    arguments: dict[str, int], expected: tuple[int, int, bool]
) -> None:
    assert metrics.effective_step(arguments) == expected


def test_calls_name_the_datasource_and_the_query() -> None:
    call = metrics.instant_call({"ds_id": 3, "query": "up", "time": 1700000000})
    assert (call.method, call.path) == ("POST", "/query-instant-batch")
    assert call.body == {"datasource_id": 3, "queries": [{"time": 1700000000, "query": "up"}]}
    assert metrics.instant_call({"ds_id": 3, "query": "up"}).body["queries"][0]["time"] > 1700000000
    call = metrics.range_call({"ds_id": 3, "query": "up", "start": 100, "end": 1100, "step": 10})
    assert call.body["queries"] == [{"start": 100, "end": 1100, "step": 10, "max_points": 1000, "query": "up"}]


def test_the_page_api_is_told_the_same_bound_so_that_it_keeps_the_step() -> None:
    call = metrics.range_call({"ds_id": 3, "query": "up", "start": 1, "end": 5001, "step": 1, "max_points": 5000})
    assert [(query["step"], query["max_points"]) for query in call.body["queries"]] == [(1, 5000)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"ds_id": -1, "query": "up", "start": 1, "end": 2}, "ds_id must be positive"),
        ({"ds_id": 1, "query": " ", "start": 1, "end": 2}, "query must not be empty"),
        ({"ds_id": 1, "query": "up", "start": 5, "end": 5}, "end must be after start"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        metrics.range_call(arguments)


def test_answers_are_condensed() -> None:
    arguments = {"start": 100, "end": 1100, "step": 1, "max_points": 100}
    assert metrics.range_answer([["series"]], arguments) == {
        "effective_step": 10,
        "max_points": 100,
        "truncated": True,
        "data": ["series"],
    }
    assert metrics.first([]) is None


def listed(client: WsgiClient) -> list[str]:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return [tool["name"] for tool in client.post("/mcp", message, headers=ACCEPT).json()["result"]["tools"]]


def test_the_tools_are_served(make_app: AppFactory) -> None:
    assert listed(make_app(plugins=[metrics]).root) == ["query_instant", "query_range"]
    chosen = make_app(plugins=[metrics], settings={"HTTP": {"A2A": {"MCPToolsets": ["others"]}}})
    assert listed(chosen.root) == []
