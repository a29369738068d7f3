"""Variables in queries."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.alerting.variables import VariableError, filled

PROM = "used{ident=\"$host\", path='$p'} > $limit"


def enum(*values: str) -> dict[str, Any]:
    return {"param_type": "enum", "query": list(values)}


def threshold(value: Any) -> dict[str, Any]:
    return {"param_type": "threshold", "query": value}


def query(top: dict[str, dict[str, Any]], child: Any = None, prom_ql: str = PROM) -> dict[str, Any]:
    listed = [{"name": name, **parameter} for name, parameter in top.items()]
    return {"prom_ql": prom_ql, "var_enabled": True, "var_config": {"param_val": listed, "child_var_configs": child}}


def test_every_combination_and_the_exceptions_of_deeper_levels() -> None:
    top = {"host": enum("a", "db"), "p": enum("/", "/data"), "limit": threshold(80)}
    child = {
        "param_val": [{"host": enum("db"), "p": enum("/data"), "limit": threshold("95")}],
        "child_var_configs": {"param_val": [{"host": enum("new"), "p": enum("/"), "limit": threshold(1.5)}]},
    }
    assert filled(query(top, child)) == [
        'used{ident="a", path="/"} > 80',
        'used{ident="a", path="/data"} > 80',
        'used{ident="db", path="/"} > 80',
        'used{ident="db", path="/data"} > 95',
        'used{ident="new", path="/"} > 1.5',
    ]


def test_values_cannot_leave_their_quotes() -> None:
    (text,) = filled(query({"h": enum('"} or up{a="')}, prom_ql='up{h="$h"}'))
    assert text == 'up{h="\\"} or up{a=\\""}'


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"limit": threshold("80 or up")}, "variable limit: got '80 or up', expected a number"),
        ({"limit": threshold(True)}, "variable limit: got True, expected a number"),
        ({"p": enum()}, "variable p: expected an array of at least one text"),
        ({"p": {"param_type": "host", "query": []}}, "variable p: param_type 'host' is not available"),
        ({"limit": threshold(1), "p": enum("/")}, "variable host has no value where it stands"),
        ({"limit": enum("1"), "p": enum("/"), "host": enum("a")}, "variable limit has no value where it stands"),
        (
            {"host": enum(*map(str, range(100))), "p": enum(*map(str, range(6))), "limit": threshold(1)},
            "var_config: more",
        ),
    ],
)
def test_variables_that_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(VariableError) as caught:
        filled(query(parameters))
    assert str(caught.value).startswith(message)


def test_a_rule_with_variables_fires_per_combination(payments) -> None:
    config = {"queries": [{**query({"limit": threshold(80)}, prom_ql="cpu > $limit"), "severity": 2}]}
    payments.rule(rule_config=config)
    payments.store().put(95, __name__="cpu")
    payments.advance(15)
    (event,) = payments.active()
    assert event["prom_ql"] == "cpu > 80"
    labels = {"rule_id": "1", "datasource_id": "1", "ref": "0", "typ": "BeforeQuery"}
    assert payments.metric("svc_alert_var_filling_query_total", **labels) == 1
