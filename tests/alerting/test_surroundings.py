"""What events say of hosts and notification rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.plugin.testkit._app import dat
from tocsin.targets.hosts import Hosts
from tocsin.targets.views import HostViews


def test_an_event_says_which_host_it_is_about(payments) -> None:
    hosts = payments.core.get(Hosts)
    hosts.register(["web01", "web02"])
    hosts.bind(["web01"], [payments.group], ["rack=7"])
    hosts.set_note(["web01"], "in the cellar")
    payments.rule(annotations={"where": "{{.TargetNote}} {{.Target.Ident}}"})
    for ident in ("web01", "web02", "nobody"):
        payments.store().put(90, __name__="cpu", ident=ident)
    payments.advance(15)
    found = {event["target_ident"]: event for event in payments.active()}
    about = found["web01"]
    assert (about["target_note"], about["annotations"]) == ("in the cellar", {"where": "in the cellar web01"})
    assert (about["target"]["group_ids"], about["target"]["group_names"]) == ([payments.group], ["Payments"])
    assert about["target"]["tags"] == ["rack=7"]
    assert found["web02"]["target"]["group_names"] == []
    assert (found["nobody"]["target"], found["nobody"]["target_note"]) == (None, "")
    assert all(item.event["target"] == found[item.event["target_ident"]]["target"] for item in payments.handed_over())


def test_hosts_of_all_alerts_of_an_evaluation_are_looked_up_at_once(payments, monkeypatch) -> None:
    asked: list[set[str]] = []

    def described(_: HostViews, idents: Iterable[str]) -> dict[str, Any]:
        asked.append(set(idents))
        return {}

    monkeypatch.setattr(HostViews, "described", described)
    payments.restart()
    payments.rule()
    for ident in ("web01", "web02"):
        payments.store().put(90, __name__="cpu", ident=ident)
    payments.advance(60)
    assert asked == [{"web01", "web02"}]


def test_an_event_names_its_notification_rules(payments) -> None:
    root = payments.app.root
    (rule,) = dat(root.post("/api/svc/notify-rules", [{"name": "on call", "enable": True, "user_group_ids": []}]))
    payments.rule(notify_rule_ids=[rule["id"], 99])
    payments.store().put(90, __name__="cpu")
    payments.advance(15)
    (event,) = payments.active()
    for kind in ("cur", "his"):
        shown = dat(root.get(f"/api/svc/alert-{kind}-event/{event['id']}"))
        assert shown["notify_rules"] == [{"id": rule["id"], "name": "on call"}]
    dat(root.delete("/api/svc/notify-rules", {"ids": [rule["id"]]}))
    assert dat(root.get(f"/api/svc/alert-cur-event/{event['id']}"))["notify_rules"] is None


def test_a_rule_for_the_hosts_of_its_group_looks_at_the_host_that_relabelling_finds(payments) -> None:
    hosts, other = payments.core.get(Hosts), payments.busi_group("Other")
    hosts.register(["web01", "web02", "web03"])
    hosts.bind(["web01"], [payments.group])
    hosts.bind(["web02"], [other])
    steps = [{"action": "replace", "source_labels": ["instance"], "regex": "(.*):.*", "target_label": "ident"}]
    queries = [{"prom_ql": "cpu > 80", "severity": 2}]
    payments.rule(enable_in_bg=1, rule_config={"queries": queries, "event_relabel_config": steps})
    for host in ("web01", "web02", "web03"):
        payments.store().put(90, __name__="cpu", instance=f"{host}:9100")
    payments.advance(15)
    assert sorted(event["target_ident"] for event in payments.active()) == ["web01", "web03"]
