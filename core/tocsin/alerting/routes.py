"""The endpoints of alert rules and alert engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tocsin.access.directory import Directory
from tocsin.alerting import clone, edits, prom_import, relabel
from tocsin.alerting.form import Rule, shown
from tocsin.alerting.membership import alive
from tocsin.alerting.memory import faults_of
from tocsin.alerting.roster import selected_by
from tocsin.alerting.rules import AlertRules
from tocsin.alerting.schemas import (
    AlertRuleSchema,
    CloneToGroupsSchema,
    CloneToHostsSchema,
    FieldsSchema,
    PromImportSchema,
    RelabelTestSchema,
    TryRunSchema,
)
from tocsin.alerting.tryrun import check_in_effect
from tocsin.datasources.catalog import Catalog
from tocsin.events.audience import own_groups, team_ids, team_objects, visible_groups
from tocsin.events.search import active_per_rule, one_historical
from tocsin.http.context import NULL
from tocsin.http.schemas import IdsSchema, checked
from tocsin.plugin import LOGIN, Body, Context, Route, group_read, group_write, invalid, page, perm

VIEW, ADD, PUT, DELETE = (
    perm(point) for point in ("/alert-rules", "/alert-rules/add", "/alert-rules/put", "/alert-rules/del")
)
MONTH = 30 * 86_400
TIMEZONES = (
    *("Local", "UTC", "Asia/Shanghai", "Asia/Tokyo", "Asia/Dubai", "Asia/Kolkata", "Asia/Bangkok", "Europe/London"),
    *("Europe/Paris", "Europe/Moscow", "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles"),
    *("America/Sao_Paulo", "Australia/Sydney", "Pacific/Auckland"),
)


def routes() -> list[Route]:
    """Return the rows of the rule and engine endpoints."""
    rule = Body(AlertRuleSchema, name="models.AlertRule")
    rules = Body(AlertRuleSchema, many=True, name="models.AlertRule")
    ids = Body(IdsSchema, name="models.IdsForm")
    group = "/busi-group/:id/alert-rules"
    return [
        page.get("/busi-groups/alert-rules", list_of_groups, VIEW),
        page.get(group, list_of_group, VIEW & group_read()),
        page.post(group, add, ADD & group_write(), body=rules),
        page.post(f"{group}/import", bring_in, ADD & group_write(), body=rules),
        page.post(f"{group}/import-prom-rule", import_prom, ADD & group_write(), body=Body(PromImportSchema)),
        page.delete(group, delete, DELETE & group_write(), body=ids),
        page.put(f"{group}/fields", change_fields, PUT & group_write(), body=Body(FieldsSchema)),
        page.post(f"{group}/clone", clone_to_hosts, ADD & group_write(), body=Body(CloneToHostsSchema)),
        page.post("/busi-groups/alert-rules/clones", clone_to_groups, ADD, body=Body(CloneToGroupsSchema)),
        page.put("/busi-group/:id/alert-rule/:arid", replace, PUT, body=rule),
        page.get("/alert-rule/:arid", get, VIEW),
        page.get("/alert-rule/:arid/pure", get_pure, VIEW),
        page.put("/busi-group/alert-rule/validate", validate, PUT, body=rule),
        page.post("/busi-group/alert-rules/enable-tryrun", try_in_effect, ADD, body=Body(TryRunSchema)),
        page.get("/alert-rules/callbacks", callbacks, LOGIN),
        page.post("/relabel-test", relabel_test, LOGIN, body=Body(RelabelTestSchema)),
        page.get("/timezones", timezones, LOGIN),
        page.get("/servers", servers, perm("/system/alerting-engines")),
        page.get("/server-clusters", clusters, LOGIN),
    ]


def list_of_groups(ctx: Context) -> Any:
    """Rules of several groups with their datasources and numbers of active events."""
    directory, wanted = ctx.core.get(Directory), ctx.query_ids("gids")
    for group in wanted:
        ctx.require_group(group, write=False)
    groups = wanted or visible_groups(directory, ctx.user)
    found = ctx.core.get(AlertRules).in_groups(groups)
    end = ctx.query_int("etime", 0) or int(ctx.core.clock())
    start = ctx.query_int("stime", 0)
    counts = active_per_rule([rule["id"] for rule in found], start if 0 < start < end else end - MONTH, end)
    return [{**rule, "cur_event_count": counts.get(rule["id"], 0)} for rule in listed_with_sources(ctx, found)]


def list_of_group(ctx: Context) -> Any:
    """Rules of one group."""
    return _listed(ctx, ctx.core.get(AlertRules).in_groups([ctx.param_int("id")]))


def add(ctx: Context) -> Any:
    """Create rules; the answer says per name what went wrong."""
    _require_items(ctx)
    return ctx.core.get(AlertRules).create(ctx.param_int("id"), ctx.body, ctx.operator)


def bring_in(ctx: Context) -> Any:
    """Create rules from an export."""
    force = ctx.query_bool("force")
    _require_items(ctx)
    return ctx.core.get(AlertRules).bring_in(ctx.param_int("id"), ctx.body, ctx.operator, force=force)


def import_prom(ctx: Context) -> Any:
    """Create rules from a Prometheus rule file."""
    found = prom_import.rules_of(ctx.body["payload"], ctx.body["datasource_queries"], ctx.body["disabled"])
    given = checked(AlertRuleSchema(), found, "payload", many=True)
    return ctx.core.get(AlertRules).create(ctx.param_int("id"), given, ctx.operator)


def delete(ctx: Context) -> None:
    """Delete rules of the group; their active events are closed."""
    ctx.core.get(AlertRules).delete(ctx.param_int("id"), _ids(ctx, "ids"))


def change_fields(ctx: Context) -> None:
    """Change some fields of several rules, each of a group the caller may write to."""
    fields = ctx.body["fields_"]
    if not fields:
        raise invalid("fields empty")
    rules = ctx.core.get(AlertRules)
    found = rules.some(_ids(ctx, "ids"))
    _require_groups(ctx, found, write=True)
    for rule in found:
        edits.apply_edit(rule, ctx.body["action"], fields)
        checked(AlertRuleSchema(), rule, "fields")
        rules.save(rule, ctx.operator)


def clone_to_hosts(ctx: Context) -> Any:
    """Copy rules for each of several hosts."""
    if not ctx.body["ident_list"]:
        raise invalid("ident_list is empty")
    rules = ctx.core.get(AlertRules)
    found = rules.some(_ids(ctx, "ids"))
    _require_groups(ctx, found, write=True)
    return clone.clone_to_hosts(rules, found, ctx.body["ident_list"], ctx.operator)


def clone_to_groups(ctx: Context) -> Any:
    """Copy rules into other business groups."""
    rules, wanted = ctx.core.get(AlertRules), _ids(ctx, "rule_ids")
    for group in _ids(ctx, "bgids"):
        ctx.require_group(group, write=True)
    found = rules.some(wanted)
    _require_groups(ctx, found, write=False)
    return clone.clone_to_groups(rules, wanted, found, ctx.body["bgids"], ctx.operator)


def replace(ctx: Context) -> None:
    """Overwrite a rule; the group that counts is the rule's own."""
    rules = ctx.core.get(AlertRules)
    rule = rules.get(ctx.param_int("arid"))
    ctx.require_group(rule["group_id"], write=True)
    rules.replace(rule, ctx.body, ctx.operator)


