"""An entry of the log is one line."""

from __future__ import annotations

import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.app.log_lines import LineFormatter

FORMATTER = LineFormatter("%(levelname)s %(message)s")


def formatted(message: str, *arguments: object, exc_info: object = None) -> str:
    return FORMATTER.format(logging.LogRecord("test", logging.WARNING, "", 0, message, arguments, exc_info))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcode 温度", "plain, ünïcode 温度"),
        ("a\nERROR forged", "a\\nERROR forged"),
        ("\x1b[31m\r\0\x7f\u2028", "\\x1b[31m\\r\\x00\\x7f\\u2028"),
        ("C:\\n", "C:\\n"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert formatted("quoted: %s", text) == f"WARNING quoted: {shown}"


def test_traces_keep_their_lines() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError:
        lines = formatted("failed:\n", exc_info=sys.exc_info()).splitlines()
    assert lines[:2] == ["WARNING failed:\\n", "Traceback (most recent call last):"]


@given(st.text())
def test_any_message_is_one_line(text: str) -> None:
    assert len(formatted("%s", text).splitlines()) == 1
