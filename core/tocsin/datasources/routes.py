"""Endpoints of datasources and of queries to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tocsin.datasources import schemas
from tocsin.datasources.catalog import Catalog
from tocsin.datasources.pool import DatasourcePool
from tocsin.datasources.proxy import ProxyRequest, Refused, pass_through
from tocsin.datasources.queries import as_api_error, run_instant, run_range
from tocsin.datasources.saving import Saver
from tocsin.datasources.settings import AnonymousAccess, DatasourceSettings
from tocsin.datasources.types import brief, listed_types
from tocsin.http.app import METHODS
from tocsin.http.context import NULL, Null
from tocsin.plugin import (
    ADMIN,
    ANONYMOUS,
    LOGIN,
    SERVICE,
    Body,
    Context,
    DatasourceType,
    PluginCallError,
    Raw,
    Route,
    page,
    service,
    text,
)

if TYPE_CHECKING:
    from tocsin.app.core import Core


def page_rows(core: Core) -> Iterable[Route]:
    """Return the rows of the page API; some need no login when the installation says so."""
    query = ANONYMOUS if core.settings[AnonymousAccess].prom_querier else LOGIN
    listing = Body(schemas.ListSchema, optional=True)
    yield page.post("/datasource/list", list_all, LOGIN, data_and_error=True, body=listing)
    yield page.post("/datasource/plugin/list", list_types, LOGIN, data_and_error=True)
    yield page.post(
        "/datasource/upsert",
        upsert,
        ADMIN,
        data_and_error=True,
        body=Body(schemas.UpsertSchema, name="models.Datasource"),
    )
    yield page.post("/datasource/desc", describe, ADMIN, data_and_error=True, body=Body(schemas.DescSchema))
    yield page.post(
        "/datasource/status/update", set_status, ADMIN, data_and_error=True, body=Body(schemas.StatusSchema)
    )
    yield page.delete(
        "/datasource/", delete, ADMIN, data_and_error=True, body=Body(None, many=True, name="int64", item=int)
    )
    yield page.get("/datasource/brief", list_brief, query)
    yield page.post("/datasource/query", select, query, body=Body(schemas.SelectSchema))
    yield page.delete("/datasource/series", delete_series, ADMIN, body=Body(schemas.DeleteSeriesSchema))
    yield page.post("/query-range-batch", query_range, query, body=Body(schemas.RangeBatchSchema))
    yield page.post("/query-instant-batch", query_instant, query, body=Body(schemas.InstantBatchSchema))
    for method in METHODS:
        yield Route(method, "/proxy/:id/*url", proxy, query)


def service_rows() -> Iterable[Route]:
    """Return the rows of the service API."""
    yield service.get("/datasources", list_for_service, SERVICE)
    yield service.get("/datasource-ids", ids_of_cluster, SERVICE)
    yield service.get("/datasource-rsa-config", rsa_config, SERVICE)


def types_of(context: Context) -> dict[str, DatasourceType]:
    """Return the installed datasource types."""
    return context.core.plugins.of(DatasourceType)


def list_all(context: Context) -> list[Any]:
    """List datasources, with secrets for administrators only."""
    wanted = context.body or {}
    found = context.core.get(Catalog).listed(**wanted)
    return [record.full() if context.user.is_admin else record.redacted() for record in found]


def list_types(context: Context) -> list[Any]:
    """List the installed datasource types."""
    return listed_types(types_of(context))


def list_brief(context: Context) -> list[Any]:
    """List datasources without anything that is secret."""
    types = types_of(context)
    return [brief(record, types) for record in context.core.get(Catalog).listed()]


def upsert(context: Context) -> dict[str, Any]:
    """Create or change a datasource after checking that it answers."""
    datasource_id, verification = context.core.get(Saver).upsert(context.body, context.operator)
    return {"id": datasource_id, "verification": asdict(verification)}


def describe(context: Context) -> dict[str, Any]:
    """Return one datasource with its secrets."""
    return context.core.get(Catalog).find(context.body["id"]).full()


def set_status(context: Context) -> dict[str, Any]:
    """Enable or disable one datasource."""
    body: dict[str, Any] = context.body
    context.core.get(Catalog).set_status(body["id"], body["status"], context.operator)
    return body


def delete(context: Context) -> dict[str, Any]:
    """Delete datasources by id."""
    context.core.get(Catalog).delete(context.body)
    return {}


def select(context: Context) -> list[Any]:
    """Resolve the datasource selectors of a rule."""
    found = context.core.get(Catalog).select(context.body["datasource_cate"], context.body["datasource_queries"])
    return [{"id": record.id, "name": record.name} for record in found]


def delete_series(context: Context) -> None:
    """Delete series of a datasource that can do that."""
    body = context.body
    try:
        context.core.get(DatasourcePool).delete_series(body["datasource_id"], body["match"], body["start"], body["end"])
    except PluginCallError as error:
        raise as_api_error(error) from None


def query_range(context: Context) -> list[Any]:
    """Answer range queries; the envelope says whether a step was raised to keep to the number of points."""
    body = context.body
    limit = body["max_points"] or context.core.settings[DatasourceSettings].max_points
    queries = [{**query, "step": query["step"] or body["step"]} for query in body["queries"]]
    found, steps, truncated = run_range(context.core.get(DatasourcePool), body["datasource_id"], queries, limit)
    context.beside.update(truncated=truncated, steps=steps)
    return found


def query_instant(context: Context) -> list[Any]:
    """Answer instant queries."""
    body = context.body
    return run_instant(context.core.get(DatasourcePool), body["datasource_id"], body["queries"])


def proxy(context: Context) -> Raw:
    """Pass a request through to a datasource that speaks HTTP."""
    settings = context.core.settings[DatasourceSettings]
    try:
        request = ProxyRequest.of(context, limit=float(settings.proxy_timeout))
    except Refused as refused:
        return text(str(refused), refused.status)
    return pass_through(context.core.get(DatasourcePool), request)


def list_for_service(context: Context) -> list[Any]:
    """List datasources with their secrets, for other processes of the installation."""
    return [record.full() for record in context.core.get(Catalog).listed(plugin_type=context.query("typ"))]


def ids_of_cluster(context: Context) -> list[int] | Null:
    """Return the ids of the datasources that belong to an engine cluster."""
    name = context.query("name")
    records = context.core.get(Catalog).records().values()
    return [record.id for record in records if record.cluster_name == name] or NULL


def rsa_config(context: Context) -> dict[str, Any]:
    """Say that secrets travel as they are: the transport is to be protected by TLS."""
    return {"open_rsa": False}