def get(ctx: Context) -> Any:
    """One rule with the datasources that it selects."""
    return listed_with_sources(ctx, [_readable(ctx)])[0]


def get_pure(ctx: Context) -> Any:
    """One rule as stored."""
    return shown(_readable(ctx))


def validate(ctx: Context) -> None:
    """Check the old-style notification settings of a rule: its teams need members to reach."""
    if not ctx.body["notify_channels"] or not ctx.body["notify_groups"]:
        return
    teams = team_ids(ctx.body["notify_groups"])
    members = ctx.core.get(Directory).members_of_teams(teams)
    lacking = [
        channel
        for channel in ctx.body["notify_channels"]
        if not any(
            (user.email if channel == "email" else user.contacts.get(f"{channel}_robot_token")) for user in members
        )
    ]
    if lacking:
        raise invalid(
            "All users are missing notify channel configurations. Please check for missing tokens "
            f"(each channel should be configured with at least one user). [{' '.join(lacking)}]"
        )


def try_in_effect(ctx: Context) -> Any:
    """Say whether a rule would be in effect for a historical event."""
    event = one_historical(ctx.body["event_id"])
    ctx.require_group(event["group_id"], write=False)
    check_in_effect(ctx.core, ctx.body["config"], event)
    return "event is effective"


def callbacks(ctx: Context) -> Any:
    """Callback addresses in use, for completion."""
    groups = own_groups(ctx.core.get(Directory), ctx.user)
    found = ctx.core.get(AlertRules).in_groups(groups)
    return sorted({url for rule in found for url in rule["callbacks"]}) or NULL


