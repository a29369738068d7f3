"""The MCP endpoint: with the official client, and byte by byte where the transport has rules."""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tocsin.app.core import Core
from tocsin.plugin import LOGIN, ApiCall, Body, Context, Feature, Route, Tool, Toolset, hookimpl, invalid, page, perm
from tocsin.plugin.testkit import AppFactory, TestApp, WsgiClient, dat

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def whoami(context: Context) -> Any:
    return {"name": context.user.username, "via": context.user.via}


def add(context: Context) -> Any:
    if context.body["a"] < 0:
        raise invalid("a: got a negative number")
    return context.body["a"] + context.body["b"]


class Sums(Feature):
    name = "sums"

    def routes(self, core: Core) -> Iterable[Route]:
        yield page.get("/whoami", whoami, LOGIN)
        yield page.post("/sum", add, LOGIN, body=Body())
        yield page.get("/guarded", whoami, perm("/roles"))


NUMBERS = {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


class SumTools(Toolset):
    name = "sums"

    def tools(self) -> list[Tool]:
        return [
            Tool("whoami", "Who", "Tells who calls.", lambda _: ApiCall("GET", "/whoami")),
            Tool("add", "Add", "Adds.", lambda a: ApiCall("POST", "/sum", body=dict(a)), NUMBERS),
            Tool("guarded", "Guarded", "Needs a point.", lambda _: ApiCall("GET", "/guarded")),
            Tool("missing", "Missing", "Calls no route.", lambda _: ApiCall("GET", "/no-such")),
            Tool("change", "Change", "Changes.", lambda _: ApiCall("GET", "/whoami"), write=True),
        ]


class OtherTools(Toolset):
    name = "others"

    def tools(self) -> list[Tool]:
        return [Tool("other", "Other", "Another.", lambda _: ApiCall("GET", "/whoami"))]


class Plugin:
    @staticmethod
    @hookimpl
    def tocsin_features() -> list[Feature]:
        return [Sums()]

    @staticmethod
    @hookimpl
    def tocsin_toolsets() -> list[Toolset]:
        return [SumTools(), OtherTools()]


def served(make_app: AppFactory, **a2a: Any) -> TestApp:
    return make_app(plugins=[Plugin()], settings={"HTTP": {"A2A": a2a}})


def token_of(app: TestApp) -> str:
    return str(dat(app.root.post("/api/svc/self/token", {"token_name": "for tools"}))["token"])


def rpc(client: WsgiClient, method: str, params: Any = None, **headers: str) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    answer = client.post("/mcp", message, headers={**ACCEPT, **headers})
    assert answer.status == 200, answer
    return answer.json()


class QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class ThreadedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = False


@pytest.fixture
def address(make_app: AppFactory) -> Iterator[tuple[str, str]]:
    app = served(make_app)
    server = make_server("127.0.0.1", 0, app.client.application, ThreadedServer, QuietHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mcp", token_of(app)
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_official_client_lists_and_calls_tools(address: tuple[str, str]) -> None:
    url, token = address

    async def session() -> tuple[Any, Any, Any, Any]:
        async with (
            httpx2.AsyncClient(headers={"X-User-Token": token}) as http,
            streamable_http_client(url, http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as client,
        ):
            greeting = await client.initialize()
            tools = await client.list_tools()
            called = await client.call_tool("add", {"a": 2, "b": 3})
            failed = await client.call_tool("add", {"a": -2, "b": 3})
            return greeting, tools, called, failed

    greeting, tools, called, failed = asyncio.run(session())
    assert greeting.server_info.name == "svc-mcp-server"
    assert [tool.name for tool in tools.tools] == ["add", "guarded", "missing", "other", "whoami"]
    assert (called.content[0].text, bool(called.is_error)) == ("5", False)
    assert failed.is_error
    assert "a: got a negative number" in failed.content[0].text


def test_calls_run_as_the_caller(make_app: AppFactory) -> None:
    app = served(make_app)
    by_token = app.client.with_headers(X_User_Token=token_of(app))
    assert '"via": "token"' in rpc(by_token, "tools/call", {"name": "whoami"})["result"]["content"][0]["text"]
    assert '"via": "jwt"' in rpc(app.root, "tools/call", {"name": "whoami"})["result"]["content"][0]["text"]
    dat(app.root.post("/api/svc/users", {"username": "gil", "password": "Pass-word-1", "roles": ["Guest"]}))
    guest = app.login("gil", "Pass-word-1")
    refused = rpc(guest, "tools/call", {"name": "guarded"})["result"]
    assert refused["isError"] is True
    assert "forbidden" in refused["content"][0]["text"]


def test_nobody_without_a_credential(make_app: AppFactory) -> None:
    app = served(make_app)
    for client in (app.client, app.client.with_headers(X_User_Token="forged")):
        answer = client.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=ACCEPT)
        assert (answer.status, answer.text) == (401, "unauthorized")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"a": 1}, "b is required"),
        ({"a": "1", "b": 2}, "failed to parse input: a must be of type integer, got str"),
        ({"a": True, "b": 2}, "failed to parse input: a must be of type integer, got bool"),
        ([1], "failed to parse input: arguments must be an object, got list"),
    ],
)
def test_bad_arguments_are_tool_errors(make_app: AppFactory, arguments: Any, text: str) -> None:
    result = rpc(served(make_app).root, "tools/call", {"name": "add", "arguments": arguments})["result"]
    assert result == {"content": [{"type": "text", "text": text}], "isError": True}


