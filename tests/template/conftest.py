"""Shared fixtures of the template tests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any

import pytest

from tocsin.template import Mode, TemplateEngine, field_functions

NOW = 1_735_700_705.25  # 2025-01-01 03:05:05.25 UTC


@pytest.fixture
def engine() -> TemplateEngine:
    """An engine with the whole function table, a fixed clock and a zone two hours east."""
    return TemplateEngine(field_functions(lambda: NOW, timezone(timedelta(hours=2), "EET")))


@pytest.fixture
def text(engine: TemplateEngine) -> Callable[..., str]:
    """Render in text mode: ``text(template, data)``."""
    return lambda source, data=None, **kw: engine.render("t", source, data, Mode.TEXT, **kw)


@pytest.fixture
def page(engine: TemplateEngine) -> Callable[..., str]:
    """Render in HTML mode: ``page(template, data)``."""

    def render(source: str, data: Any = None, **kw: Any) -> str:
        return engine.render("t", source, data, Mode.HTML, **kw)

    return render
