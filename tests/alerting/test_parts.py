"""Schedules, rings, label texts, windows and relabel steps, each by itself."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.alerting.labels import notation
from tocsin.alerting.relabel import parse_steps, relabelled
from tocsin.alerting.ring import Ring, murmur3
from tocsin.alerting.schedule import ScheduleError, parse_duration, parse_schedule
from tocsin.alerting.scheduler import Scheduler
from tocsin.alerting.windows import windows_of, zone_of
from tocsin.template.show import quote

TUESDAY = dt.datetime(2023, 11, 14, tzinfo=dt.UTC).timestamp()


@pytest.mark.parametrize(
    ("pattern", "at", "following", "interval"),
    [
        ("@every 15s", 100, 105, 15),
        ("@every 1m30s", 100, 180, 90),
        ("@every 500ms", 100.5, 101, 1),
        ("@hourly", TUESDAY + 1, TUESDAY + 3600, 3600),
        ("CRON_TZ=UTC 0 */5 * * * *", TUESDAY, TUESDAY + 300, 300),
        ("CRON_TZ=UTC 30 0 9 * * 1", TUESDAY, TUESDAY + 6 * 86400 + 9 * 3600 + 30, 7 * 86400),
        ("CRON_TZ=Asia/Shanghai 0 0 9 * * *", TUESDAY, TUESDAY + 3600, 86400),
    ],
)
def test_schedules(pattern: str, at: float, following: float, interval: int) -> None:
    schedule = parse_schedule(pattern)
    assert schedule.after(at) == following
    assert schedule.interval(following) == interval
    assert schedule.between(at, following) == 1
    assert schedule.after(following) > following


@pytest.mark.parametrize(
    "pattern",
    ["", "@every", "@every -5s", "@every 5", "@sometimes", "* * * * *", "61 * * * * *", "CRON_TZ=X 0 0 0 * * *"],
)
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(pattern)


def test_durations() -> None:
    assert [parse_duration(text) for text in ("1h30m", "1.5s", "200ms")] == [5400, 1.5, 0.2]


def test_the_scheduler_keeps_points_and_counts_missed_ones() -> None:
    scheduler, fast, slow = Scheduler(), parse_schedule("@every 10s"), parse_schedule("@every 60s")
    scheduler.replace({(1, 1): fast, (2, 1): fast, (3, 1): slow}, 100)
    assert scheduler.next_point() == 110
    assert list(scheduler.due(109.9)) == []
    (tick,) = scheduler.due(110)
    assert (tick.at, tick.keys, tick.missed) == (110, ((1, 1), (2, 1)), 0)
    scheduler.replace({(1, 1): fast, (4, 1): fast}, 115)
    assert scheduler.next_point() == 120
    (tick,) = scheduler.due(151)
    assert (tick.at, tick.keys, tick.missed) == (150, ((1, 1), (4, 1)), 3)
    scheduler.replace({}, 151)
    assert scheduler.next_point() is None


@pytest.mark.parametrize("pattern", ["@every 10s", "CRON_TZ=UTC */10 * * * * *"])
def test_a_clock_that_is_set_wrong_stops_nothing(pattern: str) -> None:
    scheduler = Scheduler()
    scheduler.replace({(1, 1): parse_schedule(pattern)}, 1_000_000)
    (tick,) = scheduler.due(1_000_025)
    assert (tick.at, tick.missed) == (1_000_020, 1)
    assert list(scheduler.due(900_005)) == []
    assert scheduler.next_point() == 900_010
    (tick,) = scheduler.due(9_000_003)
    assert tick.at == 9_000_000
    assert tick.missed >= 999


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"hello", 0x248BFA47),
        (b"hello, world", 0x149BBB7F),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_murmur3(data: bytes, expected: int) -> None:
    assert murmur3(data) == expected


def test_rings_share_fairly_and_move_little() -> None:
    names = ["10.0.0.1:17000", "10.0.0.2:17000", "10.0.0.3:17000"]
    ring, smaller = Ring(names), Ring(names[:2])
    owners = {rule: ring.owner(rule) for rule in range(3000)}
    assert all(700 < share < 1300 for share in Counter(owners.values()).values())
    assert Ring(reversed(names)).owner(42) == ring.owner(42)
    moved = [rule for rule, owner in owners.items() if smaller.owner(rule) != owner]
    assert all(owners[rule] == names[2] for rule in moved)
    assert Ring([]).owner(1) is None


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({}, "{}"),
        ({"__name__": "up"}, "up"),
        ({"b": "2", "__name__": "up", "a": "1"}, 'up{a="1", b="2"}'),
        ({"a": 'x"\\\n\t\x01é\u2028'}, '{a="x\\"\\\\\\n\\t\\x01é\\u2028"}'),
    ],
)
def test_label_sets_as_text(labels: dict[str, str], text: str) -> None:
    assert notation(labels) == text


@given(st.text(), st.text())
def test_quoting_keeps_values_apart(a: str, b: str) -> None:
    assert (quote(a) == quote(b)) == (a == b)


@pytest.mark.parametrize(
    ("start", "end", "days", "inside"),
    [
        ("09:00", "18:00", "2", {9: True, 17: True, 18: False, 8: False}),
        ("22:00", "06:00", "2", {23: True, 5: True, 12: False}),
        ("00:00", "00:00", "2", {0: True, 23: True}),
        ("09:00", "24:00", "2", {23: True}),
        ("09:00", "23:59", "2", {23: True}),
        ("00:00", "00:00", "1", {12: False}),
        ("00:00", "00:00", "7", {12: False}),
    ],
)
def test_windows(start: str, end: str, days: str, inside: dict[int, bool]) -> None:
    windows = windows_of([start], [end], [days.split()], zone_of("UTC"))
    assert {hour: windows.cover(TUESDAY + hour * 3600 + 59 * 60) for hour in inside if hour == 23} == {
        hour: value for hour, value in inside.items() if hour == 23
    }
    assert {hour: windows.cover(TUESDAY + hour * 3600) for hour in inside} == inside


def test_windows_in_another_zone_and_none_at_all() -> None:
    shanghai = windows_of(["09:00"], ["10:00"], [["2"]], zone_of("Asia/Shanghai"))
    assert shanghai.cover(TUESDAY + 1.5 * 3600)
    assert not shanghai.cover(TUESDAY + 9.5 * 3600)
    assert windows_of([], [], [], None).cover(TUESDAY)
    assert not windows_of([], [], [["2"]], None).cover(TUESDAY)


TAGS = ["a=1", "b.c=x-y", "d=1"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"action": "replace", "target_label": "z", "replacement": "v"}, ["z=v", "d=1", "b.c=x-y", "a=1"]),
        (
            {
                "action": "replace",
                "source_labels": ["b___c"],
                "regex": "(.)-(.)",
                "target_label": "z",
                "replacement": "${2}_$1",
            },
            ["z=y_x", "d=1", "b.c=x-y", "a=1"],
        ),
        ({"action": "replace", "source_labels": ["a"], "target_label": "d", "replacement": ""}, ["b.c=x-y", "a=1"]),
        ({"action": "replace", "source_labels": ["a"], "regex": "9", "target_label": "d"}, ["d=1", "b.c=x-y", "a=1"]),
        ({"action": "keep", "source_labels": ["a"], "regex": "2"}, []),
        ({"action": "drop", "source_labels": ["a"], "regex": "1"}, []),
        ({"action": "uppercase", "source_labels": ["b___c"], "target_label": "u"}, ["u=X-Y", "d=1", "b.c=x-y", "a=1"]),
        ({"action": "labeldrop", "regex": "^b"}, ["d=1", "a=1"]),
        ({"action": "labelkeep", "regex": "^b"}, ["b.c=x-y"]),
        ({"action": "labelmap", "regex": "^a$", "replacement": "new"}, ["new=1", "d=1", "b.c=x-y", "a=1"]),
        ({"action": "drop_if_equal", "source_labels": ["a", "d"]}, []),
        ({"action": "hashmod", "source_labels": ["a"], "modulus": 8, "target_label": "h"}, ["h=3"]),
        ({"action": "unknown"}, ["d=1", "b.c=x-y", "a=1"]),
        ({"action": "labeldrop", "regex": "("}, ["d=1", "b.c=x-y", "a=1"]),
    ],
)
def test_relabel_steps(step: dict[str, object], expected: list[str]) -> None:
    found = relabelled(TAGS, parse_steps([step]))
    assert found == expected if step["action"] != "hashmod" else found[0] == "h=3"


@pytest.mark.parametrize("group", ["²", "9" * 5000, "no_such"])
def test_a_replacement_with_a_group_that_is_none_is_empty_there(group: str) -> None:
    step = {"action": "replace", "source_labels": ["a"], "target_label": "b", "replacement": f"x${{{group}}}"}
    assert relabelled(["a=1"], parse_steps([step])) == ["b=x", "a=1"]
