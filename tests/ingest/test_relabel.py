"""Relabelling: the actions as Prometheus documents them, with results worked out by hand."""

from __future__ import annotations

import hashlib
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.ingest.relabel import Relabeler, RelabelError, RelabelRule, expand, parse_rule

LABELS = {"__name__": "up", "instance": "web01:9100", "job": "node", "empty": ""}


def apply(*rules, labels=None):
    return Relabeler([parse_rule(rule, "r") for rule in rules]).apply(dict(labels or LABELS))


def changed(rule, labels=None):
    """Return what a rule adds or changes, and the names that it removes."""
    before = {name: value for name, value in (labels or LABELS).items() if value}
    after = apply(rule, labels=labels)
    return {k: v for k, v in after.items() if before.get(k) != v}, sorted(before.keys() - after.keys())


def rule(**keys):
    return keys


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (rule(SourceLabels=["instance"], Regex="([^:]+)(?::\\d+)?", TargetLabel="node"), ({"node": "web01"}, [])),
        (rule(SourceLabels=["job", "instance"], TargetLabel="x"), ({"x": "node;web01:9100"}, [])),
        (rule(SourceLabels=["job", "nope"], Separator="-", TargetLabel="x"), ({"x": "node-"}, [])),
        (rule(TargetLabel="dc", Replacement="fra"), ({"dc": "fra"}, [])),
        (rule(TargetLabel="job", Replacement=""), ({}, ["job"])),
        (rule(SourceLabels=["nope"], TargetLabel="job"), ({}, ["job"])),
        (rule(SourceLabels=["job"], Regex="nod", TargetLabel="x"), ({}, [])),
        (rule(SourceLabels=["job"], Regex="nod|node", TargetLabel="x", Replacement="y"), ({"x": "y"}, [])),
        (
            rule(SourceLabels=["job"], Regex="(?P<first>.)(.*)", TargetLabel="${first}_x", Replacement="$2"),
            ({"n_x": "ode"}, []),
        ),
        (rule(SourceLabels=["job"], TargetLabel="a-b"), ({}, [])),
        (rule(SourceLabels=["job"], TargetLabel="x", Replacement="$$1${1}z$1z"), ({"x": "$1nodez"}, [])),
        (rule(SourceLabels=["job"]), ({}, [])),
        (rule(Action="lowercase", SourceLabels=["job"], TargetLabel="job"), ({}, [])),
        (rule(Action="uppercase", SourceLabels=["job", "__name__"], TargetLabel="x"), ({"x": "NODE;UP"}, [])),
        (rule(Action="labelmap", Regex="(j)ob"), ({"j": "node"}, [])),
        (rule(Action="labelmap", Regex="job", Replacement="kind"), ({"kind": "node"}, [])),
        (rule(Action="labelmap", Regex="job"), ({}, [])),
        (rule(Action="labelmap", Regex="empty", Replacement="job"), ({}, [])),
        (rule(Action="labeldrop", Regex="j.*|inst"), ({}, ["job"])),
        (rule(Action="labelkeep", Regex="job|__name__"), ({}, ["instance"])),
        (rule(Action="Replace", SourceLabels=["job"], TargetLabel="x"), ({"x": "node"}, [])),
    ],
)
def test_changes(keys, expected):
    assert changed(keys) == expected


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        (rule(Action="keep", SourceLabels=["job"], Regex="node"), True),
        (rule(Action="keep", SourceLabels=["job"], Regex="nod"), False),
        (rule(Action="keep", SourceLabels=["nope"], Regex=""), True),
        (rule(Action="drop", SourceLabels=["__name__"], Regex="go_.*"), True),
        (rule(Action="drop", SourceLabels=["__name__", "job"], Regex="up;node"), False),
        (rule(Action="keepequal", SourceLabels=["job"], TargetLabel="instance"), False),
        (rule(Action="keepequal", SourceLabels=["nope"], TargetLabel="nope2"), True),
        (rule(Action="dropequal", SourceLabels=["job"], TargetLabel="job"), False),
        (rule(Action="dropequal", SourceLabels=["job"], TargetLabel="instance"), True),
        (rule(Action="drop_if_equal", SourceLabels=["job", "job"]), False),
        (rule(Action="drop_if_equal", SourceLabels=["job", "instance"]), True),
        (rule(Action="drop_if_equal", SourceLabels=["job"]), True),
        (rule(Action="labeldrop", Regex=".*"), False),
    ],
)
def test_keeps(keys, kept):
    assert (apply(keys) is not None) is kept


