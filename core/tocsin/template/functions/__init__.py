"""The functions that alerting templates know on top of Go's own, one module per subject."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo

from ..values import Function
from . import contacts, numbers, samples, text
from .samples import SAMPLE, sample
from .times import time_functions

__all__ = ["SAMPLE", "field_functions", "sample"]


def field_functions(clock: Callable[[], float], zone: tzinfo) -> dict[str, Function]:
    """The whole table by name; ``clock`` gives seconds since 1970, ``zone`` is the server's local time zone."""
    functions = (
        *text.FUNCTIONS,
        *numbers.FUNCTIONS,
        *contacts.FUNCTIONS,
        *samples.FUNCTIONS,
        *time_functions(clock, zone),
    )
    return {function.name: function for function in functions}
