"""The route table of the API."""

from __future__ import annotations

import logging
import time

import falcon
from prometheus_client import CollectorRegistry

from tocsin_tsdb.api.admin import AdminResource
from tocsin_tsdb.api.failure import Failure, answer_failure, answer_http_error
from tocsin_tsdb.api.lookups import LabelsResource, LabelValuesResource, MetadataResource, SeriesResource
from tocsin_tsdb.api.options import ApiOptions
from tocsin_tsdb.api.queries import (
    ExemplarsResource,
    FormatQueryResource,
    ParseQueryResource,
    QueryRangeResource,
    QueryResource,
)
from tocsin_tsdb.api.service import Service
from tocsin_tsdb.api.status import EmptyResource, HealthResource, MetricsResource, StatusResource
from tocsin_tsdb.api.write import WriteResource
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.storage.maintenance import Maintenance
from tocsin_tsdb.storage.store import Store

log = logging.getLogger(__name__)


def create_app(
    store: Store, maintenance: Maintenance, engine: Engine, options: ApiOptions, registry: CollectorRegistry
) -> falcon.App[falcon.Request, falcon.Response]:
    """Return the WSGI application; routes are below `options.prefix` + `/api/v1`, metrics and health at the root."""
    service = Service(store, maintenance, engine, options, registry)
    app = falcon.App()
    app.add_error_handler(Exception, _answer_crash)
    app.add_error_handler(falcon.HTTPError, answer_http_error)
    app.add_error_handler(Failure, answer_failure)
    base = f"{options.prefix}/api/v1"
    status, admin = StatusResource(service), AdminResource(service)
    for path, resource in (
        ("query", QueryResource(service)),
        ("query_range", QueryRangeResource(service)),
        ("query_exemplars", ExemplarsResource()),
        ("format_query", FormatQueryResource()),
        ("parse_query", ParseQueryResource()),
        ("series", SeriesResource(service)),
        ("labels", LabelsResource(service)),
        ("label/{name}/values", LabelValuesResource(service)),
        ("metadata", MetadataResource(service)),
        ("write", WriteResource(service, time.monotonic)),
        ("rules", EmptyResource(groups=[])),
        ("alerts", EmptyResource(alerts=[])),
        ("targets", EmptyResource(activeTargets=[], droppedTargets=[])),
    ):
        app.add_route(f"{base}/{path}", resource)
    for what in ("buildinfo", "config", "flags", "runtimeinfo", "tsdb"):
        app.add_route(f"{base}/status/{what}", status, suffix=what)
    for what in ("delete_series", "clean_tombstones", "snapshot"):
        app.add_route(f"{base}/admin/tsdb/{what}", admin, suffix=what)
    app.add_route("/metrics", MetricsResource(service))
    app.add_route("/-/ready", HealthResource())
    return app


def _answer_crash(req: falcon.Request, resp: falcon.Response, error: Exception, params: object) -> None:
    log.error("%s %s failed", req.method, req.path, exc_info=error)
    answer_failure(req, resp, Failure(500, "internal", "internal error; see the log of the store"), params)
