"""Functions that change labels or order: label_replace, label_join, sort*, absent*."""

from __future__ import annotations

import re
from functools import cmp_to_key

import numpy as np

from . import nodes
from .frames import Frame, label_value, make_labels, merge_same_labels
from .interface import METRIC_NAME, BoolArray, ExecutionError, Labels
from .regex import Match, Regex, compile_regex

_REFERENCE = re.compile(r"\$(?:(\$)|\{(\w+)\}|(\w+))?")
_GROUP_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_DIGITS = re.compile(r"(\d+)")


def replace_label(frame: Frame, target: str, replacement: str, source: str, pattern: str) -> Frame:
    """Set a label from another one, where the pattern matches it whole. Raises ExecutionError for bad arguments."""
    try:
        regex = compile_regex(pattern)
    except ValueError:
        raise ExecutionError(f"invalid regular expression in label_replace(): {pattern}") from None
    _check_label(target, "destination", "label_replace")
    results: dict[str, str | None] = {}
    labels = []
    for each in frame.labels:
        value = label_value(each, source)
        if value not in results:
            found = regex.fullmatch(value)
            results[value] = None if found is None else expand(regex, found, replacement, value)
        result = results[value]
        labels.append(each if result is None else _set_label(each, target, result))
    return merge_same_labels(labels, frame.values, frame.present)


def expand(regex: Regex, match: Match, template: str, text: str) -> str:
    """Fill `$1`, `$name` and `${name}` from a match; `$$` is a dollar sign, unknown groups are empty."""

    def fill(reference: re.Match[str]) -> str:
        if reference[1]:
            return "$"
        name = reference[2] or reference[3]
        if not name:
            return reference[0]
        group = int(name) if _GROUP_NUMBER.fullmatch(name) else regex.groupindex.get(name, -1)
        if not 0 <= group <= regex.groups:
            return ""
        start, end = match.span(group)
        return text[start:end] if start >= 0 else ""

    return _REFERENCE.sub(fill, template)


def join_labels(frame: Frame, target: str, separator: str, sources: list[str]) -> Frame:
    """Set a label to the joined values of others. Raises ExecutionError for bad arguments."""
    for source in sources:
        _check_label(source, "source", "label_join")
    _check_label(target, "destination", "label_join")
    labels = []
    for each in frame.labels:
        values = dict(each)
        labels.append(_set_label(each, target, separator.join([values.get(source, "") for source in sources])))
    return merge_same_labels(labels, frame.values, frame.present)


def _check_label(name: str, role: str, function: str) -> None:
    if not is_valid_name(name):
        raise ExecutionError(f"invalid {role} label name in {function}(): {name}")


def is_valid_name(name: str) -> bool:
    """Tell whether a text can name a label: anything but nothing, and bytes that are not UTF-8, which the lexer has
    turned into replacement characters."""
    return bool(name) and "\ufffd" not in name


def _set_label(labels: Labels, name: str, value: str) -> Labels:
    return make_labels((*(pair for pair in labels if pair[0] != name), (name, value)))


def sort_by_value(frame: Frame, *, descending: bool) -> Frame:
    """Order the rows by the value at the only step, NaN last; at several steps order has no meaning."""
    if frame.steps != 1:
        return frame
    values = frame.values[:, 0]
    keys = -values if descending else values
    return frame.take(np.lexsort((keys, np.isnan(values))))


def sort_by_labels(frame: Frame, names: list[str], *, descending: bool) -> Frame:
    """Order the rows by label values in natural order, then by all labels."""
    if frame.steps != 1:
        return frame

    def compare(a: int, b: int) -> int:
        first, second = frame.labels[a], frame.labels[b]
        for name in names:
            one, other = label_value(first, name), label_value(second, name)
            if one != other:
                return -1 if natural_less(one, other) else 1
        return (first > second) - (first < second)

    order = sorted(range(len(frame.labels)), key=cmp_to_key(compare), reverse=descending)
    return frame.take(order)


def natural_less(a: str, b: str) -> bool:
    """Compare texts so that numbers inside them count as numbers: x2 comes before x10."""
    left, right = _DIGITS.split(a), _DIGITS.split(b)
    for one, other in zip(left, right, strict=False):
        if one == other:
            continue
        if one.isdigit() and other.isdigit():
            if int(one) != int(other):
                return int(one) < int(other)
            continue
        return one < other
    return len(left) < len(right) if len(left) != len(right) else a < b


def absent(present: BoolArray, argument: nodes.Expr) -> Frame:
    """Return 1 at the steps where nothing is present; labels come from the selector's equality matchers."""
    missing: BoolArray = np.logical_not(present.any(axis=0, keepdims=True))
    return Frame([absent_labels(argument)], np.ones(missing.shape), missing)


def absent_labels(argument: nodes.Expr) -> Labels:
    """Derive labels for a missing series: those that one matcher alone fixes to a value."""
    argument = nodes.unwrap(argument)
    if isinstance(argument, nodes.MatrixSelector):
        argument = argument.selector
    if not isinstance(argument, nodes.VectorSelector):
        return ()
    values: dict[str, str] = {}
    equal: set[str] = set()
    for matcher in argument.matchers:
        if matcher.name == METRIC_NAME:
            continue
        if matcher.op == "=" and matcher.name not in equal:
            equal.add(matcher.name)
            values[matcher.name] = matcher.value
        else:
            values.pop(matcher.name, None)
    return make_labels(values.items())


def with_label(frame: Frame, name: str, value: str) -> Frame:
    """Set a label to the same value on every row."""
    return Frame([_set_label(each, name, value) for each in frame.labels], frame.values, frame.present)
