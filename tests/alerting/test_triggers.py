"""Rules of queries and triggers: what may be stored, how series are joined, when they fire, recover and go missing."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.plugin.testkit._app import dat

SOURCES = [{"match_type": 2, "op": "in", "values": []}]


def trigger(exp: str = "$A > 10", **more: Any) -> dict[str, Any]:
    return {"mode": 1, "exp": exp, "severity": 2, **more}


def config(*triggers: dict[str, Any], queries: str = "A", **more: Any) -> dict[str, Any]:
    """Return a configuration whose query ``A`` asks for the metric ``a``, and so on."""
    asked = [{"ref": ref, "query": ref.lower()} for ref in queries]
    return {"version": "v2", "queries": asked, "triggers": list(triggers or [trigger()]), **more}


def stored(world: Any, rule_config: dict[str, Any]) -> str:
    """Return what is said to a rule with this configuration, an empty text when it was stored."""
    body = {"name": "x", "cate": "fake", "rule_config": rule_config, "datasource_queries": SOURCES}
    (answer,) = dat(world.app.root.post(f"/api/svc/busi-group/{world.group}/alert-rules", [body])).values()
    return str(answer)


def firing(world: Any) -> list[dict[str, str]]:
    """Return the labels of what fires, without the rule's name."""
    found = [dict(event["tags_map"]) for event in world.active()]
    for labels in found:
        del labels["rulename"]
    return sorted(found, key=str)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"queries": [5]}, "queries[0]: got int, expected an object"),
        ({"queries": [{"query": "a"}]}, "queries[0].ref: got an empty text, expected the letter"),
        ({"queries": [{"ref": 5, "query": "a"}]}, "queries[0].ref: got int, expected a text"),
        ({"queries": [{"ref": "A", "query": "a", "unit": {}}]}, "queries[0].unit: got dict, expected a text"),
        ({"queries": [{"ref": "A", "query": "a >"}]}, "queries[0]: 1:1: cannot parse 'a >'"),
        ({"triggers": {}}, "triggers: got dict, expected an array"),
        ({"triggers": ["x"]}, "triggers[0]: got str, expected an object"),
        ({"triggers": [trigger("$A >")]}, "triggers[0].exp: unexpected 'end' at position 4"),
        ({"triggers": [trigger("")]}, "triggers[0].exp: unexpected 'end' at position 0"),
        ({"triggers": [trigger(severity=2.0)]}, "triggers[0].severity: got 2.0, expected 1, 2 or 3"),
        ({"triggers": [trigger(recover_config=[])]}, "triggers[0].recover_config: got list, expected an object"),
        (
            {"triggers": [trigger(recover_config={"judge_type": "1"})]},
            "triggers[0].recover_config.judge_type: got '1', expected 0, 1 or 2",
        ),
        (
            {"triggers": [trigger(recover_config={"judge_type": 2, "recover_exp": "$A <"})]},
            "triggers[0].recover_config.recover_exp: unexpected 'end' at position 4",
        ),
        ({"triggers": [trigger(joins=5)]}, "triggers[0].joins: got int, expected an array"),
        (
            {"triggers": [trigger(joins=[{"join_type": "outer", "ref": "B"}])]},
            "triggers[0].joins[0].join_type: got 'outer', expected one of original, none",
        ),
        (
            {"triggers": [trigger(joins=[{"join_type": "inner_join", "ref": "B", "on": "svc"}])]},
            "triggers[0].joins[0].on: expected an array of texts",
        ),
        ({"nodata_trigger": 1}, "nodata_trigger: got int, expected an object"),
        (
            {"nodata_trigger": {"enable": True, "severity": "2"}},
            "nodata_trigger.severity: got '2', expected 1, 2 or 3",
        ),
        (
            {"nodata_trigger": {"enable": True, "resolve_after_enable": True, "resolve_after": "1h"}},
            "nodata_trigger.resolve_after: got '1h', expected seconds",
        ),
    ],
)
def test_what_could_never_work_is_refused(payments: Any, wrong: dict[str, Any], message: str) -> None:
    assert stored(payments, {**config(), **wrong}).startswith(f"rule_config.{message}")


