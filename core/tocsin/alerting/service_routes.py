"""The rule and engine endpoints of the service API."""

from __future__ import annotations

from typing import Any

from tocsin.alerting.form import Rule
from tocsin.alerting.membership import alive, note_beat
from tocsin.alerting.routes import listed_with_sources
from tocsin.alerting.rules import AlertRules
from tocsin.alerting.schemas import BeatSchema, ServiceRuleSchema
from tocsin.http.schemas import IdsSchema
from tocsin.plugin import SERVICE, Body, Context, Route, invalid, service


def service_rows() -> list[Route]:
    """Return the rows of the service API."""
    rule = Body(ServiceRuleSchema, name="models.AlertRule")
    rules = Body(ServiceRuleSchema, many=True, name="models.AlertRule")
    return [
        service.get("/alert-rules", list_rules, SERVICE),
        service.post("/alert-rules", add_rules, SERVICE, body=rules),
        service.post("/alert-rule-add", add_rule, SERVICE, body=rule),
        service.get("/alert-rule/:arid", get_rule, SERVICE),
        service.put("/alert-rule/:arid", put_rule, SERVICE, body=rule),
        service.delete("/alert-rules", delete_rules, SERVICE, body=Body(IdsSchema, name="models.IdsForm")),
        service.post("/server-heartbeat", heartbeat, SERVICE, body=Body(BeatSchema)),
        service.get("/servers-active", active_servers, SERVICE),
    ]


def list_rules(ctx: Context) -> Any:
    """Rules of all groups, narrowed by the query parameters."""
    found = [rule for rule in ctx.core.get(AlertRules).in_groups(None) if _wanted(ctx, rule)]
    return listed_with_sources(ctx, found)


def _wanted(ctx: Context, rule: Rule) -> bool:
    disabled, cates, prods = ctx.query_int("disabled", -1), ctx.query("cate", "$all"), ctx.query("prods")
    tags, algorithm = " ".join(rule["append_tags"]), ctx.query("algorithm")
    return (
        disabled in (-1, rule["disabled"])
        and (cates == "$all" or rule["cate"] in cates.split(","))
        and (not prods or rule["prod"] in prods.split(","))
        and (not algorithm or rule["algorithm"] == algorithm)
        and ctx.query("cluster") in rule["cluster"]
        and all(word in tags for word in ctx.query("query").split())
    )


def add_rules(ctx: Context) -> Any:
    """Create rules, each in the group that it names; the answer says per name what went wrong."""
    if not ctx.body:
        raise invalid("input json is empty")
    rules, outcome = ctx.core.get(AlertRules), {}
    for item in ctx.body:
        outcome.update(rules.create(item["group_id"], [item], item["create_by"] or ctx.operator))
    return outcome


def add_rule(ctx: Context) -> Any:
    """Create one rule and return its id."""
    rules, given = ctx.core.get(AlertRules), ctx.body
    (error,) = rules.create(given["group_id"], [given], given["create_by"] or ctx.operator).values()
    if error:
        raise invalid(error)
    name = given["name"].strip()
    return next(rule["id"] for rule in rules.in_groups([given["group_id"]]) if rule["name"] == name)


def get_rule(ctx: Context) -> Any:
    """One rule with the datasources that it selects."""
    return listed_with_sources(ctx, [ctx.core.get(AlertRules).get(ctx.param_int("arid"))])[0]


def put_rule(ctx: Context) -> None:
    """Overwrite a rule."""
    rules = ctx.core.get(AlertRules)
    rules.replace(rules.get(ctx.param_int("arid")), ctx.body, ctx.body["update_by"] or ctx.operator)


def delete_rules(ctx: Context) -> None:
    """Delete rules of any group; their active events are closed."""
    if not ctx.body["ids"]:
        raise invalid("ids empty")
    rules = ctx.core.get(AlertRules)
    for rule in rules.some(ctx.body["ids"]):
        rules.delete(rule["group_id"], [rule["id"]])


def heartbeat(ctx: Context) -> None:
    """Take note that an engine elsewhere is alive."""
    given = ctx.body
    note_beat(given["instance"], given["engine_cluster"], given["datasource_id"], int(ctx.core.clock()))


def active_servers(ctx: Context) -> Any:
    """The live engines of a cluster, or of a datasource."""
    name, source = ctx.query("engine_name"), ctx.query_int("dsid", 0)
    if not name and not source:
        raise invalid("dsid is required")
    rows = alive(int(ctx.core.clock()))
    return [row["instance"] for row in rows if (row["cluster"] == name if name else row["datasource_id"] == source)]
