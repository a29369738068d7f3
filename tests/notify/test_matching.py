"""When a route of a rule applies to an event."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.notify.conftest import NOW

from tocsin.events.form import new_event
from tocsin.notify.matching import FilterError, compile_conditions, compile_filter, compile_range, plain_text

TARGET = {"group_ids": [4, 7], "group_names": ["Payments", "Core"]}
EVENT = new_event(
    severity=2,
    trigger_time=NOW,
    rule_id=41,
    is_recovered=False,
    group_name="Payments ",
    tags=["service=pay-api"],
    tags_map={"service": "pay-api", "empty": ""},
    target=TARGET,
)
"""Happened on a Tuesday at 22:13 UTC."""


def matches(zone: dt.tzinfo = dt.UTC, **config: Any) -> bool:
    return not compile_conditions(config).mismatch(EVENT, zone)


@pytest.mark.parametrize(
    ("func", "value", "expected"),
    [
        ("==", " pay-api ", True),
        ("==", "pay", False),
        ("!=", "pay", True),
        ("!=", "pay-api", False),
        ("in", ["pay-api", 3], True),
        ("in", "other pay-api", True),
        ("in", ["pay"], False),
        ("not in", ["pay"], True),
        ("not in", ["pay-api"], False),
        ("=~", "^pay", True),
        ("=~", "api", True),
        ("=~", "^api", False),
        ("!~", "^api", True),
        ("!~", "pay", False),
    ],
)
def test_operators_on_tags(func: str, value: Any, expected: bool) -> None:
    assert matches(label_keys=[{"key": "service", "func": func, "value": value}]) is expected
    assert matches(label_keys=[{"key": "service", "func": "", "op": func, "value": value}]) is expected


@pytest.mark.parametrize("func", ["==", "!=", "in", "not in", "=~", "!~"])
def test_an_absent_tag_fails_every_operator(func: str) -> None:
    assert not matches(label_keys=[{"key": "absent", "func": func, "value": "x"}])
    assert not matches(attributes=[{"key": "absent", "func": func, "value": "x"}])


@pytest.mark.parametrize(
    ("key", "func", "value", "expected"),
    [
        ("rule_id", "==", "41", True),
        ("rule_id", "in", [41, 42], True),
        ("rule_id", "in", [42], False),
        ("is_recovered", "==", "false", True),
        ("group_name", "==", "Payments", True),
        ("group_name", "in", ["Payments"], False),
        ("tags", "=~", "pay-api", True),
        ("target_group", "in", [7, 9], True),
        ("target_group", "in", ["7"], True),
        ("target_group", "in", [9], False),
        ("target_group", "not in", [9], True),
        ("target_group", "not in", [4], False),
        ("target_group", "=~", "^Co", True),
        ("target_group", "!~", "^Co", False),
        ("target_group", "!~", "^X", True),
        ("target_group", "==", "Core", False),
    ],
)
def test_operators_on_fields(key: str, func: str, value: Any, expected: bool) -> None:
    assert matches(attributes=[{"key": key, "func": func, "value": value}]) is expected


def test_an_event_without_host_matches_no_host_group() -> None:
    conditions = compile_conditions({"attributes": [{"key": "target_group", "func": "not in", "value": [1]}]})
    assert conditions.mismatch({**EVENT, "target": None}, dt.UTC)


@pytest.mark.parametrize(
    ("severities", "expected"), [([], True), (None, True), ([2], True), ([1, 2], True), ([1, 3], False)]
)
def test_severities_none_means_all(severities: Any, expected: bool) -> None:
    assert matches(severities=severities) is expected


@pytest.mark.parametrize(
    ("start", "end", "week", "expected"),
    [
        ("22:00", "23:00", [2], True),
        ("22:13", "22:14", [2], True),
        ("22:00", "22:13", [2], False),
        ("22:14", "23:00", [2], False),
        ("22:00", "23:00", [1, 3], False),
        ("22:00", "23:00", [], False),
        ("08:00", "08:00", [2], True),
        ("23:00", "22:30", [2], True),
        ("22:30", "22:00", [2], False),
        ("00:00", "23:59", [2], True),
    ],
)
def test_times_of_day(start: str, end: str, week: list[int], expected: bool) -> None:
    assert matches(time_ranges=[{"start": start, "end": end, "week": week}]) is expected


def test_times_are_those_of_the_servers_zone() -> None:
    wednesday = [{"start": "06:00", "end": "07:00", "week": [3]}]
    assert matches(dt.timezone(dt.timedelta(hours=8)), time_ranges=wednesday)
    assert not matches(time_ranges=wednesday)


def test_one_of_several_ranges_is_enough() -> None:
    morning, night = (
        {"start": start, "end": end, "week": [2]} for start, end in (("08:00", "12:00"), ("20:00", "23:00"))
    )
    assert matches(time_ranges=[morning, night])
    assert not matches(time_ranges=[morning])


def test_the_last_minute_of_the_day_is_in_a_range_that_ends_with_it() -> None:
    assert compile_range({"start": "20:00", "end": "23:59", "week": [0]}).covers(23 * 60 + 59, 0)
    assert not compile_range({"start": "20:00", "end": "23:58", "week": [0]}).covers(23 * 60 + 58, 0)


@given(st.integers(0, 1439), st.integers(0, 1439), st.integers(0, 1439))
def test_a_range_and_its_reverse_share_the_day(start: int, end: int, minute: int) -> None:
    def text(value: int) -> str:
        return f"{value // 60:02}:{value % 60:02}"

    one = compile_range({"start": text(start), "end": text(end), "week": [0]})
    other = compile_range({"start": text(end), "end": text(start), "week": [0]})
    covered = (one.covers(minute, 0), other.covers(minute, 0))
    assert covered == (True, True) if start == end else any(covered)
    if 1439 not in (start, end) and start != end:
        assert covered[0] != covered[1]


def test_a_reason_is_given_for_what_does_not_match() -> None:
    def reason(**config: Any) -> str:
        return compile_conditions(config).mismatch(EVENT, dt.UTC)

    assert reason(time_ranges=[{"start": "01:00", "end": "02:00", "week": [2]}]) == "event time not match time filter"
    assert reason(severities=[3]) == "event severity not match severity filter"
    assert reason(label_keys=[{"key": "a", "func": "==", "value": ""}]) == "event tag not match tag filter"
    assert reason(attributes=[{"key": "a", "func": "=="}]) == "event attributes not match attributes filter"


@pytest.mark.parametrize("value", ["(", "a{2,1}", 3, None, ["a"]])
def test_a_pattern_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(FilterError, match=r"^a: "):
        compile_filter({"key": "a", "func": "=~", "value": value})


def test_a_pattern_cannot_hold_the_engine_up() -> None:
    test = compile_filter({"key": "a", "func": "=~", "value": "^(a+)+$"}).test
    assert not test("a" * 50_000 + "b")


@given(st.recursive(st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(), st.lists))
def test_every_json_value_has_a_text(value: Any) -> None:
    assert isinstance(plain_text(value), str)
