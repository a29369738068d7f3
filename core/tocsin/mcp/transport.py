"""Streamable HTTP transport of MCP, stateless: what may be posted to ``/mcp`` and how answers are framed."""

from __future__ import annotations

import base64
import os
from typing import Any

import orjson

from tocsin.http.context import Context, Raw, text
from tocsin.http.errors import ApiError

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
ASSUMED_VERSION = "2025-03-26"
BATCH_UNTIL = "2025-06-18"
"""Batches of messages are part of the protocol only before this version."""
MOST_MESSAGES = 50
"""Messages of one batch: each tool call is a request of its own that no other limit counts."""

Message = dict[str, Any]


def refuse(message: str, status: int = 400) -> ApiError:
    """Return the plain-text refusal of a request that is not MCP."""
    return ApiError(message, "invalid", status=status)


def check_headers(context: Context) -> None:
    """Raise for headers that no MCP client sends."""
    request = context.request
    if (request.get_header("Content-Type") or "").partition(";")[0].strip().lower() != "application/json":
        raise refuse("Content-Type must be 'application/json'", 415)
    if not (accepts(context, "application/json") and accepts(context, "text/event-stream")):
        raise refuse("Accept must contain both 'application/json' and 'text/event-stream'")
    version = request.get_header("Mcp-Protocol-Version")
    if version and version not in VERSIONS:
        raise refuse(f"Mcp-Protocol-Version: got {version[:40]!r}, expected one of {', '.join(VERSIONS)}")
    if request.get_header("Last-Event-ID"):
        raise refuse("Last-Event-ID: streams cannot be resumed, this server keeps no session")


def accepts(context: Context, kind: str) -> bool:
    """Return whether the client accepts a media type."""
    wanted = {part.partition(";")[0].strip() for part in (context.request.get_header("Accept") or "").split(",")}
    return bool(wanted & {kind, kind.partition("/")[0] + "/*", "*/*"})


def read_messages(context: Context) -> list[Message]:
    """Return the JSON-RPC messages of the body; raise for a body that is not JSON-RPC."""
    data = context.raw_body
    if not data.strip():
        raise refuse("POST requires a non-empty body")
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise refuse(f"malformed payload: {error}") from None
    version = context.request.get_header("Mcp-Protocol-Version") or ASSUMED_VERSION
    if isinstance(body, list) and version >= BATCH_UNTIL:
        raise refuse(f"malformed payload: batches are not part of protocol version {version}")
    messages = body if isinstance(body, list) else [body]
    if len(messages) > MOST_MESSAGES:
        raise refuse(f"malformed payload: got a batch of {len(messages)} messages, expected at most {MOST_MESSAGES}")
    for message in messages:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise refuse('malformed payload: expected an object with "jsonrpc": "2.0"')
    return messages


def frame(context: Context, answers: list[Message], *, initialized: bool) -> Raw:
    """Return the HTTP answer: none as 202, else plain JSON when the client names it first, else server-sent events."""
    if not answers:
        return Raw(b"", status=202)
    headers = {"Cache-Control": "no-cache, no-transform"}
    if initialized:
        headers["Mcp-Session-Id"] = base64.b32encode(os.urandom(16)).decode().rstrip("=")
    first = (context.request.get_header("Accept") or "").partition(",")[0].strip()
    if first.startswith("application/json"):
        return Raw(orjson.dumps(answers[0] if len(answers) == 1 else answers), "application/json", headers=headers)
    events = b"".join(b"event: message\ndata: " + orjson.dumps(answer) + b"\n\n" for answer in answers)
    return Raw(events, "text/event-stream", headers=headers)


def other_method(context: Context) -> Raw:
    """Answer a method other than POST: there is no stream to listen to and no session to end."""
    request = context.request
    if request.method == "GET" and not accepts(context, "text/event-stream"):
        return text("Accept must contain 'text/event-stream' for GET requests", 400)
    if request.method == "DELETE":
        if request.get_header("Mcp-Session-Id"):
            return Raw(b"", status=204)
        return text("DELETE requires an Mcp-Session-Id header", 400)
    return Raw(b"method not allowed", "text/plain; charset=utf-8", 405, {"Allow": "POST"})
