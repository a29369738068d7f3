"""Relabel steps on an event's tags."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from tocsin.plugin import invalid

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
DOT = "___"
"""Stands for a dot in label names while the steps run, so that names can be used in patterns."""
Labels = dict[str, str]


@dataclass(frozen=True)
class Step:
    """One relabel step with its defaults filled in."""

    action: str
    source_labels: tuple[str, ...]
    separator: str
    regex: str
    modulus: int
    target_label: str
    replacement: str


def check_relabel(configs: Any) -> None:
    """Raise ``invalid`` for steps that cannot be used."""
    if configs is None:
        return
    try:
        steps = parse_steps(configs)
    except (TypeError, ValueError) as error:
        raise invalid(f"invalid event_relabel_config: {error}") from None
    for index, step in enumerate(steps):
        for label in step.source_labels:
            if not LABEL_NAME.fullmatch(label):
                raise invalid(
                    f'event_relabel_config[{index}]: "{label}" is not a valid label name in source_labels'
                )  # fmt: skip


def parse_steps(configs: Any) -> list[Step]:
    """Return the steps of a JSON array; raise :class:`TypeError` naming what is wrong."""
    if not isinstance(configs, list):
        raise TypeError(f"got {type(configs).__name__}, expected an array")
    return [_parse(index, config) for index, config in enumerate(configs)]


def _parse(index: int, config: Any) -> Step:
    if not isinstance(config, Mapping):
        raise TypeError(f"[{index}]: got {type(config).__name__}, expected an object")
    sources = config.get("source_labels") or []
    if not isinstance(sources, list) or not all(isinstance(label, str) for label in sources):
        raise TypeError(f"[{index}].source_labels: expected an array of texts")
    modulus = config.get("modulus") or 0
    if isinstance(modulus, bool) or not isinstance(modulus, int) or modulus < 0:
        raise TypeError(f"[{index}].modulus: got {modulus!r}, expected a number of at least 0")
    texts = {name: config.get(name) for name in ("action", "separator", "regex", "target_label", "replacement")}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"[{index}].{name}: got {type(value).__name__}, expected a text")
    return Step(
        texts["action"] or "",
        tuple(sources),
        texts["separator"] or ";",
        texts["regex"] or "(.*)",
        modulus,
        texts["target_label"] or "",
        "$1" if texts["replacement"] is None else texts["replacement"],
    )


def relabelled(tags: Sequence[str], steps: Sequence[Step]) -> list[str]:
    """Return ``key=value`` tags after all steps, ordered by name descending."""
    labels = {key.replace(".", DOT): value for key, _, value in (tag.partition("=") for tag in tags)}
    for step in steps:
        action = ACTIONS.get(step.action)
        pattern = _compiled(step.regex)
        if action is not None and pattern is not None:
            labels = action(step, pattern, labels)
    return [f"{key.replace(DOT, '.')}={labels[key]}" for key in sorted(labels, reverse=True)]


@lru_cache(maxsize=1024)
def _compiled(regex: str) -> Any:
    try:
        options = re2.Options()
        options.log_errors = False
        return re2.compile(regex, options)
    except re2.error:
        return None


def _joined(step: Step, labels: Labels) -> str:
    return step.separator.join(labels.get(name, "") for name in step.source_labels)


def _without(labels: Labels, name: str) -> Labels:
    return {key: value for key, value in labels.items() if key != name}


def expanded(match: Any, template: str) -> str:
    """Return ``template`` with ``$1``, ``${1}`` and ``${name}`` replaced by the match's groups."""

    def group(found: re.Match[str]) -> str:
        name = found.group(1) or found.group(2)
        try:
            return match.group(int(name) if name.isdigit() else name) or ""
        except (IndexError, KeyError, ValueError, OverflowError):  # also digits that are no number for Python
            return ""

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", group, template)


def _replace(step: Step, pattern: Any, labels: Labels) -> Labels:
    if not step.target_label:
        return labels
    if not step.source_labels:
        return {**labels, step.target_label: step.replacement}
    match = pattern.search(_joined(step, labels))
    if match is None:
        return labels
    value = expanded(match, step.replacement)
    if not value or not LABEL_NAME.fullmatch(step.target_label):
        return _without(labels, step.target_label)
    return {**labels, step.target_label: value}


def _keep(step: Step, pattern: Any, labels: Labels) -> Labels:
    return labels if pattern.search(_joined(step, labels)) else {}


def _drop(step: Step, pattern: Any, labels: Labels) -> Labels:
    return {} if pattern.search(_joined(step, labels)) else labels


def _case(change: Callable[[str], str]) -> Callable[[Step, Any, Labels], Labels]:
    def apply(step: Step, _: Any, labels: Labels) -> Labels:
        return {**labels, step.target_label: change(_joined(step, labels))}

    return apply


def _hashmod(step: Step, _: Any, labels: Labels) -> Labels:
    if not step.modulus:
        return labels
    digest = hashlib.md5(_joined(step, labels).encode(), usedforsecurity=False).digest()
    return {**labels, step.target_label: str(int.from_bytes(digest[8:], "big") % step.modulus)}


def _labelmap(step: Step, pattern: Any, labels: Labels) -> Labels:
    found = dict(labels)
    for key, value in labels.items():
        match = pattern.search(key)
        if match is not None:
            found[key[: match.start()] + expanded(match, step.replacement) + key[match.end() :]] = value
    return found


def _labeldrop(_: Step, pattern: Any, labels: Labels) -> Labels:
    return {key: value for key, value in labels.items() if not pattern.search(key)}


def _labelkeep(_: Step, pattern: Any, labels: Labels) -> Labels:
    return {key: value for key, value in labels.items() if pattern.search(key)}


def _drop_if_equal(step: Step, _: Any, labels: Labels) -> Labels:
    values = {labels.get(name, "") for name in step.source_labels}
    return {} if len(step.source_labels) >= 2 and len(values) == 1 else labels


ACTIONS: Mapping[str, Callable[[Step, Any, Labels], Labels]] = {
    "replace": _replace,
    "keep": _keep,
    "drop": _drop,
    "lowercase": _case(str.lower),
    "uppercase": _case(str.upper),
    "hashmod": _hashmod,
    "labelmap": _labelmap,
    "labeldrop": _labeldrop,
    "labelkeep": _labelkeep,
    "drop_if_equal": _drop_if_equal,
}
