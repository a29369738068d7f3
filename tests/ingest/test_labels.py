"""Identity, target labels, drop rules: hand-written cases of what the contract of the gateway says."""

from __future__ import annotations

import pytest

from tocsin.ingest.hosts import NoHosts, Target
from tocsin.ingest.labels import (
    COLLECTOR,
    COLLECTOR_OR_HOST,
    DropReason,
    LabelRules,
    LabelWork,
    tag_labels,
)


class Hosts(NoHosts):
    def __init__(self, **targets):
        self.targets = targets

    def lookup(self, ident):
        return self.targets.get(ident)


def work(labels, rule=COLLECTOR, targets=None, **rules):
    pairs = [(name.encode(), value.encode()) for name, value in labels]
    return LabelWork(LabelRules(**rules), targets or NoHosts(), rule)(pairs)


def text(verdict):
    return {name.decode(): value.decode() for name, value in verdict.labels}


@pytest.mark.parametrize(
    ("labels", "rule", "expected", "ident"),
    [
        ({"ident": "a", "agent_hostname": "b"}, COLLECTOR, {"ident": "a", "agent_hostname": "b"}, "a"),
        ({"agent_hostname": "b", "hostname": "c"}, COLLECTOR, {"ident": "b", "hostname": "c"}, "b"),
        ({"hostname": "c"}, COLLECTOR, {"ident": "c", "hostname": "c"}, "c"),
        ({"host": "d"}, COLLECTOR, {"host": "d"}, ""),
        ({"host": "d"}, COLLECTOR_OR_HOST, {"ident": "d"}, "d"),
        ({"host": "d", "hostname": "c"}, COLLECTOR_OR_HOST, {"host": "d", "hostname": "c", "ident": "c"}, "c"),
        ({"ident": "", "agent_hostname": "b"}, COLLECTOR, {"ident": "b"}, "b"),
        ({"ident": "", "agent_hostname": ""}, COLLECTOR, {"ident": "", "agent_hostname": ""}, ""),
        (
            {"agent_hostname": "", "hostname": "c"},
            COLLECTOR,
            {"agent_hostname": "", "hostname": "c", "ident": "c"},
            "c",
        ),
    ],
)
def test_identity(labels, rule, expected, ident):
    verdict = work(labels.items(), rule)
    assert (text(verdict), verdict.ident, verdict.drop) == (expected, ident, "")


def test_output_is_sorted():
    assert [name for name, _ in work([("z", "1"), ("agent_hostname", "h"), ("a", "2")]).labels] == [
        b"a",
        b"ident",
        b"z",
    ]


def test_duplicate_names_are_dropped():
    verdict = work([("a", "1"), ("a", "1")])
    assert (verdict.drop, verdict.ident) == (DropReason.DUPLICATE, "")


HOSTS = Hosts(web01=Target(tag_labels(["dc=fra", "owner=a", "a=b=c", "plain"], ["owner=b"]), b""))


def test_target_labels_are_attached():
    assert text(work([("ident", "web01")], targets=HOSTS)) == {"ident": "web01", "dc": "fra", "owner": "b"}
    assert text(work([("ident", "other")], targets=HOSTS)) == {"ident": "other"}
    assert text(work([("x", "y")], targets=HOSTS)) == {"x": "y"}


@pytest.mark.parametrize(
    ("rewrite", "extra", "owner"),
    [(True, [], "b"), (False, [], "mine"), (True, [("busigroup", "g")], "mine"), (True, [("busigroup", "")], "mine")],
)
def test_collisions(rewrite, extra, owner):
    labels = [("ident", "web01"), ("owner", "mine"), *extra]
    result = text(work(labels, targets=HOSTS, label_rewrite=rewrite))
    assert (result["owner"], result["dc"]) == (owner, "fra")


def test_business_group_label():
    hosts = Hosts(a=Target({}, b"infra"), b=Target({b"team": b"tagged"}, b"infra"))
    assert text(work([("ident", "a")], targets=hosts))["busigroup"] == "infra"
    assert text(work([("ident", "a"), ("busigroup", "own")], targets=hosts))["busigroup"] == "own"
    assert text(work([("ident", "a")], targets=hosts, group_key=b"team"))["team"] == "infra"
    assert text(work([("ident", "b")], targets=hosts, group_key=b"team"))["team"] == "tagged"


def test_drop_rules_see_attached_labels():
    rules = [{}, {b"dc": b"fra", b"__name__": b"up"}, {b"__name__": b"down"}]
    assert work([("ident", "web01"), ("__name__", "up")], targets=HOSTS, drop=rules).drop == DropReason.RULE
    assert work([("ident", "web01"), ("__name__", "UP")], targets=HOSTS, drop=rules).drop == ""
    assert work([("__name__", "up")], targets=HOSTS, drop=rules).drop == ""
    assert work([("__name__", "down")], drop=rules).drop == DropReason.RULE
    assert work([("ident", "web01"), ("__name__", "up")], targets=HOSTS, drop=rules).ident == "web01"


def test_debug_sample():
    assert not work([("a", "1")]).debug
    assert work([("ident", "web01")], targets=HOSTS, debug={b"dc": b"fra"}).debug
    assert not work([("ident", "web01")], targets=HOSTS, debug={b"dc": b"fra", b"x": b""}).debug


@pytest.mark.parametrize(
    ("labels", "rules", "expected"),
    [
        ([("ident", "a")], {}, False),
        ([("ident", "a")], {"register": True}, True),
        ([("a", "a")], {"register": True}, False),
        ([("ident", "a"), ("__name__", "up")], {"register": True, "register_metrics": frozenset({b"up"})}, True),
        ([("ident", "a"), ("__name__", "x")], {"register": True, "register_metrics": frozenset({b"up"})}, False),
    ],
)
def test_registration(labels, rules, expected):
    assert work(labels, **rules).register is expected


def test_identity_that_is_not_utf8():
    verdict = LabelWork(LabelRules(), NoHosts())([(b"ident", b"\xff")])
    assert (verdict.ident, list(verdict.labels)) == ("�", [(b"ident", b"\xff")])
