"""Log lines that may come by the thousand."""

from __future__ import annotations

import logging

from tocsin.ingest.throttle import Throttle


def test_one_line_of_a_kind_and_interval(caplog):
    now = [100.0]
    throttle = Throttle(logging.getLogger("test"), 10.0, lambda: now[0])
    for _ in range(3):
        throttle.warning(lambda: "the disk is full", "disk")
        throttle.warning(lambda: "no answer")
    now[0] += 10
    throttle.warning(lambda: "no answer")
    now[0] += 10
    throttle.warning(lambda: "no answer")
    assert [record.getMessage() for record in caplog.records] == [
        "the disk is full",
        "no answer",
        "no answer (2 more like it were left out before)",
        "no answer",
    ]


def test_lines_that_are_left_out_are_not_made():
    throttle = Throttle(logging.getLogger("test"), 10.0, lambda: 0.0)
    made = []

    def line():
        made.append("one")
        return "a line"

    for _ in range(3):
        throttle.warning(line)
    assert made == ["one"]