def test_an_answer_that_is_no_envelope_is_a_tool_error(make_app: AppFactory) -> None:
    result = rpc(served(make_app).root, "tools/call", {"name": "missing"})["result"]
    assert "the answer is no JSON" in result["content"][0]["text"]


def test_write_tools_exist_only_when_switched_on(make_app: AppFactory) -> None:
    root = served(make_app).root
    assert rpc(root, "tools/call", {"name": "change"})["error"] == {"code": -32602, "message": 'unknown tool "change"'}
    root = served(make_app, MCPEnableWriteTools=True).root
    tools = {tool["name"]: tool for tool in rpc(root, "tools/list")["result"]["tools"]}
    assert tools["change"]["annotations"] == {"destructiveHint": False, "title": "Change"}
    assert tools["add"]["annotations"] == {"readOnlyHint": True, "title": "Add"}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [([" others "], ["other"]), (["nonsense"], []), (["all"], ["add", "guarded", "missing", "other", "whoami"])],
)
def test_toolsets_are_chosen_by_name_and_never_widened(
    make_app: AppFactory, wanted: list[str], names: list[str]
) -> None:
    root = served(make_app, MCPToolsets=wanted).root
    assert [tool["name"] for tool in rpc(root, "tools/list")["result"]["tools"]] == names


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Content-Type": "text/plain"}, b"{}", 415),
        ({"Accept": "application/json"}, b"{}", 400),
        ({"Mcp-Protocol-Version": "1999-01-01"}, b"{}", 400),
        ({"Last-Event-ID": "3"}, b"{}", 400),
        ({}, b" ", 400),
        ({}, b"{", 400),
        ({}, b"[]x", 400),
        ({}, b"7", 400),
        ({}, b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', 400),
        ({}, b'{"jsonrpc": "2.0", "method": "ping"}', 400),
        ({}, b'{"jsonrpc": "2.0", "id": 1, "method": "notifications/initialized"}', 400),
        ({"Mcp-Protocol-Version": "2025-06-18"}, b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', 400),
    ],
)
def test_what_is_not_mcp_is_refused(make_app: AppFactory, headers: dict[str, str], body: bytes, status: int) -> None:
    answer = served(make_app).root.request("POST", "/mcp", body=body, headers={**ACCEPT, **headers})
    assert answer.status == status, answer.text


def test_framing(make_app: AppFactory) -> None:
    root = served(make_app).root
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (root.post("/mcp", note, headers=ACCEPT).status, root.post("/mcp", note, headers=ACCEPT).body) == (202, b"")
    streamed = root.post(
        "/mcp",
        {"jsonrpc": "2.0", "id": "x", "method": "ping"},
        headers={**ACCEPT, "Accept": "text/event-stream, application/json"},
    )
    assert streamed.headers["content-type"] == "text/event-stream"
    assert streamed.body == b'event: message\ndata: {"jsonrpc":"2.0","id":"x","result":{}}\n\n'
    batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in (1, 2)]
    assert len(root.post("/mcp", batch, headers=ACCEPT).json()) == 2
    assert "batch of 52 messages, expected at most 50" in root.post("/mcp", batch * 26, headers=ACCEPT).text
    for method in ("GET", "PUT", "PATCH", "HEAD", "OPTIONS"):
        answer = root.request(method, "/mcp", headers=ACCEPT)
        assert (answer.status, answer.headers["allow"]) == (405, "POST"), method
    assert root.delete("/mcp").status == 400
    assert root.delete("/mcp", headers={"Mcp-Session-Id": "x"}).status == 204


def test_initialize_echoes_known_versions(make_app: AppFactory) -> None:
    root = served(make_app).root
    for asked, given in (("2025-06-18", "2025-06-18"), ("2020-01-01", "2025-11-25")):
        params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        assert rpc(root, "initialize", params)["result"]["protocolVersion"] == given
    assert rpc(root, "initialize")["error"]["code"] == -32602
    assert rpc(root, "no/such")["error"]["code"] == -32601
    assert rpc(root, "resources/read", {"uri": "x"})["error"]["code"] == -32002


def test_it_can_be_switched_off(make_app: AppFactory) -> None:
    answer = served(make_app, Disable=True).root.post("/mcp", {}, headers=ACCEPT)
    assert answer.headers["content-type"].startswith("text/html")
