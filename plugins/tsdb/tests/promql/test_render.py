"""Answers as JSON, and numbers digit for digit."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_tsdb.promql.interface import Matrix, Scalar, Selection, String, Vector
from tocsin_tsdb.promql.numbers import format_decimal, format_exponent, format_general, format_json
from tocsin_tsdb.promql.render import render_data, value_tokens

FORMATS = [
    (0.0, "0"),
    (-0.0, "-0"),
    (1.0, "1"),
    (-1.5, "-1.5"),
    (0.1, "0.1"),
    (1e15, "1000000000000000"),
    (123456789012345680.0, "123456789012345680"),
    (1e20, "100000000000000000000"),
    (1e21, "1e+21"),
    (1.5e300, "1.5e+300"),
    (1e-6, "0.000001"),
    (1e-7, "1e-07"),
    (-2.5e-10, "-2.5e-10"),
    (5e-324, "5e-324"),
    (math.inf, "+Inf"),
    (-math.inf, "-Inf"),
    (math.nan, "NaN"),
]


@pytest.mark.parametrize(("value", "text"), FORMATS)
def test_values(value: float, text: str) -> None:
    assert format_json(value) == text
    assert value_tokens(np.array([1.0, value])) == [b"1", text.encode()]


def test_other_formats() -> None:
    assert format_decimal(1e21) == "1000000000000000000000"
    assert format_decimal(1e-7) == "0.0000001"
    assert format_exponent(0.0) == "0e+00"
    assert format_exponent(120.0) == "1.2e+02"
    assert format_general(1e-5) == "1e-05"
    assert format_general(1.1) == "1.1"
    assert format_general(1e20) == "100000000000000000000"


@given(st.lists(st.floats()))
def test_every_value_survives(values: list[float]) -> None:
    tokens = value_tokens(np.array(values, dtype=np.float64))
    assert len(tokens) == len(values)
    for token, value in zip(tokens, values, strict=True):
        back = float(token)
        assert back == value or (math.isnan(back) and math.isnan(value))
        assert math.copysign(1, back) == math.copysign(1, value) or math.isnan(value)


def test_scalar_and_string() -> None:
    assert render_data(Scalar(1_500, 2.0)) == b'{"resultType":"scalar","result":[1.500,"2"]}'
    assert render_data(String(-1_001, 'a"\n')) == b'{"resultType":"string","result":[-1.001,"a\\"\\n"]}'


def test_vector() -> None:
    value = Vector(60_000, [(("__name__", "ü"), ("a", 'b"')), ()], np.array([1.0, math.inf]))
    assert json.loads(render_data(value)) == {
        "resultType": "vector",
        "result": [
            {"metric": {"__name__": "ü", "a": 'b"'}, "value": [60, "1"]},
            {"metric": {}, "value": [60, "+Inf"]},
        ],
    }
    assert render_data(Vector(0, [], np.empty(0))) == b'{"resultType":"vector","result":[]}'


def test_matrix_leaves_out_what_is_absent() -> None:
    value = Matrix(
        [(("a", "1"),), (("a", "2"),)],
        np.array([0, 1_250, 2_000]),
        np.array([[1.0, 2.5, 3.0], [np.nan, 1e300, -0.0]]),
        np.array([[True, True, True], [False, True, True]]),
    )
    assert json.loads(render_data(value)) == {
        "resultType": "matrix",
        "result": [
            {"metric": {"a": "1"}, "values": [[0, "1"], [1.25, "2.5"], [2, "3"]]},
            {"metric": {"a": "2"}, "values": [[1.25, "1e+300"], [2, "-0"]]},
        ],
    }
    empty = Matrix([], np.array([0]), np.empty((0, 1)), np.empty((0, 1), dtype=np.bool_))
    assert render_data(empty) == b'{"resultType":"matrix","result":[]}'


def test_samples() -> None:
    value = Selection(
        [(("a", "1"),), (("a", "2"),)],
        np.array([0, 1, 3]),
        np.array([5, 6_000, 7_010]),
        np.array([1.0, 2.0, 1e-9]),
    )
    assert json.loads(render_data(value))["result"] == [
        {"metric": {"a": "1"}, "values": [[0.005, "1"]]},
        {"metric": {"a": "2"}, "values": [[6, "2"], [7.01, "1e-09"]]},
    ]
