"""The alert-rule resource through the page API."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.plugin.testkit._app import dat, err

EVERYWHERE = [{"match_type": 2, "op": "in", "values": [0]}]


def body(name: str = "cpu", **more: Any) -> dict[str, Any]:
    config = {"queries": [{"prom_ql": "cpu > 80", "severity": 2}], "task_tpls": [{"tpl_id": 3, "host": []}]}
    return {"name": name, "cate": "fake", "rule_config": config, **more}


def add(world: Any, *rules: dict[str, Any], group: int | None = None) -> Any:
    return dat(world.app.root.post(f"/api/svc/busi-group/{group or world.group}/alert-rules", list(rules)))


def only(world: Any) -> dict[str, Any]:
    (rule,) = dat(world.app.root.get(f"/api/svc/busi-group/{world.group}/alert-rules"))
    return dict(rule)


def test_created_rules_come_back_whole(world) -> None:
    world.datasource()
    sent = body(
        datasource_queries=EVERYWHERE,
        append_tags=["team = infra"],
        annotations={"summary": "hot"},
        enable_stimes=["00:00"],
        enable_etimes=["00:00"],
        enable_days_of_weeks=[["0", "1"]],
        extra_config={"anything": [1, {"x": None}]},
        notify_version=1,
        notify_rule_ids=[4],
        notify_channels=["email"],
        unknown_field=1,
    )
    assert add(world, sent) == {"cpu": ""}
    rule = dat(world.app.root.get(f"/api/svc/alert-rule/{only(world)['id']}"))
    assert rule["rule_config"] == sent["rule_config"]
    assert rule["extra_config"] == sent["extra_config"]
    assert rule["append_tags"] == ["team=infra"]
    assert (rule["enable_stime"], rule["enable_days_of_week"]) == ("00:00", ["0", "1"])
    assert (rule["notify_rule_ids"], rule["notify_channels"]) == ([4], [])
    assert (rule["prom_eval_interval"], rule["cron_pattern"], rule["prod"]) == (15, "@every 15s", "metric")
    assert (rule["severities"], rule["create_by"], rule["update_by"]) == ([2], "root", "root")
    assert rule["datasource_ids"] == [1]
    assert rule["create_at"] == rule["update_at"] == int(world.clock.now)
    assert "unknown_field" not in rule


def test_bulk_creation_answers_per_rule(world) -> None:
    answer = add(world, body("a"), body("b", cate="nothing"), body("a"), body("c", append_tags=["x"]))
    assert answer["b"] == "cate: no installed datasource type can alert on 'nothing', expected one of: fake"
    assert answer["a"] == "AlertRule already exists"
    assert answer["c"] == "AppendTags(x) invalid"
    assert only(world)["name"] == "a"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"name": " "}, "name is blank"),
        ({"name": "a<b"}, "Name has invalid characters"),
        ({"name": "x" * 256}, "name: got 256 characters, expected at most 255"),
        ({"time_zone": "Mars/Base"}, "invalid timezone: Mars/Base"),
        ({"append_tags": ["a=1", "a=2"]}, "AppendTags has duplicate key: a"),
        ({"notify_groups": ["x"]}, "NotifyGroups(x) invalid"),
        ({"notify_groups": ["²"]}, "NotifyGroups(²) invalid"),
        ({"disabled": 2}, "disabled: got 2, expected 0 or 1"),
        ({"cron_pattern": "* * * * *"}, "invalid cron pattern: * * * * *, error: expected exactly 6 fields, found 5"),
        ({"cron_pattern": "@every soon"}, "invalid cron pattern: @every soon, error: invalid duration 'soon'"),
        ({"rule_config": {"queries": [{"prom_ql": "cpu >"}]}}, "rule_config.queries[0]: 1:1: cannot parse 'cpu >'"),
        (
            {"rule_config": {"queries": [{"prom_ql": "cpu", "severity": 4}]}},
            "rule_config.queries[0].severity: got 4, expected 1, 2 or 3",
        ),
        ({"rule_config": {"queries": {}, "version": 1}}, "rule_config.queries: got dict, expected an array"),
        ({"rule_config": {"anomaly_trigger": {"enable": True}}}, "rule_config.anomaly_trigger: not available"),
        (
            {"rule_config": {"queries": [{"prom_ql": "cpu > $x", "var_enabled": True}]}},
            "rule_config.queries[0]: var_config: expected an object",
        ),
        (
            {"rule_config": {"event_relabel_config": [{"source_labels": ["a-b"]}]}},
            'event_relabel_config[0]: "a-b" is not a valid label name in source_labels',
        ),
        (
            {"rule_config": {"event_relabel_config": {"action": "drop"}}},
            "invalid event_relabel_config: got dict, expected an array",
        ),
    ],
)
def test_what_could_never_work_is_refused(world, more: dict[str, Any], message: str) -> None:
    sent = body(**more)
    (text,) = add(world, sent).values()
    assert text.startswith(message)
    assert dat(world.app.root.get(f"/api/svc/busi-group/{world.group}/alert-rules")) == []


def test_a_query_that_the_datasource_refuses_is_refused(world) -> None:
    world.datasource()
    store = world.store()
    store.refusal = "1:5: parse error: unexpected end"
    rules = [body(name, datasource_queries=EVERYWHERE) for name in ("a", "b")]
    text = "rule_config.queries[0]: 1:5: parse error: unexpected end"
    assert add(world, *rules) == {"a": text, "b": text}
    assert store.asked == ["cpu > 80"]
    store.refusal = ""
    assert add(world, rules[0]) == {"a": ""}
    rule = only(world)
    store.refusal = "no"
    assert dat(fields(world, [rule["id"]], {"note": "x"})) is None
    path = f"/api/svc/busi-group/{world.group}/alert-rule/{rule['id']}"
    changed = {"queries": [{"prom_ql": "cpu > 90", "severity": 2}]}
    assert err(world.app.root.put(path, {**rule, "rule_config": changed})) == "rule_config.queries[0]: no"


def test_a_datasource_out_of_reach_refuses_nothing(world) -> None:
    world.datasource()
    world.store().failure = "connection refused"
    rules = [body(name, datasource_queries=EVERYWHERE) for name in "abc"]
    rules[2]["rule_config"] = {"queries": [{"prom_ql": "cpu > 90", "severity": 2}]}
    assert add(world, *rules) == {"a": "", "b": "", "c": ""}
    assert len(world.store().asked) == 1


def test_bad_times_stop_the_whole_request(world) -> None:
    rules = [body("a"), body("b", enable_stimes=["25:00"], enable_etimes=["10:00"], enable_days_of_weeks=[["1"]])]
    text = err(world.app.root.post(f"/api/svc/busi-group/{world.group}/alert-rules", rules))
    assert text == "b: invalid effective time span 1: start time(25:00) must be in HH:MM format"
    assert dat(world.app.root.get(f"/api/svc/busi-group/{world.group}/alert-rules")) == []


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ([], "input json is empty"),
        ({"name": "x"}, "json body invalid: json: cannot unmarshal object into Go value of type []models.AlertRule"),
        ([{"name": 5}], "json body invalid: 0.name: got 5, expected a text"),
        ([{"name": "x", "disabled": "1"}], "json body invalid: 0.disabled: got a text, expected an integer"),
        ([{"name": "x", "disabled": True}], "json body invalid: 0.disabled: got true, expected an integer"),
        ([{"name": "x", "rule_config": []}], "json body invalid: 0.rule_config: got an array, expected an object"),
    ],
)
def test_bodies_of_the_wrong_type_are_refused(world, sent: Any, message: str) -> None:
    assert err(world.app.root.post(f"/api/svc/busi-group/{world.group}/alert-rules", sent)) == message


def test_a_bare_query_becomes_a_rule_config(world) -> None:
    add(world, {"name": "old", "cate": "fake", "prom_ql": "cpu > 5", "severity": 1})
    rule = only(world)
    assert rule["rule_config"] == {"queries": [{"prom_ql": "cpu > 5", "severity": 1}]}
    assert (rule["prom_ql"], rule["severities"]) == ("", [1])


def test_update_replaces_and_keeps_identity(world) -> None:
    add(world, body("a", note="old", prom_for_duration=60), body("b"))
    rule = world.rules.in_groups([world.group])[0]
    world.clock.now += 100
    path = f"/api/svc/busi-group/{world.group}/alert-rule/{rule['id']}"
    assert err(world.app.root.put(path, body("b"))) == "AlertRule already exists"
    assert dat(world.app.root.put(path, body("c", group_id=99))) is None
    changed = world.rules.get(rule["id"])
    assert (changed["name"], changed["note"], changed["prom_for_duration"]) == ("c", "", 0)
    assert (changed["group_id"], changed["create_at"]) == (world.group, rule["create_at"])
    assert changed["update_at"] == rule["update_at"] + 100
    missing = f"/api/svc/busi-group/{world.group}/alert-rule/999"
    assert err(world.app.root.put(missing, body("c"))) == "No such AlertRule"


def fields(world: Any, ids: list[int], changed: dict[str, Any], action: str = "") -> Any:
    path = f"/api/svc/busi-group/{world.group}/alert-rules/fields"
    return world.app.root.put(path, {"ids": ids, "fields": changed, "action": action})


@pytest.mark.parametrize(
    ("action", "changed", "expected"),
    [
        ("", {"disabled": 1, "note": "n"}, {"disabled": 1, "note": "n"}),
        ("", {"append_tags": "a=1 b=2"}, {"append_tags": ["a=1", "b=2"]}),
        ("", {"notify_rule_ids": [7]}, {"notify_rule_ids": [7], "notify_version": 1, "notify_channels": []}),
        ("", {"notify_channels": "email mm"}, {"notify_channels": ["email", "mm"], "notify_version": 0}),
        ("", {"runbook_url": "u"}, {"annotations": {"k": "v", "runbook_url": "u"}}),
        ("annotations_add", {"annotations": {"k": "w", "l": "x"}}, {"annotations": {"k": "w", "l": "x"}}),
        ("annotations_del", {"annotations": {"k": ""}}, {"annotations": {}}),
        ("datasource_change", {"datasource_queries": EVERYWHERE}, {"datasource_queries": EVERYWHERE}),
        ("callback_add", {"callbacks": "http://a"}, {"callbacks": ["http://a"]}),
        (
            "",
            {"enable_stime": "00:00 10:00", "enable_etime": "01:00 11:00", "enable_days_of_week": "1 2;6 0"},
            {"enable_stimes": ["00:00", "10:00"], "enable_days_of_weeks": [["1", "2"], ["6", "0"]]},
        ),
        ("", {"prom_for_duration": None, "delay": 5}, {"prom_for_duration": 0, "delay": 5}),
    ],
)
def test_batch_changes(world, action: str, changed: dict[str, Any], expected: dict[str, Any]) -> None:
    add(world, body(annotations={"k": "v"}))
    rule = only(world)
    assert dat(fields(world, [rule["id"]], changed, action)) is None
    after = world.rules.get(rule["id"])
    assert {name: after[name] for name in expected} == expected


def test_batch_change_of_severity_touches_nothing_else(world) -> None:
    add(world, body())
    rule = only(world)
    dat(fields(world, [rule["id"]], {"severity": 1}))
    config = world.rules.get(rule["id"])["rule_config"]
    assert config["queries"][0]["severity"] == 1
    assert config["task_tpls"] == [{"tpl_id": 3, "host": []}]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, "fields empty"),
        ({"disabled": "yes"}, "fields.disabled: got str, expected a number"),
        ({"nonsense": 1}, "fields.nonsense: unknown field"),
        ({"cron_pattern": "never"}, "invalid cron pattern: never, error: expected exactly 6 fields, found 1: never"),
    ],
)
def test_batch_changes_that_are_refused(world, changed: dict[str, Any], message: str) -> None:
    add(world, body())
    rule = only(world)
    assert err(fields(world, [rule["id"]], changed)) == message
    assert world.rules.get(rule["id"])["update_at"] == rule["update_at"]


def test_delete_takes_only_rules_of_the_group(world) -> None:
    other = world.busi_group("Other")
    add(world, body("a"))
    add(world, body("b"), group=other)
    ids = [rule["id"] for rule in world.rules.in_groups(None)]
    path = f"/api/svc/busi-group/{world.group}/alert-rules"
    assert err(world.app.root.delete(path, {"ids": []})) == "ids empty"
    assert dat(world.app.root.delete(path, {"ids": ids})) is None
    assert [rule["name"] for rule in world.rules.in_groups(None)] == ["b"]


def test_import_creates_or_overwrites(world) -> None:
    path = f"/api/svc/busi-group/{world.group}/alert-rules/import"
    exported = body("a", note="first", callbacks=["http://x"])
    assert dat(world.app.root.post(path, [exported])) == {"a": ""}
    rule = only(world)
    assert (rule["datasource_queries"], rule["notify_version"], rule["callbacks"]) == (EVERYWHERE, 1, [])
    again = {**rule, "note": "second"}
    assert dat(world.app.root.post(path, [again])) == {"a": "AlertRule already exists"}
    assert dat(world.app.root.post(f"{path}?force=true", [again, body("b")])) == {"a": "", "b": ""}
    assert world.rules.get(rule["id"])["note"] == "second"
    assert err(world.app.root.post(f"{path}?force=maybe", [again])) == "unknown arg[force] value: maybe"


def test_import_of_prometheus_rules(world) -> None:
    from tocsin.alerting.prom_import import rules_of

    payload = """
