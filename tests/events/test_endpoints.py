"""The event endpoints of the page API."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tocsin.plugin.testkit._app import dat, err
from tocsin.plugin.testkit.components import PATIENCE

NOW = 1_700_000_000


@pytest.fixture
def filled(world) -> Any:
    """Three active events in two groups, one of them repeated, and one that recovered."""
    world.other = world.busi_group("Other", *(["ann"] if world.user("ann") else []))
    world.fire("a", rule_name="cpu busy", severity=1, trigger_time=NOW - 10)
    world.fire("b", rule_name="disk full", rule_id=2, datasource_id=4, cate="loki", rule_prod="logging")
    world.fire("c", group_id=world.other, group_name="Other", trigger_time=NOW - 90_000, tags=["ident=db-01"])
    world.recover(world.fire("d", last_eval_time=NOW - 100))
    return world


def hashes(answer: dict[str, Any]) -> str:
    return "".join(event["hash"] for event in answer["list"])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "abc"),
        ({"limit": 1}, "a"),
        ({"limit": 1, "p": 2}, "b"),
        ({"hours": 1}, "ab"),
        ({"stime": NOW - 30, "etime": NOW}, "a"),
        ({"stime": NOW - 30}, "a"),
        ({"severity": "1"}, "a"),
        ({"severity": "1,2"}, "abc"),
        ({"query": "disk web-01"}, "b"),
        ({"query": "100%"}, ""),
        ({"prods": "logging"}, "b"),
        ({"rule_prods": "logging", "prods": "metric"}, "ac"),
        ({"cate": "loki,mysql"}, "b"),
        ({"cate": "$all"}, "abc"),
        ({"datasource_ids": "4 9"}, "b"),
        ({"datasource_ids": "3,x"}, "ac"),
        ({"rid": 2}, "b"),
        ({"event_ids": "1,2"}, "ab"),
    ],
)
def test_filters_of_active_events(filled, query: dict[str, Any], expected: str) -> None:
    answer = filled.get("/alert-cur-events/list", **query)
    assert hashes(answer) == expected
    if "limit" not in query:
        assert answer["total"] == len(expected)


def test_filters_that_are_refused(filled) -> None:
    root = filled.app.root
    for query, message in (({"severity": "x"}, "cannot convert"), ({"limit": "0"}, "limit: got 0")):
        assert err(root.get("/api/svc/alert-cur-events/list", query=query)).startswith(message)


def test_ids_may_come_in_the_body(filled) -> None:
    path = "/api/svc/alert-cur-events/list"
    assert hashes(dat(filled.app.root.post(path, {"event_ids": [2]}))) == "b"
    assert hashes(dat(filled.app.root.post(path))) == "abc"


def test_the_form_of_an_active_event(filled) -> None:
    event = filled.get("/alert-cur-events/list")["list"][0]
    assert event["tags_map"] == {"ident": "web-01", "rulename": "cpu"}
    assert event["is_recovered"] is False
    assert event["recover_config"] == {"judge_type": 0, "recover_exp": ""}
    assert event["trigger_values_json"] == {"values_with_unit": None}
    assert not {"notify_channels", "notify_groups", "notify_groups_obj"} & event.keys()
    assert filled.get(f"/alert-cur-event/{event['id']}")["last_eval_time"] == event["trigger_time"]


def test_history_needs_a_window(filled) -> None:
    assert filled.get("/alert-his-events/list") == {"list": [], "total": 0}
    answer = filled.get("/alert-his-events/list", hours=1)
    assert hashes(answer) == "dcbad"
    assert [event["is_recovered"] for event in answer["list"]] == [1, 0, 0, 0, 0]
    assert answer["list"][0]["notify_channels"] == answer["list"][0]["notify_groups_obj"] == []
    assert "tags_map" not in answer["list"][0]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"is_recovered": 1}, "d"),
        ({"is_recovered": 0}, "cbad"),
        ({"severity": 1}, "a"),
        ({"severity": 0}, ""),
        ({"rid": 2}, "b"),
        ({"query": "db-01"}, "c"),
        ({"limit": 2, "p": 2}, "ba"),
    ],
)
def test_filters_of_history(filled, query: dict[str, Any], expected: str) -> None:
    assert hashes(filled.get("/alert-his-events/list", hours=1, **query)) == expected


def test_history_pages_by_cursor(filled) -> None:
    first = filled.get("/alert-his-events/list", hours=1, limit=2)
    last = first["list"][-1]
    query = {"cursor_time": last["last_eval_time"], "cursor_id": last["id"], "limit": 2, "p": 7}
    second = filled.get("/alert-his-events/list", hours=1, **query)
    assert hashes(first) + hashes(second) == "dcba"
    assert second["total"] == 5


def test_single_events(filled) -> None:
    recovered = filled.get("/alert-his-events/list", hours=1, is_recovered=1)["list"][0]
    event = filled.get(f"/alert-his-event/{recovered['id']}")
    assert event["is_recovered"] is True
    assert event["recover_time"] == NOW
    assert event["tags_map"]["ident"] == "web-01"
    root = filled.app.root
    assert err(root.get(f"/api/svc/alert-cur-event/{recovered['id']}")) == "no such active event"
    assert err(root.get("/api/svc/alert-his-event/999")) == "No such alert event"
    assert err(root.get("/api/svc/alert-his-event/x")) == "cannot convert x to int64"


def test_members_see_only_their_groups(filled) -> None:
    ann = filled.app.login("ann", "a long password")
    assert hashes(filled.get("/alert-cur-events/list", ann)) == "c"
    assert hashes(filled.get("/alert-his-events/list", ann, hours=1)) == "c"
    assert filled.get("/alert-cur-events/stats", ann)["total"] == 1
    assert filled.get("/event-tagkeys", ann) == ["ident", "app", "service", "instance"]
    refused = ann.get("/api/svc/alert-cur-events/list", query={"bgid": str(filled.group)})
    assert err(refused) == "business group ID not allowed"
    assert err(ann.get("/api/svc/alert-cur-event/1")) == "forbidden"
    assert err(ann.get("/api/svc/alert-his-event/1")) == "forbidden"
    assert [e["hash"] for e in dat(ann.post("/api/svc/alert-cur-events/card/details", {"ids": [1, 2, 3]}))] == ["c"]
    assert err(filled.app.client.get("/api/svc/alert-cur-events/list"))


def test_my_groups_narrows_for_an_admin_too(filled) -> None:
    assert hashes(filled.get("/alert-cur-events/list", my_groups="true")) == "abc"
    filled.fire("e", group_id=12345)
    assert hashes(filled.get("/alert-cur-events/list", query="cpu")).count("e") == 1
    assert "e" not in hashes(filled.get("/alert-cur-events/list", my_groups="true"))


def test_deleting_active_events_needs_write_on_every_group(filled) -> None:
    ann = filled.app.login("ann", "a long password")
    path = "/api/svc/alert-cur-events"
    assert err(ann.delete(path, {"ids": [1, 3]})) == "forbidden"
    assert filled.get("/alert-cur-events/list")["total"] == 3
    assert dat(ann.delete(path, {"ids": [3]})) is None
    assert err(ann.delete(path, {"ids": []})) == "ids empty"
    assert hashes(filled.get("/alert-cur-events/list")) == "ab"


def test_cards_gather_by_view(filled) -> None:
    views = {view["name"]: view["id"] for view in filled.get("/alert-aggr-views")}
    cards = filled.get("/alert-cur-events/card", view_id=views["By BusiGroup, Severity"])
    assert [(card["title"], card["total"], card["severity"]) for card in cards] == [
        ("Payments::1", 1, 1),
        ("Other::2", 1, 2),
        ("Payments::2", 1, 2),
    ]
    made = dat(filled.app.root.post("/api/svc/alert-aggr-views", {"name": "x", "rule": "tagkey:ident::tagkey:nope"}))
    cards = filled.get("/alert-cur-events/card", view_id=made["id"])
    assert [(card["title"], card["total"]) for card in cards] == [("web-01::Others", 2), ("db-01::Others", 1)]
    rule = "{{.RuleName}}/{{.TagsMap.ident}}"
    made = dat(filled.app.root.post("/api/svc/alert-aggr-views", {"name": "y", "rule": rule}))
    titles = [card["title"] for card in filled.get("/alert-cur-events/card", view_id=made["id"])]
    assert sorted(titles) == ["cpu busy/web-01", "cpu/db-01", "disk full/web-01"]
    root = filled.app.root
    assert err(root.get("/api/svc/alert-cur-events/card", query={"view_id": "99"})) == "alert aggr view not found"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"name": " ", "rule": "field:rule_id"}, "name is blank"),
        ({"name": "x", "rule": ""}, "rule is blank"),
        ({"name": "x", "rule": "rule_id"}, "rule invalid"),
        ({"name": "x", "rule": "field:secret"}, "unsupported field: secret"),
    ],
)
def test_views_that_are_refused(world, sent: dict[str, str], message: str) -> None:
    assert err(world.app.root.post("/api/svc/alert-aggr-views", sent)) == message


def test_views_belong_to_their_makers(world) -> None:
    ann, bob = world.user("ann"), world.user("bob")
    made = dat(ann.post("/api/svc/alert-aggr-views", {"name": "mine", "rule": "field:rule_id", "cate": 0}))
    assert made["cate"] == 1
    assert "mine" not in [view["name"] for view in world.get("/alert-aggr-views", bob)]
    assert err(bob.put("/api/svc/alert-aggr-views", {**made, "name": "his"})) == "forbidden"
    dat(bob.delete("/api/svc/alert-aggr-views", {"ids": [made["id"]]}))
    dat(ann.put("/api/svc/alert-aggr-views", {**made, "name": "renamed"}))
    assert "renamed" in [view["name"] for view in world.get("/alert-aggr-views", ann)]
    assert err(ann.put("/api/svc/alert-aggr-views", {**made, "id": 99})) == "no such item(id: 99)"


def test_counts(filled) -> None:
    assert filled.get("/alert-cur-events/stats")["total"] == 3
    assert filled.get("/alert-cur-events/stats")["total_24_ago"] == 1


def test_tags_of_recent_events(filled) -> None:
    assert filled.get("/event-tagkeys") == ["ident", "rulename"]
    assert filled.get("/event-tagvalues", key="ident") == ["web-01"]
    assert err(filled.app.root.get("/api/svc/event-tagvalues")) == "query param[key] is necessary"


def test_history_is_removed_in_the_background(filled) -> None:
    from tocsin.events.cleaning import HistoryCleaner

    path = "/api/svc/alert-his-events"
    ann = filled.app.login("ann", "a long password")
    assert err(ann.delete(path, {"timestamp": NOW})) == "forbidden"
    assert err(filled.app.root.delete(path, {})).startswith("timestamp: got 0")
    text = dat(filled.app.root.delete(path, {"timestamp": NOW + 999, "severities": [2]}))
    assert text == "Alert history events deletion started"
    filled.app.core.get(HistoryCleaner).join(PATIENCE)
    # What is active stays, and so does what is not older than now.
    assert hashes(filled.get("/alert-his-events/list", hours=1)) == "dcba"


def test_old_history_goes_at_night(make_world) -> None:
    from tocsin.events.feature import clean_history

    world = make_world(Center={"CleanAlertHisEventDay": 1})
    world.recover(world.fire("old", last_eval_time=NOW - 90_000), at=NOW - 90_000)
    world.fire("new")
    clean_history(world.app.core)
    assert hashes(world.get("/alert-his-events/list", hours=100)) == "new"


def test_single_events_may_be_opened_to_everybody(make_world) -> None:
    world = make_world(Center={"AnonymousAccess": {"AlertDetail": True}})
    world.fire()
    assert dat(world.app.client.get("/api/svc/alert-cur-event/1"))["hash"] == "h"
    assert err(world.app.client.get("/api/svc/alert-cur-events/list"))


def test_numbers_that_only_look_like_it_find_nothing_and_crash_nothing(filled) -> None:
    assert filled.get("/alert-cur-events/list", datasource_ids="²")["total"] == 0
    assert filled.get("/alert-cur-events/list", datasource_ids="9" * 30)["total"] == 0
    answer = filled.app.root.delete("/api/svc/alert-cur-events", {"ids": [(1 << 64) - 1]})
    assert err(answer).startswith("json body invalid: ids.0: got 18446744073709551615, expected a number")


def test_a_card_template_calls_the_events_methods(filled) -> None:
    rule = '{{.GetTagValue "ident"}} {{.GetField "severity"}}'
    made = dat(filled.app.root.post("/api/svc/alert-aggr-views", {"name": "by method", "rule": rule}))
    titles = {card["title"] for card in filled.get("/alert-cur-events/card", view_id=made["id"])}
    assert titles
    assert all(re.fullmatch(r"[\w-]* [123]", title) for title in titles), titles


def test_a_card_template_that_works_too_hard_fails_the_request(filled) -> None:
    rule = "{{range .TagsJSON}}{{range $.TagsJSON}}{{range $.TagsJSON}}" + "{{$x := print .}}" * 80 + "{{end}}" * 3
    root = filled.app.root
    made = dat(root.post("/api/svc/alert-aggr-views", {"name": "hard", "rule": rule}))
    assert "too much work" in err(root.get("/api/svc/alert-cur-events/card", query={"view_id": str(made["id"])}))


def test_a_search_has_so_many_words_at_most(filled) -> None:
    answer = filled.app.root.get("/api/svc/alert-cur-events/list", query={"query": "a " * 1500})
    assert err(answer) == "query: got 1500 words, expected at most 32"


def test_events_of_a_deleted_group_are_removed_by_admins_alone(filled) -> None:
    none, gone = filled.fire("none", group_id=0), filled.fire("gone", group_id=999)
    root, ann = filled.app.root, filled.app.login("ann", "a long password")
    assert err(ann.delete("/api/svc/alert-cur-events", {"ids": [gone["id"]]})) == "forbidden"
    dat(ann.delete("/api/svc/alert-cur-events", {"ids": [none["id"]]}))
    dat(root.delete("/api/svc/alert-cur-events", {"ids": [gone["id"]]}))
    assert not {"none", "gone"} & {event["hash"] for event in filled.get("/alert-cur-events/list")["list"]}