def test_switched_off_parts_need_not_be_complete(payments: Any) -> None:
    off = {"enable": False, "severity": 0, "resolve_after_enable": True, "resolve_after": ""}
    assert stored(payments, config(trigger(""), exp_trigger_disable=True, nodata_trigger=off)) == ""


@pytest.mark.parametrize(
    "left_by_a_form",
    [
        {"nodata_trigger": {"enable": False, "severity": 2, "resolve_after_enable": False}},
        {"triggers": [{"mode": 0, "expressions": [], "severity": 1}]},
        {"version": "v1", "anomaly_trigger": {"enable": False}, "exp_trigger_disable": False, "triggers": []},
    ],
)
def test_a_query_with_its_own_condition_fires_whatever_else_is_there(payments: Any, left_by_a_form: Any) -> None:
    payments.rule(rule_config={"queries": [{"prom_ql": "cpu > 80", "severity": 3}], **left_by_a_form})
    payments.store().put(90, __name__="cpu")
    payments.advance(15)
    assert [event["severity"] for event in payments.active()] == [3]
    (rule,) = dat(payments.app.root.get(f"/api/svc/busi-group/{payments.group}/alert-rules"))
    assert rule["severities"] == [3]


def test_a_trigger_fires_and_recovers_with_its_values(payments: Any) -> None:
    payments.rule(rule_config=config(trigger("$A > 10 && $A.svc == 'web'", severity=1)))
    payments.store().put(20, __name__="a", svc="web")
    payments.store().put(20, __name__="a", svc="db")
    payments.advance(15)
    (event,) = payments.active()
    assert event["tags_map"]["svc"] == "web"
    assert (event["severity"], event["trigger_value"]) == (1, "$A.svc:web $A.a:20.00 ")
    assert event["prom_ql"] == """[{"query":"a","ref":"A"}] $A > 10 && $A.svc == 'web'"""
    payments.store().put(5, __name__="a", svc="web")
    payments.advance(15)
    assert payments.active() == []
    assert payments.history(is_recovered=1)[0]["trigger_value"] == "5"


def test_series_with_equal_labels_are_judged_together(payments: Any) -> None:
    payments.rule(rule_config=config(trigger("$B / $A > 0.5"), queries="AB"))
    for svc, total, failed in (("web", 10, 6), ("db", 10, 1)):
        payments.store().put(total, __name__="a", svc=svc)
        payments.store().put(failed, __name__="b", svc=svc)
    payments.store().put(9, __name__="b", svc="alone")
    payments.advance(15)
    assert firing(payments) == [{"__name__": "b", "svc": "web"}]


HOSTS = [{"__name__": "a", "host": "h1", "svc": "web"}, {"__name__": "a", "host": "h2", "svc": "web"}]
ALONE = {"__name__": "a", "host": "h3", "svc": "cron"}


@pytest.mark.parametrize(
    ("kind", "exp", "expected"),
    [
        ("inner_join", "$A > 1 && $B > 1", HOSTS),
        ("left_join", "$A > 1", [*HOSTS, ALONE]),
        ("right_join", "$B > 1", [{"__name__": "b", "svc": "idle"}, {"__name__": "b", "svc": "web"}]),
        ("left_exclude", "$A > 1", [ALONE]),
        ("right_exclude", "$B > 1", [{"__name__": "b", "svc": "idle"}]),
        ("cartesian", "$A > 1 && $B > 1", [*HOSTS, ALONE]),
        ("none", "$A > 1", [*HOSTS, ALONE]),
    ],
)
def test_joins(payments: Any, kind: str, exp: str, expected: list[dict[str, str]]) -> None:
    join = {"join_type": kind, "ref": "B", "on": ["svc"]}
    payments.rule(rule_config=config(trigger(exp, join_ref="A", joins=[join]), queries="AB"))
    for labels in (*HOSTS, ALONE, {"__name__": "b", "svc": "web"}, {"__name__": "b", "svc": "idle"}):
        payments.store().put(5, **labels)
    payments.advance(15)
    assert firing(payments) == sorted(expected, key=str)


