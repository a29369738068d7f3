"""What is done with every sample and every cell of a grid: compiled where a compiler was there, else with NumPy."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from . import _windows_py

_twin: Any = _windows_py
with contextlib.suppress(ImportError):  # no C compiler when the distribution was installed
    _twin = importlib.import_module("tocsin_tsdb.promql._windows")

positions = _twin.positions
latest = _twin.latest
extrapolated = _twin.extrapolated
add_resets = _windows_py.add_resets
resets_before = _windows_py.resets_before
