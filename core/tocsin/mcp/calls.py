"""One tool call: arguments checked, the page API asked in-process with the caller's credentials, the answer condensed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson

from tocsin.http.access import TOKEN_MODE
from tocsin.http.client import Answer, WsgiClient
from tocsin.http.context import Context
from tocsin.plugin import ApiCall, Tool

MAX_ANSWER = 64 << 20
"""Largest page-API answer in bytes that a tool hands on."""
ATTEMPTS = 3
PAUSE_SECONDS = 0.2
PREVIEW = 200
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


class ToolFailure(Exception):
    """A call that did not do what was asked; the text is for the AI client."""


def call_tool(context: Context, tool: Tool, arguments: Any) -> str:
    """Return the tool's answer as indented JSON; raise :class:`ToolFailure` with what went wrong."""
    check_arguments(tool, arguments)
    try:
        call = tool.call(arguments)
    except ValueError as error:
        raise ToolFailure(str(error)) from None
    found = dispatch(context, call)
    if tool.shape is not None:
        found = tool.shape(found, arguments)
    return orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()


def check_arguments(tool: Tool, arguments: Any) -> None:
    """Raise :class:`ToolFailure` for a missing argument or one of the wrong JSON type; unknown names are ignored."""
    if not isinstance(arguments, dict):
        raise ToolFailure(f"failed to parse input: arguments must be an object, got {type(arguments).__name__}")
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    for name, value in arguments.items():
        wanted = properties.get(name, {}).get("type")
        fits = wanted not in _TYPES or isinstance(value, _TYPES[wanted])
        if value is not None and (not fits or (wanted in ("integer", "number") and isinstance(value, bool))):
            raise ToolFailure(f"failed to parse input: {name} must be of type {wanted}, got {type(value).__name__}")
    for name in tool.input_schema.get("required", ()):
        if arguments.get(name) in (None, "", 0) and not isinstance(arguments.get(name), bool):
            raise ToolFailure(f"{name} is required")


def dispatch(context: Context, call: ApiCall) -> Any:
    """Send the call through the whole application as the caller and return ``dat``; server errors are tried again."""
    client = WsgiClient(_application(context), headers=_credentials(context), environ={TOKEN_MODE: True})
    for attempt in range(1, ATTEMPTS + 1):
        answer = client.request(
            call.method,
            "/api/svc" + call.path,
            query=dict(call.query),
            json=call.body,
            headers={"Accept": "application/json"},
        )
        if answer.status < 500 or attempt == ATTEMPTS:
            break
        time.sleep(PAUSE_SECONDS * attempt)
    return unwrap(call, answer)


def _application(context: Context) -> Any:
    assert context.core.application is not None, "tools are called through a running application"
    return context.core.application


def _credentials(context: Context) -> dict[str, str]:
    """Return the headers that prove the caller, and the language of messages."""
    name = context.core.http.token_auth.header
    token = context.request.get_header(name)
    sent = {"X-Language": context.language, "X-Trace-Id": context.request_id, "User-Agent": "tocsin-mcp"}
    if context.user.via == "token" and token:
        return {**sent, name: token}
    return {**sent, "Authorization": context.request.get_header("Authorization") or ""}


def unwrap(call: ApiCall, answer: Answer) -> Any:
    """Return ``dat`` of an envelope; raise :class:`ToolFailure` for everything else."""
    where = f"{call.method} {call.path}"
    if len(answer.body) > MAX_ANSWER:
        raise ToolFailure(f"{where}: the answer of {len(answer.body)} bytes is over the cap of {MAX_ANSWER}")
    if answer.status >= 400:
        kind = "server" if answer.status >= 500 else "client"
        raise ToolFailure(f"{kind} error: {answer.status} {answer.text[:PREVIEW]} ({where})")
    try:
        body = answer.json()
    except orjson.JSONDecodeError:
        raise ToolFailure(f"{where}: the answer is no JSON: {answer.text[:PREVIEW]}") from None
    if not isinstance(body, dict):
        raise ToolFailure(f"{where}: the answer is no envelope")
    if body.get("err"):
        raise ToolFailure(_refused(call, where, answer, body))
    return body.get("dat")


def _refused(call: ApiCall, where: str, answer: Answer, body: Mapping[str, Any]) -> str:
    parts = [f"{where} -> {answer.status}: {body['err']}"]
    if call.query:
        parts.append(f"query {dict(call.query)}")
    if call.body is not None:
        parts.append(f"body {orjson.dumps(call.body).decode()[:PREVIEW]}")
    if body.get("request_id"):
        parts.append(f"request_id {body['request_id']}")
    return ", ".join(parts)
