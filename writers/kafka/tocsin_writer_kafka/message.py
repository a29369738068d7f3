"""Batches as message values."""

from __future__ import annotations

import json
import math
from typing import Any

from tocsin.plugin import DecodedSeries, decode_chunk


class NotEncodableError(ValueError):
    """A batch with a sample that the format has no way to say."""


def json_value(body: bytes) -> bytes:
    """Return the series of a body in the wire format as a JSON array.

    NaN samples are left out (staleness markers too); an infinite one raises :class:`NotEncodableError`.  Zero values and
    times and empty names are left out of their objects, as receivers of this format expect.
    """
    return json.dumps([series(one) for one in decode_chunk(body)], separators=(",", ":"), ensure_ascii=False).encode()


def series(decoded: DecodedSeries) -> dict[str, Any]:
    """Return one series as JSON values."""
    samples = [sample(at, value) for at, value in decoded.samples if not math.isnan(value)]
    labels = [_filled(name=name, value=value) for name, value in decoded.labels]
    return {"labels": labels, "samples": samples, "exemplars": None, "histograms": None}


def sample(at: int, value: float) -> dict[str, Any]:
    """Return one sample, its time in milliseconds."""
    if math.isinf(value):
        raise NotEncodableError(f"a sample is {value}, which JSON cannot say")
    whole = int(value) if value.is_integer() and abs(value) < 1 << 53 else value
    return _filled(value=whole, timestamp=at)


def _filled(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
