"""The Falcon application of a process, built from its route table."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import falcon

from tocsin.http import envelope
from tocsin.http.access import ANONYMOUS
from tocsin.http.chain import guards_of
from tocsin.http.context import Context
from tocsin.http.errors import ApiError
from tocsin.http.metrics import RequestMetrics
from tocsin.http.routes import Handler, Route, RouteTable, Surface

if TYPE_CHECKING:
    from tocsin.app.core import Core

access_log = logging.getLogger("tocsin.access")
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
SECRETS = re.compile(r"((?:^|&)(?:__token|api_key)=)[^&]*")
SECRETS_OF_SENDERS = re.compile(r"((?:^|&)(?:__token|api_key|p)=)[^&]*")
"""Query parameters that prove who somebody is; on the page API ``p`` is the page."""
TRACE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Responder = Callable[..., None]


class Resource:
    """The responders of one path; HEAD is GET without a body, other methods without a row are like an unknown path."""


class Application:
    """A WSGI application: path aliases and request ids before Falcon, the route table inside it.

    ``fallback`` answers what no row matches: the single-page entry on the center, 404 elsewhere.
    """

    def __init__(self, core: Core, table: RouteTable, fallback: Handler) -> None:
        self._core = core
        self._metrics = RequestMetrics(core.metrics)
        self._fallback = Route("GET", "/*rest", fallback, ANONYMOUS, Surface.ROOT)
        self._aliases = core.http.path_aliases
        self._falcon: falcon.App[falcon.Request, falcon.Response] = falcon.App()
        self._falcon.req_options.strip_url_path_trailing_slash = True
        self._falcon.req_options.auto_parse_qs_csv = False
        self._falcon.add_error_handler(falcon.HTTPError, self._http_error)
        for path, rows in _by_path(table).items():
            self._falcon.add_route(path, self._resource(rows))
        self._falcon.add_sink(self._responder(self._fallback), "/")

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one request (the WSGI protocol)."""
        given = environ.get("HTTP_X_TRACE_ID", "")
        environ["tocsin.request_id"] = given if TRACE_ID.fullmatch(given) else str(uuid.uuid4())
        for alias, ours in self._aliases.items():
            path = environ["PATH_INFO"]
            if path == alias or path.startswith(alias + "/"):
                environ["PATH_INFO"] = ours + path[len(alias) :]
                environ["tocsin.alias"] = alias
                break
        return self._falcon(environ, start_response)

    def _resource(self, rows: dict[str, Route]) -> Resource:
        resource = Resource()
        unknown = self._responder(self._fallback)
        for method in METHODS:
            row = rows.get(method) or (rows.get("GET") if method == "HEAD" else None)
            setattr(resource, f"on_{method.lower()}", self._responder(row) if row else unknown)
        return resource

    def _responder(self, route: Route) -> Responder:
        guards, handler, names = guards_of(route), route.handler, route.params
        core, observe = self._core, self._metrics.observe

        def respond(request: falcon.Request, response: falcon.Response, **values: str) -> None:
            started = time.perf_counter()
            params = {name: values.get(f"p{i}", "") for i, name in enumerate(names)}
            context = Context(core, request, route, params)
            response.set_header("X-Trace-Id", context.request_id)
            try:
                for guard in guards:
                    guard(context)
                envelope.answer(context, response, handler(context))
            except ApiError as error:
                envelope.failure(context, response, error)
            except Exception:
                envelope.crash(context, response)
            finally:
                core.release()
                seconds = time.perf_counter() - started
                observe(route, response.status_code, seconds)
                if core.access_log_enabled():
                    _log_access(context, response, seconds)

        return respond

    def _http_error(
        self, request: falcon.Request, response: falcon.Response, error: falcon.HTTPError, params: dict[str, Any]
    ) -> None:
        context = Context(self._core, request, self._fallback, {})
        response.set_header("X-Trace-Id", context.request_id)
        envelope.failure(context, response, ApiError(error.title or "bad request", "invalid", status=error.status_code))


def _by_path(table: RouteTable) -> dict[str, dict[str, Route]]:
    """Group rows by Falcon path; parameters get neutral names because Falcon wants one name per position."""
    paths: dict[str, dict[str, Route]] = defaultdict(dict)
    for route in table:
        parts = []
        index = 0
        for part in route.full_path.split("/"):
            if part[:1] in (":", "*"):
                parts.append(f"{{p{index}}}" if part[0] == ":" else f"{{p{index}:path}}")
                index += 1
            else:
                parts.append(part)
        path = "/".join(parts)
        paths[path.rstrip("/") or "/"][route.method] = route
        if parts[-1].endswith(":path}"):
            # The remainder of a path may be empty.
            paths["/".join(parts[:-1])][route.method] = route
    return paths


def _log_access(context: Context, response: falcon.Response, seconds: float) -> None:
    request = context.request
    secrets = SECRETS_OF_SENDERS if context.route.surface is Surface.ROOT else SECRETS
    query = secrets.sub(r"\1***", request.query_string)
    access_log.info(
        "trace_id=%s %d %.1fms %s %s %s%s",
        context.request_id,
        response.status_code,
        seconds * 1000,
        context.remote,
        request.method,
        quote(request.path, safe="/:@!$&'()*+,;=~"),  # a decoded line break would make a second entry
        query and f"?{query}",
    )
