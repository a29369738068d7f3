"""What protocols of text share: names, numbers, and the memory of label sets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.plugin import DecodeError, LabelSets, WireError, encode_labels, encode_texts, expect, metric_name, tag_name
from tocsin.plugin._points import parse_seconds, parse_value


@pytest.mark.parametrize(("given", "clean"), [("a.b-c", "a_b_c"), ("a:b", "a:b"), ("_x1", "_x1"), (".5", "_5")])
def test_metric_names_are_cleaned(given, clean):
    assert metric_name(given) == clean


@pytest.mark.parametrize("name", ["", "1a", "a b", "é", "a/b", "a\n"])
def test_other_names_are_refused(name):
    for function, what in ((metric_name, "metric"), (tag_name, "tag")):
        with pytest.raises(ValueError, match=f"invalid {what} name: "):
            function(name)


def test_labels_have_no_colons():
    for name in ("a:b", "__name__", "--name--"):
        with pytest.raises(ValueError, match=f"invalid tag name: {name}"):
            tag_name(name)


def test_texts_that_are_no_unicode_are_refused():
    assert encode_texts([("a", "ü")]) == encode_labels([(b"a", "ü".encode())])
    for pair in (("a", "\ud800"), ("", "b")):
        with pytest.raises(WireError):
            encode_texts([pair])


def test_what_is_asked_for_stays():
    sets = LabelSets(max_bytes=10_000)
    for number in range(1000):
        sets.put(b"%d" % number, b"x" * 10)
        assert sets.get(b"0") == b"x" * 10
    stats = sets.stats()
    assert stats.hits == 1000
    assert 20 < stats.entries < 60
    assert stats.evictions > 900
    assert sets.get(b"1") is None
    assert sets.stats().misses == 1


def test_what_is_very_long_is_not_kept():
    sets = LabelSets()
    sets.put((b"a", b"b" * 20_000), b"x")
    assert sets.get((b"a", b"b" * 20_000)) is None
    assert sets.stats().entries == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.binary(max_size=40)), max_size=200))
def test_a_set_is_what_was_put_last_or_nothing(puts):
    sets = LabelSets(max_bytes=2000)
    model: dict[str, bytes] = {}
    for number, labels in puts:
        key = str(number)
        found = sets.get(key)
        assert found is None or found == model[key]
        sets.put(key, labels)
        model[key] = labels
        assert sets.get(key) == labels
        assert sets.stats().entries * 200 <= 2000


@pytest.mark.parametrize("text", ["1", "-2.5", "1e3", ".5", "5.", "+7", "Infinity", "-inf"])
def test_texts_of_numbers(text):
    assert parse_value(text) == float(text)
    assert math.isnan(parse_value("nan"))


@given(st.text(max_size=8) | st.none() | st.booleans() | st.lists(st.integers(0, 9), max_size=1))
def test_whatever_else_is_no_value(value):
    try:
        number = parse_value(value)
    except ValueError:
        return
    assert number == float(value) or math.isnan(number)


def test_times():
    assert parse_seconds(5_000_000_000_000, 10_000_000_000) == 5_000_000_000
    assert parse_seconds(1_000, 500) == 500
    assert parse_seconds(800, 500) == 800
    assert parse_seconds(None, 500) == 0
    for wrong in (1.0, True, "1"):
        with pytest.raises(DecodeError, match=r"\.timestamp: got "):
            parse_seconds(wrong, 0)
    with pytest.raises(ValueError, match="out of range"):
        parse_seconds(-(1 << 63), 0)


def test_expectations_name_the_field():
    with pytest.raises(DecodeError, match=r"a.b: got \[1\], expected a string"):
        expect("a.b", [1], str, "a string")
