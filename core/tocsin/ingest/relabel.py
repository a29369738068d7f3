"""Prometheus relabelling, per writer.

Actions and defaults follow Prometheus's documentation of `relabel_config`, with `drop_if_equal` beside them; the keys are those
of `[[Pushgw.Writers.WriteRelabels]]`. Regular expressions are RE2, anchored at both ends, and `.` matches line ends too, as in
Prometheus 3.
Like the label work it runs once per distinct label set, behind a label cache.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import re2

from tocsin.ingest.interface import Verdict
from tocsin.ingest.labels import DropReason

log = logging.getLogger(__name__)

DEFAULT_REGEX = "(.*)"
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z", re.ASCII)
_TEMPLATE = re2.compile(r"\$(?:(\$)|([\pL\p{Nd}_]+)|\{([\pL\p{Nd}_]+)\})")
"""A reference is as long as it can be, and letters and digits of any script belong to it."""
_GROUP_NUMBER = re.compile(r"0|[1-9][0-9]{0,7}", re.ASCII)


class RelabelError(ValueError):
    """A relabel rule that cannot work; the text names the key, what came and what was expected."""


@dataclass(frozen=True)
class RelabelRule:
    """One rule, as configured."""

    action: str = "replace"
    source_labels: tuple[str, ...] = ()
    separator: str = ";"
    regex: str = DEFAULT_REGEX
    modulus: int = 0
    target_label: str = ""
    replacement: str = "$1"


_KEYS = {item.name.replace("_", ""): item for item in fields(RelabelRule)}
"""Fields by the lower-case name of their key: keys match without regard to case."""


def parse_rule(raw: Mapping[str, Any], where: str) -> RelabelRule:
    """Read one `WriteRelabels` table; unknown keys are named in a warning.

    :param where: the table's place in the configuration, for messages.
    :raises RelabelError: a value of a wrong type.
    """
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key.lower() not in _KEYS:
            log.warning("%s.%s is not a known key and has no effect", where, key)
            continue
        name, kind = _KEYS[key.lower()].name, _KEYS[key.lower()].type
        if name == "source_labels":
            if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, str) for v in value):
                raise RelabelError(f"{where}.{key}: expected an array of strings, got {value!r}")
            value = tuple(value)
        elif not isinstance(value, int if kind == "int" else str) or isinstance(value, bool):
            raise RelabelError(f"{where}.{key}: expected {'a number' if kind == 'int' else 'a string'}, got {value!r}")
        values[name] = value
    rule = RelabelRule(**values)
    _compile(rule, where)
    if rule.action.lower() == "replace" and not rule.target_label:
        log.warning("%s has no TargetLabel and has no effect", where)
    return rule


Labels = dict[str, str]
_Step = Callable[[Labels], "Labels | None"]
_Match = Callable[[str], Any]


def expand(template: str, match: Any) -> str:
    """Fill `$1`, `${1}`, `$name` and `${name}` of a template; an unknown group is empty and `$$` is a dollar sign."""

    def fill(found: Any) -> str:
        if found[1]:
            return "$"
        group = found[2] or found[3]
        try:
            return match.group(int(group) if _GROUP_NUMBER.fullmatch(group) else group) or ""
        except (IndexError, KeyError):
            return ""

    return str(_TEMPLATE.sub(fill, template))


class Relabeler:
    """A chain of rules: a resolver for the label cache of a writer."""

    def __init__(self, rules: Iterable[RelabelRule], where: str = "WriteRelabels") -> None:
        """Compile the rules.

        :raises RelabelError: an unknown action, an invalid regular expression, or a key that the action needs.
        """
        self._steps = [_compile(rule, f"{where}[{index}]") for index, rule in enumerate(rules)]

    def apply(self, labels: Labels) -> Labels | None:
        """Return the labels after all rules, without empty ones; None when the series is dropped."""
        labels = {name: value for name, value in labels.items() if value}
        for step in self._steps:
            changed = step(labels)
            if changed is None:
                return None
            labels = {name: value for name, value in changed.items() if value}
        return labels or None

    def __call__(self, labels: list[tuple[bytes, bytes]]) -> Verdict:
        """Decide on a label set as the label cache asks for it; bytes that are not UTF-8 become U+FFFD."""
        text = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in labels}
        changed = self.apply(text)
        if changed is None:
            return Verdict((), drop=DropReason.RELABEL)
        return Verdict([(name.encode(), value.encode()) for name, value in sorted(changed.items())])


def _compile(rule: RelabelRule, where: str) -> _Step:
    """Turn a rule into a function."""
    maker = _ACTIONS.get(rule.action.lower())
    if maker is None:
        raise RelabelError(f"{where}.Action: expected one of {', '.join(_ACTIONS)}, got {rule.action!r}")
    options = re2.Options()
    options.log_errors = False
    pattern = f"(?s:{rule.regex})"
    try:
        match = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        reason = error.args[0].decode(errors="replace").removesuffix(f": {pattern}")
        raise RelabelError(f"{where}.Regex: {rule.regex!r} is not a regular expression: {reason}") from error
    return maker(rule, match, where)


def _value(rule: RelabelRule, labels: Labels) -> str:
    """Join the source labels."""
    return rule.separator.join(labels.get(name, "") for name in rule.source_labels)


def _need_target(rule: RelabelRule, where: str) -> None:
    if not _LABEL_NAME.match(rule.target_label):
        got = repr(rule.target_label) if rule.target_label else "nothing"
        raise RelabelError(f"{where}.TargetLabel: expected a label name for action {rule.action!r}, got {got}")


def _only(rule: RelabelRule, where: str, *used: str) -> None:
    """Refuse keys that an action has no use for: whoever gave them expects something else, as a rule to lose less."""
    for item in fields(RelabelRule):
        if item.name not in ("action", *used) and getattr(rule, item.name) != item.default:
            key = item.name.title().replace("_", "")
            raise RelabelError(f"{where}.{key}: action {rule.action!r} has no use for this key")


def _replace(rule: RelabelRule, match: _Match, where: str) -> _Step:
    def step(labels: Labels) -> Labels:
        found = match(_value(rule, labels)) if rule.target_label else None
        if found is None:
            return labels
        target = expand(rule.target_label, found)
        if _LABEL_NAME.match(target):
            return {**labels, target: expand(rule.replacement, found)}
        return {**labels, rule.target_label: ""}

    return step


def _keep(rule: RelabelRule, match: _Match, where: str) -> _Step:
    return lambda labels: labels if match(_value(rule, labels)) else None


def _drop(rule: RelabelRule, match: _Match, where: str) -> _Step:
    return lambda labels: None if match(_value(rule, labels)) else labels


def _keep_equal(rule: RelabelRule, match: _Match, where: str) -> _Step:
    _need_target(rule, where)
    _only(rule, where, "source_labels", "separator", "target_label")
    return lambda labels: labels if _value(rule, labels) == labels.get(rule.target_label, "") else None


def _drop_equal(rule: RelabelRule, match: _Match, where: str) -> _Step:
    _need_target(rule, where)
    _only(rule, where, "source_labels", "separator", "target_label")
    return lambda labels: None if _value(rule, labels) == labels.get(rule.target_label, "") else labels


def _hashmod(rule: RelabelRule, match: _Match, where: str) -> _Step:
    _need_target(rule, where)
    if rule.modulus < 1:
        raise RelabelError(f"{where}.Modulus: expected a number above 0 for action 'hashmod', got {rule.modulus}")

    def step(labels: Labels) -> Labels:
        digest = hashlib.md5(_value(rule, labels).encode(), usedforsecurity=False).digest()
        return {**labels, rule.target_label: str(int.from_bytes(digest[8:], "big") % rule.modulus)}

    return step


def _lowercase(rule: RelabelRule, match: _Match, where: str) -> _Step:
    _need_target(rule, where)
    return lambda labels: {**labels, rule.target_label: "".join(map(_lower, _value(rule, labels)))}


def _uppercase(rule: RelabelRule, match: _Match, where: str) -> _Step:
    _need_target(rule, where)
    return lambda labels: {**labels, rule.target_label: "".join(map(_upper, _value(rule, labels)))}


def _lower(character: str) -> str:
    """Return the one lower-case character that Unicode gives a character, whatever stands beside it."""
    return character.lower()[0]


def _upper(character: str) -> str:
    """Return the one upper-case character that Unicode gives a character, itself when there is none."""
    forms = (character.upper(), character.title())  # the latter of Greek letters whose upper case is in two parts
    return next((form for form in forms if len(form) == 1), character)


def _labelmap(rule: RelabelRule, match: _Match, where: str) -> _Step:
    if not _LABEL_NAME.match(_TEMPLATE.sub("x", rule.replacement)):
        raise RelabelError(f"{where}.Replacement: expected what makes a label name, got {rule.replacement!r}")

    def step(labels: Labels) -> Labels:
        found = ((match(name), value) for name, value in sorted(labels.items()))
        named = {expand(rule.replacement, hit): value for hit, value in found if hit}
        named.pop("", None)
        return {**labels, **named}

    return step


def _labeldrop(rule: RelabelRule, match: _Match, where: str) -> _Step:
    _only(rule, where, "regex")
    return lambda labels: {name: value for name, value in labels.items() if not match(name)}


def _labelkeep(rule: RelabelRule, match: _Match, where: str) -> _Step:
    _only(rule, where, "regex")
    return lambda labels: {name: value for name, value in labels.items() if match(name)}


def _drop_if_equal(rule: RelabelRule, match: _Match, where: str) -> _Step:
    def step(labels: Labels) -> Labels | None:
        values = [labels.get(name, "") for name in rule.source_labels]
        return None if len(values) > 1 and len(set(values)) == 1 else labels

    return step


_ACTIONS: dict[str, Callable[[RelabelRule, _Match, str], _Step]] = {
    "replace": _replace,
    "keep": _keep,
    "drop": _drop,
    "keepequal": _keep_equal,
    "dropequal": _drop_equal,
    "hashmod": _hashmod,
    "lowercase": _lowercase,
    "uppercase": _uppercase,
    "labelmap": _labelmap,
    "labeldrop": _labeldrop,
    "labelkeep": _labelkeep,
    "drop_if_equal": _drop_if_equal,
}
