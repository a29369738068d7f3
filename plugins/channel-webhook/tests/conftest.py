"""A receiver on the loopback interface."""

from collections.abc import Iterator

import pytest

from tocsin.plugin.testkit.components import HttpSink


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    with HttpSink() as sink:
        yield sink
