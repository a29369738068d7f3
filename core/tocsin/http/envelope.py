"""The one place that turns what a handler returned or raised into an HTTP answer."""

from __future__ import annotations

import gzip
import logging
from typing import TYPE_CHECKING, Any

import falcon
import orjson

from tocsin.http.context import NULL, Context, Raw
from tocsin.http.errors import REASON_OF, ApiError
from tocsin.http.i18n import translate
from tocsin.http.routes import Surface

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logging.getLogger(__name__)

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
COMPRESS_FROM = 4096
"""Bodies of this many bytes or more are compressed for clients that accept gzip."""
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def answer(context: Context, response: falcon.Response, result: Any) -> None:
    """Write a handler's result: a :class:`Raw` as it is, anything else in the envelope; ``None`` has no ``dat``."""
    for name, value in context.response_headers.items():
        response.set_header(name, value)
    if isinstance(result, Raw):
        _raw(response, result)
        return
    body: dict[str, Any] = {**context.beside, "err": "", "request_id": context.request_id}
    if result is not None:
        body = {"dat": result, **body}
    if _twofold(context):
        body |= {"data": {} if result is None else result, "error": ""}
    _bytes(context, response, orjson.dumps(body, default=_plain, option=_OPTIONS))


def failure(context: Context, response: falcon.Response, error: ApiError) -> None:
    """Write an error the way its surface wants it.

    Page and service API: status 200 and the failure envelope, the reason in ``X-Error-Code``.  Requests through a path
    alias, and everything outside the two APIs: the error's own status and its text (an error whose own status is 200
    keeps the envelope).  A failed basic auth is always 401.
    """
    message = translate(error.message, context.language)
    response.set_header("X-Error-Code", REASON_OF.get(error.code, error.code))
    for name, value in error.headers.items():
        response.set_header(name, value)
    enveloped = context.route.surface is not Surface.ROOT and (not context.aliased or error.status == 200)
    if enveloped and "WWW-Authenticate" not in error.headers:
        body: dict[str, Any] = {"err": message, "request_id": context.request_id}
        _bytes(context, response, orjson.dumps(body))
        return
    response.status = error.status
    if _twofold(context):
        body = {"err": message, "request_id": context.request_id, "error": {"message": message}}
        _bytes(context, response, orjson.dumps(body))
        return
    response.content_type = TEXT
    response.data = message.encode()


def _twofold(context: Context) -> bool:
    return context.aliased and context.route.data_and_error


def crash(context: Context, response: falcon.Response) -> None:
    """Answer for an exception nobody expected: the trace goes to the log, the client learns the request id."""
    log.exception("%s %s failed, request_id=%s", context.route.method, context.route.full_path, context.request_id)
    failure(context, response, ApiError("internal error", "internal"))


def _raw(response: falcon.Response, raw: Raw) -> None:
    response.status = raw.status
    response.content_type = raw.content_type
    for name, value in raw.headers.items():
        response.set_header(name, value)
    if isinstance(raw.body, bytes):
        response.data = raw.body
    else:
        stream: Iterable[bytes] = raw.body
        response.stream = stream


def _bytes(context: Context, response: falcon.Response, data: bytes) -> None:
    response.content_type = JSON
    if len(data) >= COMPRESS_FROM and "gzip" in (context.request.get_header("Accept-Encoding") or ""):
        data = gzip.compress(data, 1, mtime=0)
        response.set_header("Content-Encoding", "gzip")
        response.append_header("Vary", "Accept-Encoding")
    response.data = data


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if value is NULL:
        return None
    raise TypeError(f"cannot render {type(value).__name__}")