def test_joined_alerts_recover_one_by_one(payments: Any) -> None:
    """Two hosts of one service are two alerts, though the series that they are joined with is the same."""
    join = {"join_type": "inner_join", "ref": "B", "on": ["svc"]}
    payments.rule(rule_config=config(trigger("$A > 10 && $B > 1", join_ref="A", joins=[join]), queries="AB"))
    payments.store().put(5, __name__="b", svc="web")
    for host in ("h1", "h2"):
        payments.store().put(20, __name__="a", host=host, svc="web")
    payments.advance(15)
    assert len(firing(payments)) == 2
    payments.store().put(1, __name__="a", host="h1", svc="web")
    payments.advance(15)
    assert firing(payments) == [{"__name__": "a", "host": "h2", "svc": "web"}]


@pytest.mark.parametrize("judge", [0, 1, 2])
def test_when_a_series_disappears(payments: Any, judge: int) -> None:
    recover = {"judge_type": judge, "recover_exp": "$A < 5"}
    payments.rule(rule_config=config(trigger(recover_config=recover)))
    payments.store().put(20, __name__="a")
    payments.advance(15)
    payments.store().drop(__name__="a")
    payments.advance(30)
    assert len(payments.active()) == (0 if judge == 0 else 1)


@pytest.mark.parametrize("restart", [False, True])
def test_recovery_on_a_condition_of_its_own(payments: Any, restart: bool) -> None:
    payments.rule(rule_config=config(trigger(recover_config={"judge_type": 2, "recover_exp": "$A < 5"})))
    payments.store().put(20, __name__="a")
    payments.advance(15)
    if restart:
        payments.restart()
    payments.store().put(7, __name__="a")
    payments.advance(30)
    assert len(payments.active()) == 1
    payments.store().put(4, __name__="a")
    payments.advance(15)
    assert payments.active() == []


@pytest.mark.parametrize("restart", [False, True])
def test_a_series_that_is_gone_is_told_and_returns(payments: Any, restart: bool) -> None:
    payments.rule(rule_config=config(nodata_trigger={"enable": True, "severity": 3}), append_tags=["team=infra"])
    payments.store().put(1, __name__="a", svc="web")
    payments.advance(15)
    assert payments.active() == []
    payments.store().drop(__name__="a", svc="web")
    payments.advance(15)
    (event,) = payments.active()
    assert (event["severity"], event["trigger_value"], event["tags_map"]["svc"]) == (3, "nodata", "web")
    assert event["rule_config"]["trigger_type"] == "nodata"
    if restart:
        payments.restart()
    payments.advance(45)
    assert [active["id"] for active in payments.active()] == [event["id"]]
    payments.store().put(1, __name__="a", svc="web")
    payments.advance(15)
    assert payments.active() == []


@pytest.mark.parametrize("restart", [False, True])
def test_a_series_that_is_gone_for_long_is_forgotten(payments: Any, restart: bool) -> None:
    nodata = {"enable": True, "severity": 3, "resolve_after_enable": True, "resolve_after": 60}
    payments.rule(rule_config=config(nodata_trigger=nodata))
    payments.store().put(1, __name__="a")
    payments.advance(15)
    payments.store().drop(__name__="a")
    payments.advance(60)
    assert len(payments.active()) == 1
    if restart:
        payments.restart()
    payments.advance(30)
    assert payments.active() == []


def test_only_the_absence_counts_when_triggers_are_off(payments: Any) -> None:
    payments.rule(rule_config=config(exp_trigger_disable=True, nodata_trigger={"enable": True, "severity": 3}))
    payments.store().put(99, __name__="a")
    payments.advance(15)
    assert payments.active() == []
    payments.store().drop(__name__="a")
    payments.advance(15)
    assert len(payments.active()) == 1


def test_a_batch_edit_of_triggers_is_checked(payments: Any) -> None:
    rule = payments.rule(rule_config=config())
    path = f"/api/svc/busi-group/{payments.group}/alert-rules/fields"
    change = {"ids": [rule], "action": "update_triggers", "fields": {"triggers": [trigger("$A >")]}}
    assert payments.app.root.put(path, change).json()["err"].startswith("rule_config.triggers[0].exp: ")
