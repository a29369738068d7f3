"""Numbers as text, digit for digit as Go's `strconv.FormatFloat` with the shortest precision, and times."""

from __future__ import annotations

from decimal import Decimal


def format_special(value: float) -> str | None:
    """Return the text of NaN and the infinities, None for ordinary numbers."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return None


def format_decimal(value: float) -> str:
    """Format without an exponent ('f', -1)."""
    special = format_special(value)
    if special is not None:
        return special
    text = repr(value)
    if "e" in text:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


def format_exponent(value: float) -> str:
    """Format with an exponent of at least two digits ('e', -1)."""
    digits = Decimal(repr(value)).as_tuple()
    exponent = int(digits.exponent) + len(digits.digits) - 1
    mantissa = "".join(map(str, digits.digits)).rstrip("0") or "0"
    exponent = 0 if mantissa == "0" else exponent
    fraction = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{'-' if digits.sign else ''}{mantissa[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def format_general(value: float) -> str:
    """Format as `%g` does: an exponent below 1e-4 and from 1e21 on."""
    special = format_special(value)
    if special is not None:
        return special
    return format_exponent(value) if value and not 1e-4 <= abs(value) < 1e21 else format_decimal(value)


def format_json(value: float) -> str:
    """Format as the Prometheus API writes sample values: an exponent below 1e-6 and from 1e21 on."""
    special = format_special(value)
    if special is not None:
        return special
    return format_exponent(value) if value and not 1e-6 <= abs(value) < 1e21 else format_decimal(value)


def time_token(timestamp_ms: int) -> bytes:
    """Return seconds with three decimals, or none for whole seconds."""
    sign = "-" if timestamp_ms < 0 else ""
    seconds, fraction = divmod(abs(timestamp_ms), 1000)
    return (f"{sign}{seconds}.{fraction:03d}" if fraction else f"{sign}{seconds}").encode()
