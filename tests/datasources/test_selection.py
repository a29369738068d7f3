"""Which datasources selectors mean."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.datasources.records import DatasourceRecord
from tocsin.datasources.selection import select

RECORDS = [
    DatasourceRecord(1, "prod-eu", "prometheus"),
    DatasourceRecord(2, "prod-us", "prometheus"),
    DatasourceRecord(3, "test", "prometheus"),
    DatasourceRecord(4, "3", "prometheus"),
    DatasourceRecord(5, "odd[1]", "prometheus"),
]


def q(match_type: int, op: str, *values: Any) -> dict[str, Any]:
    return {"match_type": match_type, "op": op, "values": list(values)}


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        ([], []),
        ([q(0, "in", 1, 3)], [1, 3]),
        ([q(0, "in", 0)], [1, 2, 3, 4, 5]),
        ([q(0, "in", "0")], [1, 2, 3, 4, 5]),
        ([q(0, "in", 0, 1)], [1]),
        ([q(0, "not in", 1)], [2, 3, 4, 5]),
        ([q(0, "not in", 0)], [1, 2, 3, 4, 5]),
        ([q(0, "in", "test")], [3]),
        ([q(0, "in", "3")], [4]),
        ([q(0, "in", "2")], [2]),
        ([q(0, "in", "nobody")], []),
        ([q(0, "in")], []),
        ([q(1, "in", "prod-*")], [1, 2]),
        ([q(1, "in", "prod-?u", "te*")], [1, 3]),
        ([q(1, "not in", "prod-*")], [3, 4, 5]),
        ([q(1, "in", "odd[1]")], [5]),
        ([q(1, "in", "PROD-*")], []),
        ([q(2, "in", 9)], [1, 2, 3, 4, 5]),
        ([q(2, "not in", 1)], [1, 2, 3, 4, 5]),
        ([q(1, "in", "prod-*"), q(0, "not in", 2)], [1]),
        ([q(0, "in", 1), q(0, "in", 2)], []),
        ([q(7, "in", 1)], []),
        ([q(0, "like", 1)], []),
    ],
)
def test_selectors_are_applied_in_turn(queries: list[dict[str, Any]], expected: list[int]) -> None:
    assert [record.id for record in select(RECORDS, queries)] == expected