groups:
- name: node
  interval: 30s
  rules:
  - record: x
    expr: y
  - alert: HostDown
    expr: up == 0
    for: 2m
    labels: {severity: critical, team: infra}
    annotations: {summary: "{{ $labels.instance }} down"}
"""
    (rule,) = rules_of(payload, EVERYWHERE, 1)
    assert rule["rule_config"] == {"queries": [{"prom_ql": "up == 0", "severity": 1}]}
    assert (rule["prom_for_duration"], rule["cron_pattern"], rule["append_tags"]) == (120, "@every 30s", ["team=infra"])
    assert (rule["disabled"], rule["notify_repeat_step"], rule["notify_version"]) == (1, 60, 1)
    (bare,) = rules_of("- {alert: A, expr: up, for: 1d}", EVERYWHERE, 0)
    assert (bare["prom_for_duration"], bare["cron_pattern"]) == (60, "@every 60s")
    path = f"/api/svc/busi-group/{world.group}/alert-rules/import-prom-rule"
    sent = {"payload": payload, "datasource_queries": EVERYWHERE}
    # The category is that of the rule file; here nothing is installed that could evaluate it.
    assert dat(world.app.root.post(path, sent))["HostDown"].startswith("cate: no installed datasource type")
    for text, message in (("", "payload is empty"), ("{", "invalid yaml format"), ("a: 1", "input yaml is empty or")):
        assert err(world.app.root.post(path, {**sent, "payload": text})).startswith(message)
    assert err(world.app.root.post(path, {"payload": "x"})).startswith("json body invalid: datasource_queries")


NESTED = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 9) + "]" for i in range(1, 9))])


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (NESTED + "\nalert: *a8", "invalid yaml format: more than 16 aliases"),
        ("[" * 5000, "invalid yaml format: nested too deeply"),
        ("alert: 2001-99-99", "invalid yaml format: month must be in 1..12"),
        ("alert: [x]", "alert: got list, expected a text"),
        ("alert: a\nlabels: [x]", "labels: got list, expected a mapping of texts"),
        ("alert: a\nannotations: {k: {}}", "annotations.k: got dict, expected a text"),
        ("groups: [{rules: 5}]", "rules: got int, expected a list"),
        ("alert: a\nfor: 9999999999999999999h", "payload: 0.prom_for_duration: got "),
    ],
)
def test_rule_files_that_are_none_are_refused(world, payload: str, message: str) -> None:
    path = f"/api/svc/busi-group/{world.group}/alert-rules/import-prom-rule"
    assert err(world.app.root.post(path, {"payload": payload, "datasource_queries": EVERYWHERE})).startswith(message)


@pytest.mark.parametrize(
    "changed",
    [
        {"enable_stimes": 5},
        {"notify_rule_ids": ["x"]},
        {"append_tags": [1]},
        {"callbacks": [{}]},
        {"disabled": 1 << 63},
    ],
)
def test_fields_of_another_type_are_refused(world, changed: dict[str, Any]) -> None:
    add(world, body())
    answer = fields(world, [only(world)["id"]], changed)
    assert err(answer).startswith(f"fields: {next(iter(changed))}"), err(answer)


def test_clone_to_groups(world) -> None:
    other = world.busi_group("Other")
    add(world, body("a"))
    rule = only(world)
    path = "/api/svc/busi-groups/alert-rules/clones"
    sent = {"rule_ids": [rule["id"], 99], "bgids": [world.group, other]}
    assert dat(world.app.root.post(path, sent)) == {
        f"{rule['id']}-{world.group}": "AlertRule already exists",
        f"99-{world.group}": "alert rule not found",
        f"99-{other}": "alert rule not found",
    }
    assert [r["name"] for r in world.rules.in_groups([other])] == ["a"]


def test_a_rule_for_each_host() -> None:
    from tocsin.alerting.clone import for_host

    rule = {"name": "r", "rule_config": {"queries": [{"prom_ql": "cpu{ident = 'a', ident!=\"b\"} > 1"}]}}
    made = for_host(rule, 'x"y')
    assert made["name"] == 'r_x"y'
    assert made["rule_config"]["queries"][0]["prom_ql"] == 'cpu{ident = "x\\"y", ident!="b"} > 1'


def test_lists_over_groups_count_active_events(payments) -> None:
    payments.rule("a")
    payments.store().put(95, __name__="cpu", ident="1")
    payments.store().put(95, __name__="cpu", ident="2")
    payments.advance(15)
    (rule,) = dat(payments.app.root.get("/api/svc/busi-groups/alert-rules"))
    assert (rule["cur_event_count"], rule["datasource_ids"]) == (2, [1])
    unknown = payments.app.root.get("/api/svc/busi-groups/alert-rules", query={"gids": "999"})
    assert err(unknown) == "No such BusiGroup"


@pytest.fixture
def member(world) -> Any:
    """A Standard user who may read one group and write to none."""
    root = world.app.root
    sent = {"username": "ann", "password": "a long password", "roles": ["Standard"]}
    assert dat(root.post("/api/svc/users", sent)) is None
    (ann,) = dat(root.get("/api/svc/users", query={"usernames": "ann"}))["list"]
    world.readable = world.busi_group("Readable", ro="readers")
    (team,) = [t for t in dat(root.get("/api/svc/user-groups")) if t["name"] == "readers"]
    assert dat(root.post(f"/api/svc/user-group/{team['id']}/members", {"ids": [ann["id"]]})) is None
    return world.app.login("ann", "a long password")


def test_access_needs_point_and_group(world, member) -> None:
    add(world, body("hidden"))
    add(world, body("shown"), group=world.readable)
    hidden, seen = sorted(world.rules.in_groups(None), key=lambda rule: rule["name"])
    assert dat(member.get(f"/api/svc/alert-rule/{seen['id']}"))["name"] == "shown"
    assert err(member.get(f"/api/svc/alert-rule/{hidden['id']}")) == "forbidden"
    assert err(member.get(f"/api/svc/alert-rule/{hidden['id']}/pure")) == "forbidden"
    assert err(member.get(f"/api/svc/busi-group/{world.group}/alert-rules")) == "forbidden"
    assert [r["name"] for r in dat(member.get("/api/svc/busi-groups/alert-rules"))] == ["shown"]
    writes = (
        member.post(f"/api/svc/busi-group/{world.readable}/alert-rules", [body()]),
        member.put(f"/api/svc/busi-group/{world.readable}/alert-rule/{hidden['id']}", body()),
        member.delete(f"/api/svc/busi-group/{world.readable}/alert-rules", {"ids": [seen["id"]]}),
        member.post("/api/svc/busi-groups/alert-rules/clones", {"rule_ids": [seen["id"]], "bgids": [world.readable]}),
    )
    assert [err(answer) for answer in writes] == ["forbidden"] * 4
    assert len(world.rules.in_groups(None)) == 2


def test_a_change_through_ones_own_group_does_not_reach_other_groups(world, member) -> None:
    own = world.busi_group("Own", rw="owners")
    (team,) = [t for t in dat(world.app.root.get("/api/svc/user-groups")) if t["name"] == "owners"]
    (ann,) = dat(world.app.root.get("/api/svc/users", query={"usernames": "ann"}))["list"]
    dat(world.app.root.post(f"/api/svc/user-group/{team['id']}/members", {"ids": [ann["id"]]}))
    dat(world.app.root.put(f"/api/svc/user/{ann['id']}/profile", {**ann, "roles": ["Standard"]}))
    add(world, body("hidden"))
    rule = world.rules.in_groups([world.group])[0]
    assert dat(member.post(f"/api/svc/busi-group/{own}/alert-rules", [body("mine")])) == {"mine": ""}
    path = f"/api/svc/busi-group/{own}/alert-rules"
    assert err(member.put(f"{path}/fields", {"ids": [rule["id"]], "fields": {"disabled": 1}})) == "forbidden"
    assert err(member.post("/api/svc/busi-groups/alert-rules/clones", {"rule_ids": [rule["id"]], "bgids": [own]}))
    assert dat(member.delete(path, {"ids": [rule["id"]]})) is None
    assert world.rules.get(rule["id"])["disabled"] == 0


def test_a_group_with_rules_is_kept(world) -> None:
    add(world, body())
    assert "alert rules" in err(world.app.root.delete(f"/api/svc/busi-group/{world.group}"))


def test_relabel_test_shows_the_result(world) -> None:
    steps = [
        {
            "action": "replace",
            "source_labels": ["instance"],
            "regex": "([^:]+):.*",
            "target_label": "ident",
            "replacement": "$1",
        }
    ]
    sent = {"configs": steps, "tags": ["instance=10.1.1.2:9100", "job=node"]}
    answer = dat(world.app.root.post("/api/svc/relabel-test", sent))
    assert answer == ["job=node", "instance=10.1.1.2:9100", "ident=10.1.1.2"]
    assert err(world.app.root.post("/api/svc/relabel-test", {"configs": steps, "tags": ["x"]})) == "tag:x format error"
    assert (
        err(world.app.root.post("/api/svc/relabel-test", {"configs": [], "tags": ["x=1"]})) == "relabel config is empty"
    )
    drop = [{"action": "drop", "source_labels": ["job"], "regex": "node"}]
    assert dat(world.app.root.post("/api/svc/relabel-test", {"configs": drop, "tags": ["job=node"]})) is None
