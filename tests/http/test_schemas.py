"""What bodies of every capability have in common."""

from __future__ import annotations

from typing import Any

import pytest
from marshmallow import ValidationError

from tocsin.http.schemas import MOST_IDS, IdsSchema, Loose, Whole, identifier, ids, integer, text, truth


class Thing(Loose):
    id = identifier()
    size = integer(3)
    name = text(5)
    on = truth()
    weights = ids()
    wanted = Whole(required=True)


def test_null_is_not_sent_and_unknown_members_are_ignored() -> None:
    given = {"id": None, "size": None, "name": None, "on": None, "weights": None, "wanted": 1, "more": 5}
    assert Thing().load(given) == {"id": 0, "size": 3, "name": "", "on": False, "weights": [], "wanted": 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", True),
        ("size", 1.5),
        ("size", "1"),
        ("size", 1 << 63),
        ("id", 1 << 31),
        ("id", -1),
        ("weights", [False]),
        ("weights", [1 << 63]),
        ("name", "longer"),
        ("on", 1),
        ("wanted", None),
    ],
)
def test_what_a_database_cannot_hold_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Thing().load({"wanted": 1, name: value})
    assert list(caught.value.normalized_messages()) == [name]


def test_a_request_names_so_many_ids_at_most() -> None:
    assert len(IdsSchema().load({"ids": [1] * MOST_IDS})["ids"]) == MOST_IDS
    with pytest.raises(ValidationError):
        IdsSchema().load({"ids": [1] * (MOST_IDS + 1)})
