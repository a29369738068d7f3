"""Values with units."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.alerting import units
from tocsin.alerting.units import formatted, plain_number


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("", 90, "90.00"),
        ("none", 90.126, "90.13"),
        ("percent", 12, "12.00%"),
        ("percentUnit", 0.12, "12.00%"),
        ("short", 1500, "1.50k"),
        ("sishort", -2_500_000, "-2.50M"),
        ("default", 0, "0"),
        ("s", 5400, "1.50 h"),
        ("seconds", 1.5, "1.50 s"),
        ("ms", 1500, "1.50 s"),
        ("ns", 12, "12.00 ns"),
        ("s", 0, "0.00 s"),
        ("d", 400, "1.10 y"),
        ("humantimeMilliseconds", 90_000, "1.50 min"),
        ("bytesIEC", 167_772_160, "160.00MiB"),
        ("bytes(IEC)", 512, "512.00B"),
        ("mebibytes", 1, "1.00MiB"),
        ("mebibytes", 0.5, "512.00KiB"),
        ("kibibytes", 1024, "1.00MiB"),
        ("bytesSI", 1_500_000_000, "1.50GB"),
        ("megabytes", 1500, "1.50GB"),
        ("bitsSI", 999, "999.00b"),
        ("bytesSecSI", 1500, "1.50kB/s"),
        ("mebibitsSec", 1, "1.00Mib/s"),
        ("packetsSec", 1500, "1.50kp/s"),
        ("kilometer", 1.5, "1.50km"),
        ("millimeter", 20, "20.00mm"),
        ("foot", 6, "6.00 ft"),
        ("reqps", 1500, "1.50 kreq/s"),
        ("celsius", 20, "20.00 °C"),
        ("dBm", -70, "-70.00dBm"),
        ("widgets", 3, "3.00 widgets"),
        ("percent", math.nan, "NaN"),
        ("percent", math.inf, "+Inf"),
        ("", -math.inf, "-Inf"),
    ],
)
def test_texts(unit: str, value: float, text: str) -> None:
    assert formatted(unit, value)["text"] == text


def test_values_that_are_no_numbers_stay_storable() -> None:
    assert formatted("", math.nan)["value"] == 0
    assert formatted("", math.inf)["value"] == 9_999_999_999
    assert formatted("percentUnit", 0.5) == {"value": 50.0, "unit": "%", "text": "50.00%", "stat": 50.0}


def test_dates() -> None:
    assert len(formatted("datetimeSeconds", 1_700_000_000)["text"]) == 19
    assert formatted("datetimeMilliseconds", 1_700_000_000_000) | {"value": 0, "stat": 0} == formatted(
        "datetimeSeconds", 1_700_000_000
    ) | {"value": 0, "stat": 0}
    assert formatted("datetimeSeconds", 1e300)["text"]


def test_plain_numbers() -> None:
    assert [plain_number(value) for value in (12.5, 3.0, 0.123456, -0.5)] == ["12.5", "3", "0.12346", "-0.5"]


ALL_UNITS = ["", "percentUnit", "short", "dBm", "foot", "x", *units.SECONDS_PER, *units.SPACED, *units.LENGTHS]
ALL_UNITS += ["bytesIEC", "bitsSI", "tebibytes", "petabitsSec", "bytesSecIEC", "datetimeSeconds"]


@given(st.sampled_from(ALL_UNITS), st.floats())
def test_every_value_has_a_text(unit: str, value: float) -> None:
    result = formatted(unit, value)
    assert result["text"]
    assert math.isfinite(result["value"]) or abs(value) > 1e300
