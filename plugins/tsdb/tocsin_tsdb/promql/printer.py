"""From the syntax tree back to text: in one line where it is short, indented where it is not."""

from __future__ import annotations

from . import nodes
from .durations import format_duration, quote
from .durationterms import Term, term_text
from .interface import METRIC_NAME
from .labeltext import is_plain_metric, label_name
from .nodes import Expr
from .numbers import format_decimal

_LINE = 100
_INDENT = "  "
_DEEPEST = 60


def pretty(expr: Expr, level: int = 0) -> str:
    """Return the expression over several lines, each construct longer than a line split at its parts."""
    indent = _INDENT * level
    if isinstance(expr, nodes.Subquery):
        return pretty(expr.expr, level) + _subquery_suffix(expr)
    line = to_text(expr)
    if len(line) <= _LINE or level > _DEEPEST:
        return indent + line
    match expr:
        case nodes.Aggregate():
            return _split(indent, _aggregate_head(expr), nodes.children(expr), level)
        case nodes.Call():
            return _split(indent, expr.function.name, expr.args, level)
        case nodes.Paren():
            return _split(indent, "", [expr.expr], level)
        case nodes.Unary():
            return indent + expr.operator + pretty(expr.expr, level).lstrip()
        case nodes.Binary():
            operator = indent + expr.operator + _matching(expr)
            return "\n".join((pretty(expr.left, level + 1), operator, pretty(expr.right, level + 1)))
        case _:
            return indent + line


def _split(indent: str, head: str, parts: list[Expr], level: int) -> str:
    inner = ",\n".join(pretty(part, level + 1) for part in parts)
    return f"{indent}{head}(\n{inner}\n{indent})"


def to_text(expr: Expr) -> str:
    """Return the expression in one line."""
    match expr:
        case nodes.NumberLiteral():
            return _number(expr)
        case nodes.StringLiteral():
            return quote(expr.value)
        case nodes.VectorSelector():
            return _selector(expr) + _time_suffix(expr)
        case nodes.MatrixSelector():
            window = _duration(expr.range_ms, expr.range_term)
            return f"{_selector(expr.selector)}[{window}]{_time_suffix(expr.selector)}"
        case nodes.Subquery():
            return to_text(expr.expr) + _subquery_suffix(expr)
        case nodes.Call():
            return f"{expr.function.name}({', '.join(map(to_text, expr.args))})"
        case nodes.Aggregate():
            return f"{_aggregate_head(expr)}({', '.join(map(to_text, nodes.children(expr)))})"
        case nodes.Binary():
            first, operations = nodes.chain(expr)
            parts = (f" {each.operator}{_matching(each)} {to_text(each.right)}" for each in operations)
            return to_text(first) + "".join(parts)
        case nodes.Unary():
            return expr.operator + to_text(expr.expr)
        case nodes.Paren():
            return f"({to_text(expr.expr)})"


def _number(expr: nodes.NumberLiteral) -> str:
    if expr.is_duration:
        return format_duration(round(expr.value * 1000))
    return format_decimal(expr.value).removeprefix("+")  # a sign would be read as an operator of its own


def _selector(expr: nodes.VectorSelector) -> str:
    name, matchers = expr.name, list(expr.matchers)
    if name:
        matchers.pop()  # the parser puts the name written before the braces last
    plain = [matcher for matcher in matchers if matcher.name == METRIC_NAME and matcher.op == "="]
    if not name and len(plain) == 1:
        name = plain[0].value
        matchers.remove(plain[0])
    parts = [f"{label_name(matcher.name)}{matcher.op}{quote(matcher.value)}" for matcher in matchers]
    if name and not is_plain_metric(name):
        parts.insert(0, quote(name))
        name = ""
    return f"{name}{{{','.join(parts)}}}" if parts else name


def _time_suffix(expr: nodes.VectorSelector | nodes.Subquery) -> str:
    text = f" {expr.extension}" if isinstance(expr, nodes.VectorSelector) and expr.extension else ""
    if isinstance(expr.at, str):
        text += f" @ {expr.at}()"
    elif expr.at is not None:
        text += f" @ {expr.at / 1000:.3f}"
    if not expr.offset_ms and expr.offset_term is None:
        return text
    return f"{text} offset {_duration(expr.offset_ms or 0, expr.offset_term)}"


def _subquery_suffix(expr: nodes.Subquery) -> str:
    step = "" if expr.step_ms is None else _duration(expr.step_ms, expr.step_term)
    return f"[{_duration(expr.range_ms, expr.range_term)}:{step}]{_time_suffix(expr)}"


def _duration(milliseconds: int, term: Term | None) -> str:
    return format_duration(milliseconds) if term is None else term_text(term)


def _names(names: tuple[str, ...]) -> str:
    return f"({', '.join(map(label_name, names))})"


def _aggregate_head(expr: nodes.Aggregate) -> str:
    if expr.without:
        return f"{expr.operator} without {_names(expr.grouping)} "
    return f"{expr.operator} by {_names(expr.grouping)} " if expr.grouping else expr.operator


def _matching(expr: nodes.Binary) -> str:
    matching = expr.matching
    text = " bool" if expr.return_bool else ""
    if matching.labels or matching.on or matching.group:
        text += f" {'on' if matching.on else 'ignoring'} {_names(matching.labels)}"
    if matching.group:
        text += f" group_{matching.group} {_names(matching.include)}"
    left, right = matching.fill_left, matching.fill_right
    if left is not None and left == right:
        return f"{text} fill ({format_decimal(left)})"
    text += f" fill_left ({format_decimal(left)})" if left is not None else ""
    return text + (f" fill_right ({format_decimal(right)})" if right is not None else "")