def relabel_test(ctx: Context) -> Any:
    """Try relabel steps on tags."""
    if not ctx.body["configs"] or not ctx.body["tags"]:
        raise invalid("relabel config is empty")
    for tag in ctx.body["tags"]:
        if "=" not in tag:
            raise invalid(f"tag:{tag} format error")
    relabel.check_relabel(ctx.body["configs"])
    return relabel.relabelled(ctx.body["tags"], relabel.parse_steps(ctx.body["configs"])) or NULL


def timezones(_: Context) -> Any:
    """Time zones offered for rules."""
    return list(TIMEZONES)


def servers(ctx: Context) -> Any:
    """The heartbeat rows of live engines."""
    return alive(int(ctx.core.clock()))


def clusters(ctx: Context) -> Any:
    """Names of the clusters with live engines."""
    return sorted({row["cluster"] for row in alive(int(ctx.core.clock())) if row["cluster"]})


def _readable(ctx: Context) -> Rule:
    rule = ctx.core.get(AlertRules).get(ctx.param_int("arid"))
    ctx.require_group(rule["group_id"], write=False)
    return rule


def _listed(ctx: Context, rules: Sequence[Rule]) -> list[Rule]:
    """Return rules as lists show them, with what keeps them from being evaluated (``eval_errors``)."""
    directory, faults = ctx.core.get(Directory), faults_of([rule["id"] for rule in rules])
    users = directory.state().users_by_name
    listed = []
    for rule in rules:
        teams = team_ids(rule["notify_groups"])
        author = users.get(rule["update_by"])
        listed.append(
            {
                **shown(rule),
                "notify_groups_obj": team_objects(directory, teams) if teams else [],
                "update_by_nickname": author.nickname if author else "",
                "eval_errors": faults.get(rule["id"], []),
            }
        )
    return listed


def listed_with_sources(ctx: Context, rules: Sequence[Rule]) -> list[Rule]:
    """Return rules as lists show them, each with the datasources that it selects."""
    records, listed = ctx.core.get(Catalog).records(), _listed(ctx, rules)
    for rule in listed:
        found = selected_by(rule, records.values())
        if found:
            rule["datasource_ids"] = [record.id for record in found]
    return listed


def _require_items(ctx: Context) -> None:
    if not ctx.body:
        raise invalid("input json is empty")


def _ids(ctx: Context, name: str) -> list[int]:
    found: list[int] = ctx.body[name]
    if not found:
        raise invalid(f"{name} empty")
    return found


def _require_groups(ctx: Context, rules: Iterable[Rule], *, write: bool) -> None:
    for group in {rule["group_id"] for rule in rules}:
        ctx.require_group(group, write=write)
