"""Random well-typed expressions over awkward data: an answer or a proper refusal, never anything else."""

from __future__ import annotations

import contextlib
import random

import pytest

from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.promql.interface import STALE_NAN, PromQLError
from tocsin_tsdb.promql.parser import parse
from tocsin_tsdb.promql.printer import to_text
from tocsin_tsdb.promql.render import render_data
from tocsin_tsdb.promql.signatures import FUNCTIONS

from .memory import MemoryStore

AWKWARD = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e15, float("inf"), float("-inf"), float("nan"), STALE_NAN]
AGGREGATIONS = ["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"]
PARAMETRIC = ["topk", "bottomk", "quantile", "limitk", "limit_ratio"]
OPERATORS = ["+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<="]
MATCHING = [
    "",
    " on ()",
    " on (a)",
    " ignoring (a)",
    " on (a) group_left (b)",
    " ignoring (b) group_right ()",
    " fill (0)",
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Short, empty, broken and extreme series."""
    source = random.Random(1)
    store = MemoryStore()
    for name in ("m", "n_total", "h_bucket"):
        for number in range(5):
            count = (0, 1, 2, 9, 30)[number]
            stamps = sorted(source.sample(range(600_000), count))
            labels = {
                "__name__": name,
                "a": str(number % 3),
                "b": f"v{number}",
                "le": ("", "1", "+Inf", "x", "2.5")[number],
            }
            store.add(labels, stamps, [source.choice(AWKWARD) for _ in stamps])
    return Engine(store, max_samples=2_000_000)


class Expressions:
    """A generator of expressions of each type."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)

    def of(self, kind: str, depth: int) -> str:
        return {"vector": self.vector, "scalar": self.scalar, "matrix": self.matrix, "string": self.string}[kind](depth)

    def pick(self, options: list[str]) -> str:
        return self.source.choice(options)

    def string(self, depth: int) -> str:
        return self.pick(['""', '"a"', '"b"', '"$1-x"', '"(.*)"', '"le"', '"("', '"utf 8"'])

    def scalar(self, depth: int) -> str:
        if depth <= 0 or self.source.random() < 0.5:
            return self.pick(["0", "1", "-1", "0.5", "2", "NaN", "Inf", "-Inf", "1e300", "5m", "0.0001", "7"])
        functions = [name for name, each in FUNCTIONS.items() if each.returns == "scalar"]
        return self.pick(
            [self.call(self.pick(functions), depth), f"({self.scalar(depth - 1)} * {self.scalar(depth - 1)})"]
        )

    def selector(self) -> str:
        return self.pick(
            ["m", "n_total", "h_bucket", "none", '{a="1"}', 'm{b=~"v.*",a!="0"}', '{__name__=~"m|n_total"}']
        )

    def suffix(self) -> str:
        return self.pick([""] * 6 + [" offset 1m", " offset -5m", " @ 300", " @ start()", " @ end() offset 1m"])

    def matrix(self, depth: int) -> str:
        span = self.pick(["1ms", "30s", "2m", "1h", "10m"])
        if depth > 0 and self.source.random() < 0.3:
            return f"({self.vector(depth - 1)})[{span}:{self.pick(['', '7s', '1m'])}]{self.suffix()}"
        return f"{self.selector()}[{span}]{self.suffix()}"

    def call(self, name: str, depth: int) -> str:
        signature = FUNCTIONS[name]
        args = [self.of(kind, depth - 1) for kind in signature.args]
        if name == "info":
            args[1] = self.pick(["{}", '{b=~".*"}', '{__name__="m"}'])
        if signature.variadic and self.source.random() < 0.4:
            args.pop()
        return f"{name}({', '.join(args)})"

    def vector(self, depth: int) -> str:
        if depth <= 0:
            return self.selector() + self.suffix()
        kind = self.source.random()
        if kind < 0.5:
            functions = [name for name, each in FUNCTIONS.items() if each.returns == "vector"]
            return self.call(self.pick(functions), depth)
        if kind < 0.65:
            grouping = self.pick(["", " by (a)", " without (b, le)", " by ()", " by (__name__)"])
            if self.source.random() < 0.2:
                return f"count_values{grouping}({self.string(0)}, {self.vector(depth - 1)})"
            if self.source.random() < 0.5:
                return f"{self.pick(PARAMETRIC)}{grouping}({self.scalar(depth - 1)}, {self.vector(depth - 1)})"
            return f"{self.pick(AGGREGATIONS)}{grouping}({self.vector(depth - 1)})"
        if kind < 0.8:
            matching = self.pick(MATCHING)
            return f"({self.vector(depth - 1)}) {self.pick(OPERATORS)}{matching} ({self.vector(depth - 1)})"
        if kind < 0.9:
            operator = self.pick([*OPERATORS[:7], "> bool", "== bool", "<"])
            return f"{self.scalar(depth - 1)} {operator} -({self.vector(depth - 1)})"
        return f"({self.vector(depth - 1)}) {self.pick(['and', 'or', 'unless'])} ({self.vector(depth - 1)})"


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions(engine: Engine, seed: int) -> None:
    expressions = Expressions(seed)
    answered = 0
    for _ in range(150):
        query = expressions.vector(3)
        with contextlib.suppress(PromQLError):
            assert to_text(parse(to_text(parse(query)))) == to_text(parse(query))
        with contextlib.suppress(PromQLError):
            render_data(engine.instant(query, 400_000).value)
            render_data(engine.range(query, -60_000, 700_000, 95_000).value)
            answered += 1
    assert answered > 30


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_on_everything(engine: Engine, name: str) -> None:
    """Each function by itself, with arguments of all sorts, instant and range."""
    expressions = Expressions(len(name))
    for _ in range(15):
        query = expressions.call(name, 1)
        with contextlib.suppress(PromQLError):
            render_data(engine.instant(query, 400_000).value)
        with contextlib.suppress(PromQLError):
            render_data(engine.range(query, 0, 600_000, 60_000).value)
