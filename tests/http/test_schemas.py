"""What bodies of every capability have in common."""

from __future__ import annotations

from typing import Any

import pytest
from marshmallow import ValidationError, fields, validate

from tocsin.http.errors import ApiError
from tocsin.http.schemas import MOST_IDS, IdsSchema, Loose, Whole, checked, identifier, ids, integer, text, truth


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


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        ({"size": True}, "size: got true, expected an integer"),
        ({"size": "12"}, "size: got a text, expected an integer"),
        ({"id": 10**30}, f"id: got {10**30}, expected a number greater than or equal to 0"),
        ({"on": []}, "on: got an array, expected true or false"),
        ({"weights": [1, {}]}, "weights.1: got an object, expected an integer"),
        ({"name": "longer"}, "name: got a length of 6, expected at most 5"),
        ({"kind": "c"}, 'kind: got "c", expected one of a, b'),
        ({"kind": "x" * 200}, 'kind: got "' + "x" * 79 + "..., expected"),
        ({"places": [{"name": 1}]}, "places.0.name: got 1, expected a text"),
        ({"words": {"a": None}}, "words.a.value: Field may not be null."),
        ({"words": {"a": 1}}, "words.a.value: got 1, expected a text"),
        ([], "got an array, expected an object"),
    ],
)
def test_a_complaint_says_what_came_and_what_was_expected(sent: Any, complaint: str) -> None:
    class Place(Loose):
        name = text()

    class Whole(Thing):
        wanted = integer()
        kind = fields.String(validate=validate.OneOf(("a", "b")))
        places = fields.List(fields.Nested(Place))
        words = fields.Dict(keys=fields.String(), values=fields.String())

    with pytest.raises(ApiError) as caught:
        checked(Whole(), sent, "body")
    assert caught.value.message.startswith(f"body: {complaint}")
