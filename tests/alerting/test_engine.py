"""Firing and recovering, seen through the API and the outbox."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

from tocsin.events.journal import Change, EventJournal
from tocsin.plugin.testkit._app import dat
from tocsin.plugin.testkit.components.process import wait_until

START = 1_700_000_010


def test_fires_and_recovers(payments) -> None:
    payments.rule(note="host {{$labels.ident}} at {{$value}}", append_tags=["team=infra"])
    payments.store().put(91.2, __name__="cpu", ident="web-01")
    payments.advance(15)
    (event,) = payments.active()
    assert event["rule_name"] == "cpu"
    assert event["rule_note"] == "host web-01 at 91.20"
    assert event["group_name"] == "Payments"
    assert event["cluster"] == "main"
    assert event["tags"] == ["__name__=cpu", "ident=web-01", "rulename=cpu", "team=infra"]
    assert (event["trigger_value"], event["severity"], event["target_ident"]) == ("91.20", 2, "web-01")
    assert event["trigger_time"] == event["first_trigger_time"] == int(payments.clock.now)
    (item,) = payments.handed_over()
    assert item.id == event["id"]
    assert not item.event["is_recovered"]
    payments.store().put(10, __name__="cpu", ident="web-01")
    payments.advance(15)
    assert payments.active() == []
    (item,) = payments.handed_over()
    assert item.event["is_recovered"]
    assert [row["is_recovered"] for row in payments.history()] == [1, 0]
    labels = {"cluster": "main", "busi_group": "Payments"}
    assert payments.metric("svc_alert_alerts_total", type="alert", **labels) == 1
    assert payments.metric("svc_alert_alerts_total", type="recovery", **labels) == 1


def test_rules_that_ask_the_same_share_one_query(payments) -> None:
    for number in range(40):
        payments.rule(f"cpu {number}", query="cpu > 80" if number % 2 else "cpu > 90")
    payments.store().put(95, __name__="cpu", ident="web-01")
    payments.store().asked.clear()
    payments.advance(15)
    assert sorted(payments.store().asked) == ["cpu > 80", "cpu > 90"]
    assert len(payments.active()) == 40
    assert payments.metric("svc_alert_rule_eval_total") == 40
    assert payments.metric("svc_alert_datasource_query_total", datasource="1") == 2


def test_a_rule_runs_on_every_datasource_that_it_selects(payments) -> None:
    second = payments.datasource("second")
    payments.datasource("elsewhere", cluster_name="edge-1")
    off = payments.datasource("off")
    dat(payments.app.root.post("/api/svc/datasource/status/update", {"id": off, "status": "disabled"}))
    payments.heartbeat()
    payments.rule()
    for name in ("main", "second", "elsewhere", "off"):
        payments.store(name).put(95, __name__="cpu")
    payments.advance(15)
    assert sorted(event["cluster"] for event in payments.active()) == ["main", "second"]
    assert {event["datasource_id"] for event in payments.active()} == {1, second}


def test_a_changed_rule_is_in_force_at_the_next_tick(payments) -> None:
    rule = payments.rule()
    payments.store().put(85, __name__="cpu")
    payments.advance(15)
    assert len(payments.active()) == 1
    path = f"/api/svc/busi-group/{payments.group}/alert-rules/fields"
    dat(payments.app.root.put(path, {"ids": [rule], "fields": {"note": "look at it", "notify_repeat_step": 1}}))
    payments.advance(60)
    assert payments.active()[0]["rule_note"] == "look at it"


def test_an_event_names_the_reason_of_its_end(payments) -> None:
    rule = payments.rule()
    payments.store().put(95, __name__="cpu")
    payments.advance(15)
    path = f"/api/svc/busi-group/{payments.group}/alert-rules"
    dat(payments.app.root.delete(path, {"ids": [rule]}))
    assert payments.history()[0]["annotations"]["close_reason"] == "rule deleted"
    assert payments.history()[0]["is_recovered"] == 1


def test_what_a_race_left_behind_is_closed(payments) -> None:
    """An engine that records an event while its rule is being deleted closes it as soon as it sees the change."""
    rule = payments.rule()
    payments.store().put(95, __name__="cpu")
    payments.advance(14)
    payments.clock.now += 1
    payments.engine.step(payments.clock.now)  # the query is answered, nothing is recorded yet
    path = f"/api/svc/busi-group/{payments.group}/alert-rules"
    dat(payments.app.root.delete(path, {"ids": [rule]}))
    payments.engine.settle(0)
    assert len(payments.active()) == 1
    payments.advance(1)
    assert payments.active() == []
    assert payments.history()[0]["annotations"]["close_reason"] == "rule deleted"


def test_a_failed_write_loses_nothing_and_doubles_nothing(payments, monkeypatch, caplog) -> None:
    payments.rule(prom_for_duration=15)
    payments.store().put(95, __name__="cpu")
    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise OSError("disk full")

        broken.setattr("tocsin.events.journal.EventJournal.record", fail)
        payments.advance(60)
        assert payments.active() == []
        assert [record.levelname for record in caplog.records if "could not be written" in record.message] == ["ERROR"]
    assert payments.metric(
        "svc_alert_rule_eval_error_total", datasource="1", stage="persist_event", busi_group="Payments", rule_id="1"
    )
    payments.advance(15)
    assert len(payments.handed_over()) == 1
    assert len(payments.active()) == 1
    assert len(payments.history()) == 1


def test_a_write_that_fails_half_way_leaves_no_trace(payments, monkeypatch) -> None:
    payments.rule()
    payments.store().put(95, __name__="cpu")
    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise OSError("killed")

        broken.setattr("tocsin.events.journal.EventJournal.mark_anomaly_times", fail)
        payments.advance(15)
    assert (payments.active(), payments.history(), payments.handed_over()) == ([], [], [])
    payments.advance(15)
    assert len(payments.handed_over()) == 1


def test_one_event_that_cannot_be_stored_stops_no_other(payments, monkeypatch) -> None:
    payments.rule("poison")
    payments.rule("good")
    payments.store().put(95, __name__="cpu")
    record = EventJournal.record

    def picky(self: EventJournal, changes: list[Change], now: int) -> list[Change]:
        if any(change.event["rule_name"] == "poison" for change in changes):
            raise ValueError("cannot be stored")
        return record(self, changes, now)

    monkeypatch.setattr(EventJournal, "record", picky)
    payments.advance(60)
    assert [event["rule_name"] for event in payments.active()] == ["good"]
    assert len(payments.history()) == 1
    labels = {"datasource": "1", "stage": "persist_event", "busi_group": "Payments", "rule_id": "1"}
    assert payments.metric("svc_alert_rule_eval_error_total", **labels) == 4


def test_labels_of_any_kind_become_events_on_every_database(world_with, database) -> None:
    world = world_with(DB={"DBType": database.kind, "DSN": database.dsn})
    values = ["\0", "\ud800", "x" * 100_000, "é\u2028\U0001f600", "' OR 1=1 --", "\\", "%"]
    world.rule(name="of {{$labels.a}}", prom_for_duration=15, recover_duration=15)
    for value in (*values, "other"):
        world.store().put(95, __name__="cpu", a=value)
    world.advance(15)
    assert len(world.active()) == len(values) + 1
    world.restart()
    world.advance(15)
    for value in values:
        world.store().put(5, __name__="cpu", a=value)
    world.advance(15)
    world.restart()
    world.advance(30)
    assert [event["tags_map"]["a"] for event in world.active()] == ["other"]
    assert len(world.handed_over()) == 2 * len(values) + 1
    ended = {event["tags"][1] for event in world.history(is_recovered=1)}
    assert ended == {"a=" + value.encode("utf-8", "replace").decode() for value in values}


def test_one_of_two_engines_owns_each_rule(payments) -> None:
    for number in range(30):
        payments.rule(f"cpu {number}")
    payments.store().put(95, __name__="cpu")
    first, membership = payments.engine, payments.membership
    second, other = payments.make_engine("10.0.0.2")
    bound = [1]
    membership.beat(bound)
    first.refresh(payments.clock.now)
    payments.clock.now += 15
    for engine in (first, second):
        engine.step(payments.clock.now)
        engine.settle(0)
    assert len(payments.active()) == 30
    assert len(payments.history()) == 30
    mine = [rule for rule in range(1, 31) if membership.owns(rule, bound[0])]
    theirs = [rule for rule in range(1, 31) if other.owns(rule, bound[0])]
    assert sorted(mine + theirs) == list(range(1, 31))
    assert mine
    assert theirs


def test_a_survivor_takes_over_without_a_second_alert(payments) -> None:
    for number in range(30):
        payments.rule(f"cpu {number}")
    payments.store().put(95, __name__="cpu")
    first, membership = payments.engine, payments.membership
    second, other = payments.make_engine("10.0.0.2")
    membership.beat([1])
    first.refresh(payments.clock.now)
    payments.clock.now += 15
    for engine in (first, second):
        engine.step(payments.clock.now)
        engine.settle(0)
    payments.clock.now += 31  # the first one is not heard of any more
    other.beat([1])
    assert other.others() == frozenset()
    payments.engine = second
    payments.advance(60)
    assert len(payments.active()) == 30
    payments.store().put(5, __name__="cpu")
    payments.advance(15)
    assert len([item for item in payments.handed_over() if item.event["is_recovered"]]) == 30
    assert len(payments.history()) == 60


def test_both_firing_at_once_gives_one_event(payments) -> None:
    """In the seconds in which two engines believe they own a rule, the first one to record wins."""
    payments.rule()
    payments.store().put(95, __name__="cpu")
    payments.advance(0)
    first = payments.engine
    second, _ = payments.make_engine()
    payments.clock.now += 15
    for engine in (first, second):
        engine.step(payments.clock.now)
    for engine in (first, second):
        engine.settle(0)
    assert len(payments.active()) == 1
    assert len(payments.history()) == 1
    payments.clock.now += 15
    payments.store().put(5, __name__="cpu")
    for engine in (second, first):
        engine.step(payments.clock.now)
        engine.settle(0)
    assert len(payments.history()) == 2


def test_a_late_engine_stays_on_the_grid_and_counts_what_it_missed(payments) -> None:
    payments.rule()
    payments.store().put(95, __name__="cpu")
    payments.advance(0)
    payments.clock.now += 100
    payments.engine.step(payments.clock.now)
    payments.engine.settle(0)
    (event,) = payments.active()
    assert event["trigger_time"] == START + 90
    assert payments.metric("svc_alert_rule_eval_missed_total") == 5


def test_an_evaluation_is_never_overlapped(payments) -> None:
    payments.rule()
    held = []
    payments.engine._submit = lambda _, function: held.append(function)
    payments.store().put(95, __name__="cpu")
    payments.advance(45)
    assert len(held) == 1
    assert payments.metric("svc_alert_rule_eval_missed_total") == 2
    held.pop()()
    payments.advance(0)
    assert len(payments.active()) == 1


def test_templates_may_ask_the_datasource(payments) -> None:
    payments.rule(
        annotations={
            "peers": '{{ range query "cpu" }}{{ .Labels.ident }}={{ .Value }} {{ end }}',
            "recovery_promql": "cpu",
        }
    )
    payments.store().put(95, __name__="cpu", ident="a")
    payments.advance(15)
    (event,) = payments.active()
    assert event["annotations"]["peers"] == "a=95 "
    payments.store().put(12, __name__="cpu", ident="a")
    payments.advance(15)
    assert payments.history()[0]["annotations"]["recovery_value"] == "12.00"


def test_a_template_that_cannot_be_rendered_says_so(payments) -> None:
    payments.rule(note="{{ .Nothing }}", annotations={"summary": "{{ if }}"})
    payments.store().put(95, __name__="cpu")
    payments.advance(15)
    (event,) = payments.active()
    assert event["rule_note"].startswith("failed to parse rule note:")
    assert event["annotations"]["summary"].startswith("failed to parse annotations:")


def test_label_values_are_never_templates(payments) -> None:
    payments.rule(name="cpu of {{$labels.ident}}", note="{{$labels.ident}}", append_tags=["who={{$labels.ident}}"])
    payments.store().put(95, __name__="cpu", ident="{{$value}}<b>")
    payments.advance(15)
    (event,) = payments.active()
    assert event["rule_name"] == "cpu of {{$value}}<b>"
    assert event["tags_map"]["who"] == "{{$value}}&lt;b&gt;"
    payments.store().put(5, __name__="cpu", ident="{{$value}}<b>")
    payments.advance(15)
    assert payments.history()[0]["rule_name"] == "cpu of {{$value}}<b>"


def test_relabelling_keeps_the_original_tags(payments) -> None:
    steps = [{"action": "labeldrop", "regex": "^__name__$"}, {"target_label": "env", "replacement": "prod"}]
    steps[1]["action"] = "replace"
    config = {"queries": [{"prom_ql": "cpu > 80", "severity": 1}], "event_relabel_config": steps}
    payments.rule(rule_config=config)
    payments.store().put(95, __name__="cpu", ident="a")
    payments.advance(15)
    (event,) = payments.active()
    assert event["tags"] == ["rulename=cpu", "ident=a", "env=prod"]
    assert event["original_tags"] == ["__name__=cpu", "ident=a", "rulename=cpu"]


def test_the_hash_is_that_of_the_contract(payments) -> None:
    rule = payments.rule()
    payments.store().put(95, __name__="cpu", b='x"y', a="1")
    payments.advance(15)
    text = f'{rule}_cpu{{a="1", b="x\\"y"}}_1_2_cpu > 80'
    assert payments.active()[0]["hash"] == hashlib.md5(text.encode()).hexdigest()


def test_a_failing_datasource_is_counted_and_logged_once(payments, caplog) -> None:
    payments.rule()
    payments.store().failure = "connection refused"
    payments.advance(150)
    assert payments.metric("svc_alert_query_data_error_total", datasource="1") == 10
    labels = {"datasource": "1", "stage": "query_data", "busi_group": "Payments", "rule_id": "1"}
    assert payments.metric("svc_alert_rule_eval_error_total", **labels) == 10
    assert payments.metric("svc_alert_eval_query_series_count", rule_id="1", datasource_id="1", ref="0") == -1
    assert len([record for record in caplog.records if "does not answer" in record.message]) == 1


def test_what_keeps_a_rule_from_being_evaluated_is_shown_on_it(payments) -> None:
    rule = payments.rule()
    payments.advance(15)

    def shown() -> list[dict[str, Any]]:
        return list(dat(payments.app.root.get(f"/api/svc/alert-rule/{rule}"))["eval_errors"])

    assert shown() == []
    payments.store().failure = "connection refused"
    payments.advance(15)
    since = int(payments.clock.now)
    payments.advance(60)
    expected = [{"datasource_id": 1, "since": since, "error": "connection refused"}]
    assert shown() == expected
    payments.restart()
    payments.advance(15)
    assert shown() == expected
    payments.store().failure = ""
    payments.advance(15)
    assert shown() == []


def test_a_rule_that_cannot_be_evaluated_for_long_is_an_event(world_with) -> None:
    world = world_with(Alert={"UnknownAfter": 60})
    world.rule(prom_for_duration=30)
    world.store().put(95, __name__="cpu")
    world.advance(30)
    (alert,) = world.handed_over()
    world.store().failure = "connection refused"
    world.advance(60)
    assert world.handed_over() == []
    world.advance(15)
    (item,) = world.handed_over()
    assert item.event["tags_map"]["__name__"] == "evaluation_failed"
    assert item.event["trigger_values"] == "evaluation failed: connection refused"
    assert item.event["trigger_value"] == "1.00 min"
    world.restart()
    world.advance(3600)
    assert world.handed_over() == []
    assert len(world.active()) == 2
    world.store().failure = ""
    world.advance(15)
    (item,) = world.handed_over()
    assert (item.event["is_recovered"], item.event["tags_map"]["__name__"]) == (True, "evaluation_failed")
    assert [event["hash"] for event in world.active()] == [alert.event["hash"]]


def test_events_of_a_deleted_datasource_end(payments) -> None:
    payments.rule()
    payments.store().put(95, __name__="cpu")
    payments.advance(15)
    dat(payments.app.root.delete("/api/svc/datasource", [1]))
    payments.advance(15)
    assert payments.active() == []
    assert payments.history()[0]["annotations"]["close_reason"] == "datasource deleted"


def test_events_of_a_disabled_datasource_stay(payments) -> None:
    payments.rule()
    payments.store().put(95, __name__="cpu")
    payments.advance(15)
    dat(payments.app.root.post("/api/svc/datasource/status/update", {"id": 1, "status": "disabled"}))
    payments.store().asked.clear()
    payments.advance(60)
    assert len(payments.active()) == 1
    assert payments.store().asked == []


def test_servers_lists_live_engines_only(payments) -> None:
    listed = dat(payments.app.root.get("/api/svc/servers"))
    assert {(row["instance"], row["cluster"]) for row in listed} == {("10.0.0.1:17000", "default")}
    assert {row["datasource_id"] for row in listed} == {1, 99999999}
    assert dat(payments.app.root.get("/api/svc/server-clusters")) == ["default"]
    payments.clock.now += 30
    assert dat(payments.app.root.get("/api/svc/servers")) == []


def test_the_threads_of_the_engine_process(make_app, plugin, make_world) -> None:
    """The real threads, once: a rule fires through lanes and loops, and everything ends with the application."""
    settings = {"Alert": {"EngineDelay": 0}}
    app = make_app(plugins=[plugin], settings=settings, start="engine")
    world = make_world(app, plugin)
    world.rule(cron_pattern="@every 1s")
    world.store().put(95, __name__="cpu")
    wait_until(lambda: bool(world.active()), what="the alert fires")
    assert [event["rule_name"] for event in world.active()] == ["cpu"]
    world.store().put(5, __name__="cpu")
    wait_until(lambda: not world.active(), what="the alert recovers")
    assert [event["is_recovered"] for event in world.history()] == [1, 0]


def test_a_datasource_that_hangs_delays_no_other(make_app, plugin, make_world) -> None:
    app = make_app(plugins=[plugin], settings={"Alert": {"EngineDelay": 0, "QueryConcurrency": 1}}, start="engine")
    world = make_world(app, plugin)
    world.datasource("slow")
    gate = threading.Event()
    try:
        selector = [{"match_type": 0, "op": "in", "values": ["slow"]}]
        for number in range(5):
            world.rule(f"slow {number}", query=f"cpu > {number}", cron_pattern="@every 1s", datasource_queries=selector)
        world.rule(cron_pattern="@every 1s", datasource_queries=[{**selector[0], "values": ["main"]}])
        world.store("slow").gate = gate
        world.store("slow").asked.clear()
        world.store().put(95, __name__="cpu")
        wait_until(lambda: len(world.store("slow").asked) > 0, what="the slow one is asked")
        wait_until(lambda: bool(world.active()), what="the other one fires")
        assert {event["cluster"] for event in world.active()} == {"main"}
    finally:
        gate.set()