def test_hashmod():
    """The last eight bytes of the MD5 of the value, big-endian, modulo."""
    expected = int(hashlib.md5(b"node;up").hexdigest()[16:], 16) % 7
    keys = rule(Action="hashmod", SourceLabels=["job", "__name__"], TargetLabel="shard", Modulus=7)
    assert changed(keys) == ({"shard": str(expected)}, [])


def test_rules_run_in_order_and_stop_at_a_drop():
    first = rule(SourceLabels=["job"], TargetLabel="x")
    assert apply(first, rule(SourceLabels=["x"], TargetLabel="y"))["y"] == "node"
    assert apply(rule(Action="drop", SourceLabels=["job"], Regex="node"), first) is None


def test_dot_matches_line_ends_and_regex_is_linear():
    assert apply(rule(Action="keep", SourceLabels=["a"], Regex="x.y"), labels={"a": "x\ny"}) is not None
    assert apply(rule(Action="keep", SourceLabels=["a"], Regex="(a|aa)+b"), labels={"a": "a" * 5000}) is None


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (rule(Action="explode"), r"r\.Action: expected one of .*labelkeep.*got 'explode'"),
        (rule(Regex="("), r"r\.Regex: '\(' is not a regular expression: missing \)$"),
        (rule(Regex="(?=x)"), r"r\.Regex"),
        (rule(Action="hashmod", TargetLabel="x"), r"r\.Modulus: expected a number above 0"),
        (rule(Action="lowercase"), r"r\.TargetLabel"),
        (rule(SourceLabels="job"), r"r\.SourceLabels: expected an array of strings, got 'job'"),
        (rule(SourceLabels=[1]), r"r\.SourceLabels"),
        (rule(Action="uppercase", TargetLabel="a-b"), r"r\.TargetLabel: expected a label name .*, got 'a-b'"),
        (rule(Action="labelmap", Replacement="a-$1"), r"r\.Replacement: expected what makes a label name, got 'a-\$1'"),
        (
            rule(Action="labeldrop", SourceLabels=["pod"]),
            r"r\.SourceLabels: action 'labeldrop' has no use for this key",
        ),
        (rule(Action="labelkeep", Regex="a", TargetLabel="b"), r"r\.TargetLabel: action 'labelkeep' has no use"),
        (rule(Action="keepequal", TargetLabel="b", Regex="x"), r"r\.Regex: action 'keepequal' has no use"),
        (rule(Modulus="7"), r"r\.Modulus: expected a number"),
        (rule(Modulus=True), r"r\.Modulus: expected a number"),
        (rule(Regex=7), r"r\.Regex: expected a string"),
    ],
)
def test_refused_rules(keys, message):
    with pytest.raises(RelabelError, match=message):
        parse_rule(keys, "r")


def test_unknown_key_is_named(caplog):
    with caplog.at_level(logging.WARNING):
        parse_rule({"If": "{}", "TargetLabel": "x"}, "Pushgw.Writers[0].WriteRelabels[1]")
    assert "Pushgw.Writers[0].WriteRelabels[1].If" in caplog.text


def test_a_rule_without_effect_is_named_once(caplog):
    with caplog.at_level(logging.WARNING):
        Relabeler([parse_rule({"SourceLabels": ["a"]}, "Pushgw.Writers[0].WriteRelabels[1]")])
    assert [record.message for record in caplog.records] == [
        "Pushgw.Writers[0].WriteRelabels[1] has no TargetLabel and has no effect"
    ]


def test_resolver():
    relabel = Relabeler([RelabelRule(action="drop", source_labels=("a",), regex="x")])
    assert relabel([(b"a", b"x")]).drop == "relabel"
    assert relabel([(b"z", b"\xff"), (b"a", b"y")]).labels == [(b"a", b"y"), (b"z", "\ufffd".encode())]


@given(st.text(max_size=20))
def test_templates_never_fail(template):
    import re2

    assert isinstance(expand(template, re2.compile("(a)(b)?").fullmatch("a")), str)
