"""Random well-typed expressions over the generated series."""

from __future__ import annotations

import random

_RANGES = ("40s", "1m", "2m30s", "5m", "9m17s")
_SUBQUERY_RANGES = ("40s500ms", "1m500ms", "2m30s500ms", "5m500ms")  # evaluated on whole seconds when nested
_OVER_TIME = ["avg", "min", "max", "sum", "count", "stddev", "stdvar", "last", "present"]
_RATES = ["rate", "irate", "increase", "delta", "idelta", "deriv", "changes", "resets"]
_MATH = [
    "abs",
    "ceil",
    "floor",
    "exp",
    "ln",
    "log2",
    "log10",
    "sqrt",
    "sgn",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
]
_MATH += ["sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "deg", "rad"]
_AGGREGATIONS = ["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"]
_ARITHMETIC = ["+", "-", "*", "/", "%", "^"]
_COMPARISONS = ["==", "!=", ">", "<", ">=", "<="]
_SELECTORS = (
    "temp",
    "level",
    'temp{job="api"}',
    'temp{instance=~"a.*|b.*"}',
    'level{job!="db",zone!~"c.*"}',
    "req_total",
    'req_total{code=~"2..|4.."}',
    'req_total{job="web"}',
    'odd{job=~".+"}',
    "limit",
    "lat_bucket",
    '{__name__=~"temp|level",job="api"}',
)

_COUNTERS = ("req_total", 'req_total{job="api"}', "lat_bucket", 'req_total{code=~"2..|5.."}')


def generated_queries(seed: int, count: int) -> list[str]:
    """Return that many expressions; the same for the same seed."""
    source = random.Random(seed)
    return [_Generator(source).vector(3) for _ in range(count)]


class _Generator:
    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.pick = source.choice

    def selector(self) -> str:
        return self.pick(_SELECTORS)

    def modifiers(self) -> str:
        kind = self.source.random()
        if kind < 0.7:
            return ""
        return self.pick(
            (" offset 1m", " offset -45s", " @ start()", " @ end()", " @ 1700001200.5", " @ end() offset 2m")
        )

    def window(self, depth: int) -> str:
        if depth > 0 and self.source.random() < 0.25:
            return f"({self.vector(depth - 1)})[{self.pick(_SUBQUERY_RANGES)}:{self.pick(('', '17s', '30s'))}]{self.modifiers()}"
        return f"{self.selector()}[{self.pick(_RANGES)}]{self.modifiers()}"

    def scalar(self) -> str:
        return self.pick(("2", "-1.5", "0.3", 'scalar(limit{job="api"})', "1e3", "NaN", "Inf", "3 * 4"))

    def labels(self) -> str:
        return ", ".join(self.source.sample(("job", "instance", "zone", "code", "le"), self.source.randrange(0, 3)))

    def vector(self, depth: int) -> str:
        if depth == 0:
            return self.selector() + self.modifiers()
        makers = (self.over_time, self.rates, self.math, self.aggregation, self.with_scalar, self.matched, self.sets)
        return self.pick(makers)(depth)

    def over_time(self, depth: int) -> str:
        if self.source.random() < 0.15:
            return f"quantile_over_time({self.pick(('0.1', '0.5', '0.99', '1', '-1'))}, {self.window(depth - 1)})"
        return f"{self.pick(_OVER_TIME)}_over_time({self.window(depth - 1)})"

    def rates(self, depth: int) -> str:
        if self.source.random() < 0.1:  # without @, under which 2.42 lets the window move
            window = f"{self.selector()}[{self.pick(_RANGES)}]"
            return f"predict_linear({window}, {self.pick(('60', '-30', '3600'))})"
        function = self.pick(_RATES)
        if function in ("rate", "increase"):  # on values near zero the two generations extrapolate differently
            return f"{function}({self.pick(_COUNTERS)}[{self.pick(_RANGES)}]{self.modifiers()})"
        return f"{function}({self.window(depth - 1)})"

    def math(self, depth: int) -> str:
        inner = self.vector(depth - 1)
        kind = self.source.random()
        if kind < 0.15:
            return f"round({inner}, {self.pick(('0.1', '5', '0.25'))})"
        if kind < 0.3:
            return f"clamp({inner}, -3, {self.pick(('8', '100'))})"
        if kind < 0.4:
            return f"-({inner})"
        return f"{self.pick(_MATH)}({inner})"

    def aggregation(self, depth: int) -> str:
        grouping = self.pick(("", f" by ({self.labels()})", f" without ({self.labels()})"))
        kind = self.source.random()
        if kind < 0.1:
            return f"quantile{grouping}({self.pick(('0.2', '0.5', '0.95'))}, {self.vector(depth - 1)})"
        if kind < 0.15:
            return f'count_values{grouping}("value", round(clamp({self.vector(depth - 1)}, -9, 9)))'
        return f"{self.pick(_AGGREGATIONS)}{grouping}({self.vector(depth - 1)})"

    def with_scalar(self, depth: int) -> str:
        operator = self.pick((*_ARITHMETIC, *_COMPARISONS))
        boolean = " bool" if operator in _COMPARISONS and self.source.random() < 0.5 else ""
        sides = [f"({self.vector(depth - 1)})", self.scalar()]
        self.source.shuffle(sides)
        return f"{sides[0]} {operator}{boolean} {sides[1]}"

    def matched(self, depth: int) -> str:
        operator = self.pick((*_ARITHMETIC, *_COMPARISONS))
        boolean = " bool" if operator in _COMPARISONS and self.source.random() < 0.5 else ""
        matching = self.pick(
            (
                "",
                " on (job, instance)",
                " ignoring (zone, code)",
                " on (job) group_left",
                " on (job, instance) group_right",
                " ignoring (instance, zone, code, le) group_left",
            )
        )
        return f"({self.vector(depth - 1)}) {operator}{boolean}{matching} ({self.vector(depth - 1)})"

    def sets(self, depth: int) -> str:
        matching = self.pick(("", " on (job)", " ignoring (zone, code, le)", " on ()"))
        operator = self.pick(("and", "or", "unless"))
        return f"({self.vector(depth - 1)}) {operator}{matching} ({self.vector(depth - 1)})"
