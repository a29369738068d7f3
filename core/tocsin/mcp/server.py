"""The JSON-RPC methods of MCP and the registry of tools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tocsin.http.context import Context, Raw
from tocsin.mcp import transport
from tocsin.mcp.calls import ToolFailure, call_tool
from tocsin.mcp.transport import VERSIONS, Message
from tocsin.plugin import Tool, Toolset

log = logging.getLogger(__name__)

INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32600, -32601, -32602, -32603
RESOURCE_NOT_FOUND = -32002
INSTRUCTIONS = (
    "A monitoring and alerting server. Its tools read and, where that is switched on, change alert rules, active and "
    "historical alerts, mutes, notification rules, subscriptions, users and teams, targets, data sources, business groups "
    "and event pipelines, and query metrics and logs. Every call has exactly the permissions of the token's owner."
)
NOTIFICATIONS = frozenset(
    (
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/roots/list_changed",
    )
)


class RpcError(Exception):
    """An error answer of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def select_tools(toolsets: Mapping[str, Toolset], wanted: Iterable[str], *, write: bool) -> dict[str, Tool]:
    """Return the tools to serve by name; an unknown toolset name is logged and ignored, it never widens the choice."""
    names = [name.strip() for name in wanted if name.strip()]
    for name in names:
        if name != "all" and name not in toolsets:
            log.warning("HTTP.A2A.MCPToolsets: %r is not an installed toolset and ignored", name)
    everything = not names or "all" in names
    chosen = [toolset for name, toolset in toolsets.items() if everything or name in names]
    tools = [tool for toolset in chosen for tool in toolset.tools() if write or not tool.write]
    return {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}


class McpServer:
    """Answers MCP messages; stateless, used by many threads at once."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = dict(tools)
        self._methods: dict[str, Callable[[Context, Mapping[str, Any]], Any]] = {
            "initialize": self._initialize,
            "ping": lambda _context, _params: {},
            "tools/list": self._list,
            "tools/call": self._call,
            "prompts/list": lambda _context, _params: {"prompts": []},
            "resources/list": lambda _context, _params: {"resources": []},
            "resources/templates/list": lambda _context, _params: {"resourceTemplates": []},
            "logging/setLevel": lambda _context, _params: {},
            "prompts/get": self._no_prompt,
            "resources/read": self._no_resource,
        }

    def post(self, context: Context) -> Raw:
        """Handle one POST to ``/mcp``."""
        transport.check_headers(context)
        messages = transport.read_messages(context)
        answers = [answer for message in messages if (answer := self._answer(context, message)) is not None]
        return transport.frame(context, answers, initialized=any(m.get("method") == "initialize" for m in messages))

    def _answer(self, context: Context, message: Message) -> Message | None:
        method, identity = message.get("method"), message.get("id")
        if method is None and ("result" in message or "error" in message):
            return None
        if not isinstance(method, str):
            raise transport.refuse("malformed payload: method must be a text")
        if method in NOTIFICATIONS:
            if identity is not None:
                raise transport.refuse(f"{method} is a notification and must not have an id")
            return None
        if identity is None or isinstance(identity, bool) or not isinstance(identity, str | int):
            raise transport.refuse(f"{method} is a request and must have an id, a text or an integer")
        head = {"jsonrpc": "2.0", "id": identity}
        try:
            return {**head, "result": self._dispatch(context, method, message.get("params", {}))}
        except RpcError as error:
            return {**head, "error": {"code": error.code, "message": error.message}}
        except Exception:
            log.exception("MCP method %s failed, request_id=%s", method, context.request_id)
            return {**head, "error": {"code": INTERNAL_ERROR, "message": "internal error"}}

    def _dispatch(self, context: Context, method: str, params: Any) -> Any:
        handler = self._methods.get(method)
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, f"method not found: {method[:80]!r}")
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "params must be an object")
        return handler(context, params)

    def _initialize(self, _: Context, params: Mapping[str, Any]) -> Any:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str) or not isinstance(params.get("clientInfo"), dict):
            raise RpcError(INVALID_PARAMS, "initialize needs protocolVersion and clientInfo")
        tools = {"tools": {"listChanged": True}} if self._tools else {}
        return {
            "capabilities": {"logging": {}, **tools},
            "instructions": INSTRUCTIONS,
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "serverInfo": {"name": "svc-mcp-server", "version": "1.0.0"},
        }

    def _list(self, _: Context, params: Mapping[str, Any]) -> Any:
        if params.get("cursor"):
            raise RpcError(INVALID_PARAMS, "cursor: there is one page only")
        return {"tools": [describe(tool) for tool in self._tools.values()]}

    def _call(self, context: Context, params: Mapping[str, Any]) -> Any:
        tool = self._tools.get(str(params.get("name")))
        if tool is None:
            raise RpcError(INVALID_PARAMS, f'unknown tool "{str(params.get("name"))[:80]}"')
        try:
            content = call_tool(context, tool, params.get("arguments") or {})
        except ToolFailure as failure:
            return {"content": [{"type": "text", "text": str(failure)}], "isError": True}
        return {"content": [{"type": "text", "text": content}]}

    def _no_prompt(self, _: Context, params: Mapping[str, Any]) -> Any:
        raise RpcError(INVALID_PARAMS, f'unknown prompt "{str(params.get("name"))[:80]}"')

    def _no_resource(self, _: Context, params: Mapping[str, Any]) -> Any:
        raise RpcError(RESOURCE_NOT_FOUND, "Resource not found")


def describe(tool: Tool) -> dict[str, Any]:
    """Return a tool as ``tools/list`` shows it."""
    hint = {"destructiveHint": False} if tool.write else {"readOnlyHint": True}
    return {
        "name": tool.name,
        "description": tool.description,
        "annotations": {**hint, "title": tool.title},
        "inputSchema": dict(tool.input_schema),
    }
