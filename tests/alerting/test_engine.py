"""Firing and recovering, seen through the API and the outbox."""

from __future__ import annotations


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
